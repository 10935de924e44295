"""Profiles steps N to M of a framework's training loop without ever disturbing it.

The framework's callbacks only say when training begins, when a step ends and when training ends.
`tracekit.profile` records.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from tracekit.capture.output import rank_and_world
from tracekit.capture.profile import profile
from tracekit.capture.recorder import import_torch
from tracekit.errors import TracekitError, first_line
from tracekit.files import temporary_folder
from tracekit.frameworks.judging import judge, verdict_paths

_P = ParamSpec("_P")
_log = logging.getLogger("tracekit")
# The number of steps to time without the profiler before the recorded ones, if possible.
_TIMED = 3
# The dry run: one step without the profiler, one for its startup, and one measured step.
_DRY = 3


class TracekitWarning(UserWarning):
    """tracekit could not profile a training run; the training itself continues."""


def _harmless(
    hook: Callable[Concatenate[StepRecorder, _P], None],
) -> Callable[Concatenate[StepRecorder, _P], None]:
    """Turns any failure of a hook into a warning, and ends the profiling."""

    @wraps(hook)
    def guarded(self: StepRecorder, /, *arguments: _P.args, **options: _P.kwargs) -> None:
        try:
            hook(self, *arguments, **options)
        except Exception as error:
            self._give_up(first_line(error))

    return guarded


class StepRecorder:
    """Records the steps `steps[0]` to `steps[1]` (both included; the first step is 1).

    Steps are counted from the point where this process begins to train. Before the recorded steps,
    one step is recorded to see how large its trace is; `estimate_mb` is that size times the number
    of steps. If it exceeds `max_mb`, fewer steps are recorded. If the final trace is larger anyway,
    it is not kept. A first step below 6 leaves no room for that estimate.

    The trace is written when the last step ends: `path`. The verdict is written after training,
    beside it: `path` with .verdict.json and .verdict.txt. `ranks` are the ranks that record; None
    means all. Any failure becomes a TracekitWarning, and training goes on.

    Raises:
        TracekitError: when the arguments are not valid.
    """

    def __init__(
        self,
        output: str | Path,
        steps: tuple[int, int] = (10, 14),
        *,
        ranks: Collection[int] | None = (0,),
        shapes: bool = False,
        stacks: bool = False,
        memory: bool = False,
        max_mb: float = 100,
        verdict: bool = True,
    ) -> None:
        first, last = steps
        if first < 3 or last < first:
            raise TracekitError(
                f"steps={first, last}: give the first and the last step to record; the first must "
                "be 3 "
                "or later, since two steps before it are needed to time one and start the profiler"
            )
        if max_mb <= 0:
            raise TracekitError(f"max_mb={max_mb:g}: give the megabytes that a trace may take")
        self._asked = last - first + 1
        before = first - 1
        self._has_dry = before >= _DRY + 2
        # One more step absorbs the profiler's startup.
        self._timed = min(_TIMED, before - 1 - (_DRY if self._has_dry else 0))
        self._record_at = before - 1 - self._timed
        self._dry_at = self._record_at - _DRY if self._has_dry else -1
        self._what: dict[str, Any] = {"shapes": shapes, "stacks": stacks, "memory": memory}
        self._ranks = None if ranks is None else frozenset(ranks)
        self._max_mb, self._wants_verdict = max_mb, verdict
        # Training may change the working directory.
        self.output = Path(output).absolute()
        profile(self.output, self._asked)  # Checks the name.
        self._reset()

    def _reset(self) -> None:
        self.path: Path | None = None
        """The trace, once it is written."""
        self.estimate_mb: float | None = None
        """The expected size of the trace, compressed."""
        self.problem = ""
        """Why there is no trace, or one of fewer steps."""
        self._count = 0
        self._thread = 0
        self._live = False
        self._restarts = False
        self._recording: _Recording | None = None

    @_harmless
    def begin(self) -> None:
        """Training begins."""
        self._close()
        self._reset()
        for other in list(_live):
            # Some frameworks do not say that a training has failed.
            if other is not self and other._thread == threading.get_ident():
                other._give_up(f"{other.output}: another training started before this one ended")
        self._thread = threading.get_ident()
        torch = import_torch()
        rank, _ = rank_and_world(torch)
        self._live = self._ranks is None or rank in self._ranks
        if self._live:
            _live.add(self)
            _at_end_of_cell(self.fail)
            self.output.parent.mkdir(parents=True, exist_ok=True)
            self._advance()

    @_harmless
    def step(self) -> None:
        """A step has ended."""
        if not self._live:
            return
        if self._recording is not None:
            self._recording.step()
        if self._restarts:
            self._restarts = False
            again = self._has_dry and self.estimate_mb is None
            self._count = self._dry_at if again else self._record_at
        else:
            self._count += 1
        self._advance()

    @_harmless
    def interrupt(self, what: str) -> None:
        """Something other than a step begins between two steps, such as an evaluation.

        The steps recorded so far are written; if there is no whole step yet, the recording moves
        behind the interruption.
        """
        recording = self._recording
        if not self._live or recording is None:
            return
        if not recording.is_dry and recording.recorded_steps:
            self._shorten(recording, f"{what} began")
            return
        self._close()
        self._restarts = True

    @_harmless
    def finish(self) -> None:
        """Training has ended: writes the trace if it is not yet written, and the verdict."""
        recording = self._recording
        if recording is not None and not recording.is_dry and recording.recorded_steps:
            self._shorten(recording, "training ended")
        elif self._live:
            raise TracekitError(
                f"{self.output}: training ended before a step was recorded: give earlier steps"
            )
        if self.path is not None and self._wants_verdict:
            bound = judge(self.path)
            _log.info("%s: %s", self.path, bound)

    @_harmless
    def fail(self) -> None:
        """Training has failed: ends the profiler."""
        if self._live:
            raise TracekitError(f"{self.output}: training failed, so its trace is not written")

    def _advance(self) -> None:
        """Begins or ends the recording that is due after this step."""
        recording = self._recording
        if recording is not None and (
            recording.recorded_steps == recording.steps or recording.yielded
        ):
            self._end(recording)
        if self._live and self._recording is None and not self._restarts:
            if self._count == self._dry_at:
                self._recording = _Recording(self, is_dry=True, timed=1, steps=1)
            elif self._count == self._record_at:
                self._recording = _Recording(
                    self, is_dry=False, timed=self._timed, steps=self._steps_that_fit()
                )

    def _end(self, recording: _Recording) -> None:
        self._recording = None
        size_mb = recording.end()
        if recording.yielded:
            raise TracekitError(
                f"{self.output}: another profiler has started, and PyTorch runs one at a time: "
                "this one ended, and its trace is not written"
            )
        if recording.is_dry:
            self.estimate_mb = size_mb * self._asked
            _log.info(
                "%s: about %.1f MB expected, from one step of %.1f MB",
                self.output, self.estimate_mb, size_mb,
            )  # fmt: skip
        else:
            self.path, self._live = recording.path, False
            _live.discard(self)
            for stale in verdict_paths(self.path):
                stale.unlink(missing_ok=True)
            _log.info("%s: written, %.1f MB", self.path, size_mb)

    def _steps_that_fit(self) -> int:
        """The number of steps expected to fit into `max_mb`."""
        if self.estimate_mb is None or self.estimate_mb <= self._max_mb:
            return self._asked
        size_mb = self.estimate_mb / self._asked
        steps = int(self._max_mb / size_mb)
        expected = f"{self.output}: a step takes about {size_mb:.1f} MB"
        if not steps:
            raise TracekitError(f"{expected}, more than max_mb={self._max_mb:g}: none is recorded")
        self._warn(f"{expected}: {steps} of {self._asked} are recorded (max_mb={self._max_mb:g})")
        return steps

    def _shorten(self, recording: _Recording, why: str) -> None:
        recording.cut()
        self._end(recording)
        got = recording.steps
        self._warn(f"{self.output}: {why}, so {got} of {self._asked} steps are recorded")

    def _give_up(self, why: str) -> None:
        self._live = False
        _live.discard(self)
        try:
            self._close()
        except Exception as error:
            why = f"{why} ({first_line(error)})"
        self._warn(why)

    def _close(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.abandon()

    def _warn(self, message: str) -> None:
        self.problem = message
        try:
            # The calling line is in the framework, and means nothing to the user.
            warnings.warn_explicit(message, TracekitWarning, "tracekit", 1)
        except Warning:  # Training goes on even if warnings are errors.
            _log.warning(message)


class RecordsSteps:
    """Records steps of a training loop by hooks that a framework or the user calls."""

    def __init__(
        self, output: str | Path, steps: tuple[int, int] = (10, 14), **options: Any
    ) -> None:
        self.recorder = StepRecorder(output, steps, **options)


_live: weakref.WeakSet[StepRecorder] = weakref.WeakSet()


def _at_end_of_cell(hook: Callable[[], None]) -> None:
    """In a notebook of Jupyter, calls `hook` after the cell, which may have failed."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return

    def ended(*_: object) -> None:
        shell.events.unregister("post_run_cell", ended)
        hook()

    shell.events.register("post_run_cell", ended)


class _Recording(profile):
    """One recording; it also ends with the recorder that began it, or with the program."""

    def __init__(self, owner: StepRecorder, *, is_dry: bool, timed: int, steps: int) -> None:
        self.is_dry = is_dry
        self._folder, output = ExitStack(), owner.output
        if is_dry:
            output = self._folder.enter_context(temporary_folder()) / "step.json.gz"
        super().__init__(output, steps, warmup=timed, **owner._what)
        self.yields = True
        self.max_mb = None if is_dry else owner._max_mb
        try:
            self.__enter__()
        except BaseException:
            self._folder.close()
            raise
        self._finalizer = weakref.finalize(owner, self.abandon)

    def end(self) -> float:
        """Writes the trace; returns its size in MB, or 0 if another profiler ended it."""
        self._finalizer.detach()
        with self._folder:
            try:
                self.__exit__(None, None, None)
                return 0 if self.yielded else self.path.stat().st_size / 1e6
            except BaseException:
                self.abandon()
                raise

    def abandon(self) -> None:
        """Ends the recording without a trace."""
        self._finalizer.detach()
        with self._folder:
            self.__exit__(GeneratorExit, GeneratorExit(), None)
