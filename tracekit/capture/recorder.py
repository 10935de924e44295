"""Runs torch.profiler as the only profiler, and only in the process that started it; times its
steps."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from tracekit.errors import TracekitError, first_line, needing

# An attribute of torch.autograd.profiler that is set while a profiler of any thread runs.
_FLAG = "_is_profiler_enabled"
# The time that another thread's profiler waits for a session that yields.
_LONGEST_STEP_S = 30
_WHAT_TO_DO = "run without the other profiler, or analyze the trace that it writes"
# Has the length of "ProfilerStep".
_PARTIAL = "partial step"
# A trace ends in this many bytes.
_TAIL_BYTES = 64


def import_torch() -> Any:
    """Imports torch with Kineto's logging off.

    Raises:
        TracekitError: when torch is not installed.
    """
    # Kineto logs to standard error by default, and reads this variable once.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    with needing("capture needs", "capture"):
        import torch
    return torch


class Recorder:
    """A torch.profiler session that refuses any other session while it lasts.

    With `steps`, it records that many, after `wait` steps without the profiler and one that absorbs
    its startup.

    Kineto records one session at a time: if a second one ends, it ends the first, too, and
    exporting the first then crashes. In a forked child of the process that started it, a recorder
    does nothing. With `yields`, another session does not fail: this one ends, without a trace, and
    the other one begins; `yielded` says so.

    Raises:
        TracekitError: at the start, when a profiler is already running; at a step or the end, when
            the code has stopped this session. If the code starts another session, that start
            raises it; with `yields`, only in another thread, if this one's next step takes longer
            than 30 s.
    """

    _active: Recorder | None = None

    def __init__(
        self,
        *,
        gpu: bool,
        shapes: bool,
        stacks: bool,
        memory: bool,
        steps: int | None = None,
        wait: int = 0,
        yields: bool = False,
    ) -> None:
        self._torch = torch = import_torch()
        activities = [torch.profiler.ProfilerActivity.CPU]
        if gpu:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self.steps, self._wait, self._gpu = steps, wait, gpu
        schedule = None
        if steps is not None:
            self._plan = torch.profiler.schedule(wait=wait, warmup=1, active=steps, repeat=1)
            schedule = self._action
        self._profile = torch.profiler.profile(
            activities=activities,
            schedule=schedule,
            record_shapes=shapes,
            with_stack=stacks,
            profile_memory=memory,
        )
        self._ends: list[int] = []
        self.done = 0
        self._owner = 0
        self._calling: int | None = None
        self._flagged = False
        self._alone = ExitStack()
        self._yields = yields
        self._thread = 0
        self._wanted, self._free = threading.Event(), threading.Event()
        self.yielded = False

    @property
    def here(self) -> bool:
        """Whether this is the process that started the session."""
        return os.getpid() == self._owner

    @contextmanager
    def refusing_others(self) -> Iterator[None]:
        """Blocks other profilers from now on, before the session itself begins."""
        if Recorder._active is self and self.here:
            yield
            return
        self._refuse_a_second()
        self._owner, self._thread = os.getpid(), threading.get_ident()
        Recorder._active = self
        profiler = self._torch.autograd.profiler
        # Every profiler starts through these two; emit_nvtx and emit_itt only through the second.
        starters = [
            (place, name, getattr(place, name))
            for place, name in (
                (profiler.profile, "_prepare_trace"),
                (profiler, "_enable_profiler"),
            )
            if hasattr(place, name)
        ]
        for place, name, start in starters:
            setattr(place, name, self._only_by_this(start))
        try:
            yield
        finally:
            if self.here:
                for place, name, start in starters:
                    setattr(place, name, start)
                Recorder._active = None

    def __enter__(self) -> Recorder:
        self._alone.enter_context(self.refusing_others())
        _let_children_exit()
        try:
            with self._calling_torch():
                self._profile.start()
        except BaseException:
            self._alone.close()
            raise
        return self

    def step(self) -> None:
        """Marks the end of a step of the schedule."""
        if not self.here:
            return
        if self._wanted.is_set():
            self._yield()
        if self.yielded:
            return
        self.done += 1
        first = self._wait + 1
        # Synchronize at both ends of the timed steps and of the recorded steps (the last: _action).
        if self.done in (1, self._wait, first):
            self.synchronize()
        self._ends.append(time.perf_counter_ns())
        self._require_running()
        with self._calling_torch():
            self._profile.step()
        if self.done == first:
            # The profiler has started.
            self._ends[-1] = time.perf_counter_ns()

    def _action(self, number: int) -> Any:
        """The profiler's action in a step, requested when the previous step has ended."""
        if self.steps is not None and number == self._wait + 1 + self.steps:
            # No recorded step contains this wait.
            self.synchronize()
            self._ends[-1] = time.perf_counter_ns()
        return self._plan(number)

    def synchronize(self) -> None:
        """Waits for the GPU."""
        if self._gpu:
            self._torch.cuda.synchronize()

    def facts(self) -> dict[str, Any]:
        """Metadata for the trace: PyTorch's version, and the step time with and without the
        profiler, in ns."""
        facts: dict[str, Any] = {"torch": self._torch.__version__}
        if self.steps is None:
            return facts
        plain, recorded = self._ends[: self._wait], self._ends[self._wait :]
        facts |= {"active_steps": self.steps, "warmup_steps": self._wait}
        facts["profiled_step_ns"] = (recorded[self.steps] - recorded[0]) // self.steps
        if len(plain) >= 2:
            facts["unprofiled_step_ns"] = int(statistics.mean(b - a for a, b in pairwise(plain)))
        return facts

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.here or self.yielded:
            return
        if self._wanted.is_set():
            self._yield()
            return
        try:
            self._require_running()
            with self._calling_torch():
                self._profile.stop()
        except Exception:
            setattr(self._torch.autograd.profiler, _FLAG, False)
            if kind is None:
                raise
        finally:
            self._alone.close()

    def export(self, path: Path, *, is_cut: bool = False) -> None:
        """Writes the finished session's trace as JSON.

        With `is_cut`, the session ended within a step, which is then not named like a whole one.

        Raises:
            TracekitError: when PyTorch cannot export it, or not all of it.
        """
        try:
            self._profile.export_chrome_trace(str(path))
        except RuntimeError as error:
            raise TracekitError(f"the trace cannot be exported: {first_line(error)}") from error
        if not _is_whole(path):
            raise TracekitError(
                f"PyTorch did not write the whole trace to {path.parent}: is the disk full?"
            )
        if is_cut:
            _rename(path, f"ProfilerStep#{self._profile.step_num}", _PARTIAL)

    @contextmanager
    def _calling_torch(self) -> Iterator[None]:
        self._calling = threading.get_ident()
        try:
            yield
        finally:
            self._calling = None
            self._flagged = getattr(self._torch.autograd.profiler, _FLAG, False)

    def _only_by_this(self, start: Callable[..., Any]) -> Callable[..., Any]:
        profiler = self._torch.autograd.profiler
        prepare = getattr(profiler.profile, "_prepare_trace", None)

        def guarded(*arguments: Any, **options: Any) -> Any:
            if not self.here or self._calling == threading.get_ident():
                return start(*arguments, **options)
            if self._yields and self._has_yielded():
                # emit_nvtx and emit_itt set this before they start.
                setattr(profiler, _FLAG, start is not prepare)
                return start(*arguments, **options)
            # emit_nvtx and emit_itt set the flag before they start.
            setattr(profiler, _FLAG, self._flagged)
            for session in arguments:
                if type(session) is profiler.profile:
                    # Ending this session would start it, and crash.
                    session._start_trace = _refuse
            _refuse()

        return guarded

    def _has_yielded(self) -> bool:
        """Ends this session for another one: at once, or at the next step of its own thread."""
        if self._thread == threading.get_ident():
            self._yield()
        else:
            self._wanted.set()
            if not self._free.wait(_LONGEST_STEP_S):
                self._wanted.clear()
        return self.yielded

    def _yield(self) -> None:
        self.yielded = True
        try:
            with self._calling_torch():
                self._profile.stop()
        finally:
            self._alone.close()
            self._free.set()

    def _refuse_a_second(self) -> None:
        profiler = self._torch.autograd.profiler
        active = Recorder._active
        if (
            (active is not None and active.here)
            or self._torch.autograd._profiler_enabled()
            or getattr(profiler, _FLAG, False)
            or any(type(o) is profiler.profile and _is_warming_up(o) for o in gc.get_objects())
        ):
            raise TracekitError(
                f"a profiler is already running, and PyTorch runs one at a time: {_WHAT_TO_DO}"
            )

    def _require_running(self) -> None:
        action = self._torch.profiler.ProfilerAction
        recording = self._profile.current_action in (action.RECORD, action.RECORD_AND_SAVE)
        if recording and not self._torch.autograd._profiler_enabled():
            raise TracekitError(
                "the profiler was stopped during the recording, or is being ended by another "
                "thread: begin and end the recording in one thread, and keep its profiler running"
            )


