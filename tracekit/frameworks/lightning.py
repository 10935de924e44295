"""Profiles steps of a Lightning Trainer, of the package lightning or pytorch_lightning.

trainer = Trainer(..., callbacks=[ProfileCallback("run.json.gz", steps=(10, 14))])

The hooks: https://lightning.ai/docs/pytorch/stable/extensions/callbacks.html
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from tracekit.errors import TracekitError
from tracekit.frameworks.steps import RecordsSteps


def _callback() -> Any:
    """The base class of the package that the program uses."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return import_module(name).Callback
        except ImportError:
            continue
    raise TracekitError("this callback needs Lightning: pip install lightning")


class ProfileCallback(RecordsSteps, _callback()):  # type: ignore[misc]
    """Records steps of a Lightning Trainer, and writes a trace and a verdict; a step is a batch.

    `recorder` has the result. See StepRecorder for the arguments.

    Raises:
        TracekitError: when the arguments are not valid; never later.
    """

    def on_train_start(self, *arguments: Any) -> None:
        self.recorder.begin()

    def on_train_batch_end(self, *arguments: Any) -> None:
        self.recorder.step()

    def on_validation_start(self, *arguments: Any) -> None:
        self.recorder.interrupt("a validation")

    def on_train_end(self, *arguments: Any) -> None:
        self.recorder.finish()

    def on_exception(self, *arguments: Any) -> None:
        self.recorder.fail()
