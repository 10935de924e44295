"""Records the user's own code: a context manager, a decorator, or a script run unchanged.

The trace is the one that `torch.profiler` records
(https://docs.pytorch.org/docs/stable/profiler.html). Its metadata adds the length of a step with
the profiler and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any, TypeVar

from tracekit.capture.output import NO_WORK, check_place, publish, rank_path, require_ending, save
from tracekit.capture.recorder import Recorder, import_torch
from tracekit.capture.usercode import (
    exit_status,
    is_deferred,
    name_errors,
    restored_streams,
    run_script,
)
from tracekit.errors import TracekitError

_Function = TypeVar("_Function", bound=Callable[..., Any])
# What a recorded block is called.
_SCRIPT = "script"


class profile(ContextDecorator):
    """Records a block, or a decorated function, and writes a trace or a database.

        with tracekit.profile("run.duckdb", steps=5) as run:
            for batch in loader:
                train(batch)
                run.step()

    `output` ends in .duckdb, .json, .json.gz or .json.zst; a database that was loaded is not
    replaced. In a distributed run each rank writes its own file (run.rank3.duckdb). With `steps`,
    the profiler records that many steps, after `warmup` steps that are timed without it and one
    step that absorbs its startup; `step()` marks the end of a step. Without `steps`, it records the
    whole block. A block that fails writes nothing; a block that ends by sys.exit(0) writes its
    trace. Only the process that entered the block writes: a forked child records nothing. A lake
    keeps `labels`, such as the commit, as columns.

    Raises:
        TracekitError: when PyTorch is missing, the output cannot be written, RANK and WORLD_SIZE
            contradict each other, a profiler is already running, or the block made too few steps.
            If the block starts a second profiler, that start raises it.
    """

    def __init__(
        self,
        output: str | Path,
        steps: int | None = None,
        *,
        warmup: int = 3,
        shapes: bool = True,
        stacks: bool = False,
        memory: bool = False,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if steps is not None and (steps < 1 or warmup < 1):
            raise TracekitError("profile needs at least one step to record and one to warm up")
        require_ending(output)
        self.output = Path(output)
        self.steps = steps
        self.warmup = warmup
        self.facts: dict[str, Any] = {}
        self.labels = dict(labels or {})
        self.nothing = ""
        """The error for a recording without work; if empty, such a recording is written."""
        self.max_mb: float | None = None
        """The largest trace to write, compressed; a larger one is an error."""
        self.script: str | None = None
        """The file of the running code, if it is not a module."""
        self.yields = False
        """Whether a second profiler ends this one instead of failing."""
        self._recorded = {"shapes": shapes, "stacks": stacks, "memory": memory}

    def __call__(self, function: _Function) -> _Function:
        if kind := is_deferred(function):
            raise TracekitError(
                f"{function.__qualname__}: a call only returns a {kind}, so there is nothing to "
                f"record yet: use `with tracekit.profile(...)` inside the function"
            )
        return super().__call__(function)

    def __enter__(self) -> profile:
        torch = import_torch()
        path = rank_path(self.output, torch)
        check_place(path, self.script)
        recorder = Recorder(
            gpu=torch.cuda.is_available(),
            steps=self.steps,
            wait=self.warmup,
            yields=self.yields,
            **self._recorded,
        )
        recorder.__enter__()
        self._recorder, self.path = recorder, path
        # The block may change the working directory.
        self._target = path.absolute()
        self._is_cut = False
        return self

    @property
    def yielded(self) -> bool:
        """Whether another profiler ended this one: nothing is written."""
        return self._recorder.yielded

    @property
    def recorded_steps(self) -> int:
        """The number of whole steps recorded so far."""
        return max(0, self._recorder.done - self.warmup - 1)

    def cut(self) -> None:
        """Ends the recording early, with the steps recorded so far.

        Raises:
            TracekitError: when no whole step is recorded yet.
        """
        if not self.recorded_steps:
            raise TracekitError(f"{self.output}: no step is recorded yet")
        self.steps = self._recorder.steps = self.recorded_steps
        self._is_cut = True

    def step(self) -> None:
        """Marks the end of a step.

        Raises:
            TracekitError: without `steps`, or when the code has stopped the profiler.
        """
        if self.steps is None:
            raise TracekitError("step() needs the number of steps to record: profile(..., steps=5)")
        self._recorder.step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        if not self._recorder.here:
            return
        # A program that exits with status 0 within the block ends well.
        well = kind is None or (isinstance(error, SystemExit) and exit_status(error) == 0)
        if well:
            self._recorder.synchronize()
            kind = None
        self._recorder.__exit__(kind)
        if well and not self.yielded:
            self._write()

    def _write(self) -> None:
        if self.steps is not None and self.recorded_steps < self.steps:
            raise TracekitError(
                f"{self.output}: the block made {self._recorder.done} steps; recording "
                f"{self.steps} needs {self.warmup + 1 + self.steps} (warmup={self.warmup}, and one "
                "for the profiler's startup)"
            )
        workload = Path(self.script).name if self.script else _SCRIPT
        self.facts = {"workload": workload} | self._recorder.facts()
        if self.labels:
            self.facts["labels"] = self.labels
        with publish(self._target, self.script) as beside:
            save(
                self._recorder,
                self.facts,
                beside,
                nothing=self.nothing,
                is_cut=self._is_cut,
                max_mb=self.max_mb,
            )


def profile_script(
    script: str, arguments: Sequence[str], output: str | Path, **options: Any
) -> Path:
    """Runs a Python script unchanged, as `python SCRIPT ARGUMENTS` would, and records all of it.

    Returns the trace's path: in a distributed run, the file of this rank.

    Raises:
        TracekitError: when the script does not exist, fails, runs a profiler itself, or runs no
            operator to record.
    """
    if not Path(script).is_file():
        raise TracekitError(f"{script}: no such file")
    recording = profile(output, **options)
    # The script may change the working directory.
    recording.nothing, recording.script = NO_WORK, str(Path(script).absolute())
    with name_errors(script), restored_streams(), recording:
        run_script(script, arguments)
    return recording.path