def _refuse() -> NoReturn:
    raise TracekitError(
        "starts its own profiler during the recording, and PyTorch runs one at a time: "
        f"{_WHAT_TO_DO}"
    )


def _is_warming_up(session: Any) -> bool:
    """Whether Kineto is prepared for a session that has not begun."""
    readied = getattr(getattr(session, "_stats", None), "profiler_prepare_call_duration_us", 0)
    return readied > 0 and not session.profiling_start_time_ns


@cache
def _let_children_exit() -> None:
    """Makes forked children exit by _exit from here on, since Kineto would hang them.

    At exit, Kineto destroys its ConfigLoader, which waits for a thread that a forked child does not
    have. A child calls _exit instead, after Python has ended and C's files are flushed.
    """
    if not hasattr(os, "register_at_fork"):  # Windows cannot fork.
        return
    library = ctypes.CDLL(None)
    with suppress(AttributeError):  # Some C libraries lack these functions, as on macOS.
        leave, at_exit, flush = library._exit, library.on_exit, library.fcloseall

        def in_child() -> None:
            at_exit(leave, None)
            at_exit(flush, None)  # The function registered last runs first.

        os.register_at_fork(after_in_child=in_child)


def _is_whole(exported: Path) -> bool:
    """Whether PyTorch wrote a trace completely, since it does not report failed writes."""
    try:
        with exported.open("rb") as file:
            file.seek(-min(_TAIL_BYTES, exported.stat().st_size), os.SEEK_END)
            return file.read().rstrip().endswith(b"}")
    except FileNotFoundError:
        return False


def _rename(exported: Path, name: str, start: str) -> None:
    """Replaces the start of a name in torch's trace by text of the same length."""
    whole = f'"{name}"'.encode()
    with exported.open("r+b") as file, mmap.mmap(file.fileno(), 0) as text:
        at = text.find(whole)
        while at >= 0:
            text[at + 1 : at + 1 + len(start)] = start.encode()
            at = text.find(whole, at)
