"""What a trace says of the work of one process, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracekit.units.sequence import Flags, Ints, Sequence


@dataclass(frozen=True)
class Spans:
    """Stretches of the host's time, by their start."""

    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Ints | Flags) -> Spans:
        """Some of them."""
        return Spans(self.start[which], self.end[which])


@dataclass(frozen=True)
class Frames:
    """Python frames, modules and ranges that may recur, by their start."""

    spans: Spans
    tid: Ints
    parent: Ints
    """The event around each; negative: none."""
    name: list[str]
    is_range: Flags
    is_module: Flags
    in_module: Flags
    """It runs inside a module."""


@dataclass(frozen=True)
class ServerSteps:
    """Steps that an inference server annotates; negative counts: unknown."""

    spans: Spans
    name: list[str]
    kind: list[str]
    requests: Ints
    tokens: Ints


@dataclass(frozen=True)
class Launched:
    """What each launch launched, and where."""

    tid: Ints
    outer_start: Ints
    """When the outermost operator around the launch began, else the launch."""
    outer_end: Ints
    done: Ints
    """When the last of its GPU ops ended."""
    gpu_ops: Ints
    is_transfer: Flags
    """It copies from or to the host."""
    is_graph: Flags

    def take(self, which: Ints) -> Launched:
        """Some of them."""
        return Launched(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class HostProcess:
    """The launches of a process with all that tells which of them are one unit of work."""

    launches: Sequence
    launched: Launched
    marks: Spans
    mark_names: list[str]
    server_steps: ServerSteps
    frames: Frames
    backward: Ints
    """When operators of a backward pass began, sorted."""
    optimizer: Ints
    """When steps of an optimizer began, sorted."""
    cold_work: Spans
    """Compilation on the launching threads."""
    has_device: bool
    stopped: int
    """When the host launched the first op at the end that was not recorded."""

    def of_thread(self, tid: int) -> HostProcess:
        """The launches of one thread alone."""
        which = np.flatnonzero(self.launched.tid == tid)
        launches = self.launches[which].renumbered()
        return replace(self, launches=launches, launched=self.launched.take(which))

    def on_device(self, spans: Spans) -> Spans:
        """From when the device has finished what was launched before each span to when it has
        finished what was launched so far."""
        first = np.searchsorted(self.launches.start, spans.start)
        stop = np.searchsorted(self.launches.start, spans.end)
        # Before the first launch, the device has nothing to finish.
        earliest, done = spans.start.min(initial=0), self._done_by
        before, so_far = (np.where(at > 0, done[at], earliest) for at in (first, stop))
        return Spans(np.maximum(spans.start, before), np.maximum(spans.end, so_far))

    @cached_property
    def _done_by(self) -> Ints:
        """When the device has finished the launches before each index; 0 for the first."""
        return np.append(0, np.maximum.accumulate(self.launched.done))


def count_in(times: Ints, spans: Spans) -> Ints:
    """How many of some sorted times lie in each span."""
    return np.searchsorted(times, spans.end) - np.searchsorted(times, spans.start)
