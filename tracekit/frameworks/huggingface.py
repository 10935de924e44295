"""Profiles steps of a Hugging Face Trainer.

trainer = Trainer(..., callbacks=[ProfileTrainerCallback("run.json.gz", steps=(10, 14))])

The hooks: https://huggingface.co/docs/transformers/main_classes/callback
"""

from __future__ import annotations

from typing import Any

from tracekit.errors import TracekitError
from tracekit.frameworks.steps import RecordsSteps

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    raise TracekitError("this callback needs transformers: pip install transformers") from error


class ProfileTrainerCallback(RecordsSteps, TrainerCallback):  # type: ignore[misc]
    """Records steps of a Trainer, and writes a trace and a verdict; a step is the optimizer's step.

    `recorder` has the result. See StepRecorder for the arguments.

    Raises:
        TracekitError: when the arguments are not valid; never later.
    """

    def on_train_begin(self, *arguments: Any, **given: Any) -> None:
        self.recorder.begin()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        self.recorder.step()
        if control.should_evaluate:
            self.recorder.interrupt("an evaluation")

    def on_prediction_step(self, *arguments: Any, **given: Any) -> None:
        self.recorder.interrupt("an evaluation")

    def on_train_end(self, *arguments: Any, **given: Any) -> None:
        self.recorder.finish()
