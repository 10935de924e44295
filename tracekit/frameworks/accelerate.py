"""Profiles steps of a training loop that uses Hugging Face Accelerate.

with ProfileSteps(accelerator, "run.json.gz", steps=(10, 14)) as profiled:
    for batch in loader:
        ...
        profiled.step()
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError
from tracekit.frameworks.steps import RecordsSteps

try:
    from accelerate import Accelerator
except ImportError as error:
    raise TracekitError("ProfileSteps needs accelerate: pip install accelerate") from error


class ProfileSteps(RecordsSteps):
    """Records steps of a loop, and writes a trace and a verdict; a step ends with `step()`.

    With gradient accumulation, `step()` counts only when gradients are synchronized: a step is the
    optimizer's step. `recorder` has the result. See StepRecorder for the arguments.

    Raises:
        TracekitError: when the arguments are not valid; never later.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        output: str | Path,
        steps: tuple[int, int] = (10, 14),
        **options: Any,
    ) -> None:
        super().__init__(output, steps, **options)
        self._accelerator = accelerator

    def __enter__(self) -> ProfileSteps:
        self.recorder.begin()
        return self

    def step(self) -> None:
        """Marks the end of a step, after optimizer.step()."""
        if self._accelerator.sync_gradients:
            self.recorder.step()

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is None:
            self.recorder.finish()
        else:
            self.recorder.fail()
