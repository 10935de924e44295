"""Windows of a replay: what lengths are measured between, as recorded and as replayed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tracekit.replay.critical_path import Path, critical_path, last_of
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Ints, Numbers, narrow
from tracekit.replay.simulator import Run

if TYPE_CHECKING:
    from tracekit.database.reader import Reader

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Bounds:
    """A window of a run: from the first beginning of some GPU ops and threads to their last end."""

    kind: str
    name: str
    ops: slice
    first_keys: Ints
    last_keys: Ints

    def start(self, run: Run) -> int:
        times = (run.op_start(self.ops), run.host_time(self.first_keys))
        return min(int(each.min()) for each in times if len(each))

    def end(self, run: Run) -> int:
        times = (run.op_end(self.ops), run.host_time(self.last_keys))
        return max(int(each.max()) for each in times if len(each))

    def length(self, run: Run) -> int:
        """Its length in ns."""
        return self.end(run) - self.start(run)

    def path(self, run: Run) -> Path:
        """The critical path through it: its links add up to its length."""
        end = run.op_end(self.ops)
        last = self.ops.start + np.flatnonzero(end == end.max())[:1] if len(end) else _NONE
        return critical_path(run, self.start(run), last_of(run, last, self.last_keys))


def gpu_active(graph: Graph, device_id: int) -> Bounds:
    """From the start of a device's first op to the end of its last."""
    # Ops are in order of their devices.
    first, stop = np.searchsorted(graph.device.device_id, [device_id, device_id + 1]).tolist()
    return Bounds("gpu_active", "GPU-active span", slice(first, stop), _NONE, _NONE)


def gpu_active_lengths(run: Run) -> dict[int, int]:
    """How long each device's GPU-active span is, in ns."""
    if not run.graph.ops:
        return {}
    device, first = np.unique(run.graph.device.device_id, return_index=True)
    every = slice(None)
    start = np.minimum.reduceat(run.op_start(every), first)
    end = np.maximum.reduceat(run.op_end(every), first)
    return dict(zip(device.tolist(), (end - start).tolist(), strict=True))


def whole(graph: Graph) -> Bounds:
    """From the first event of the trace to its last."""
    threads = np.arange(len(graph.host.threads)) * graph.host.span_ns
    last = threads + graph.host.span_ns - 1
    return Bounds("trace", "whole trace", slice(0, graph.ops), threads, last)


@dataclass(frozen=True)
class Steps:
    """The profiler's steps, or other ranges that follow each other, each from the completion of the
    one before to its own: a step is complete when the host has left it and the device has done
    what was launched in it."""

    kinds: list[str]
    names: list[str]
    began_ns: list[int]
    """When the host begins each, as recorded: with its name, what tells it from others."""
    begin: Ints
    """The keys at which the host begins each."""
    end: Ints
    op: Numbers
    """The ops launched in one of them, and in which."""
    step: Numbers

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The number of each, by name and recorded begin."""
        told = zip(self.names, self.began_ns, strict=True)
        return {step: number for number, step in enumerate(told)}

    @property
    def instants(self) -> Ints:
        """The keys that the host is asked for."""
        return np.append(self.begin[:1], self.end)

    def __len__(self) -> int:
        return len(self.names)

    def completions(self, run: Run) -> Ints:
        """When each is complete, after the start of the first: one more than there are steps."""
        times = run.host_time(self.instants)
        np.maximum.at(times, 1 + self.step, run.op_end(self.op))
        return np.maximum.accumulate(times)

    def lengths(self, run: Run) -> Ints:
        return np.diff(self.completions(run))

    def path(self, run: Run, number: int) -> Path:
        start = int(self.completions(run)[number])
        ops = self.op[self.step == number]
        return critical_path(run, start, last_of(run, ops, self.end[[number]]))


def steps_of(database: Reader, trace_id: int, graph: Graph) -> Steps:
    """The steps of a trace, or where it marks none, its outermost ranges."""
    rows = database.arrays("replay_steps", trace=trace_id)
    host, device = graph.host, graph.device
    if not len(rows["pid"]):
        return Steps([], [], [], _NONE, _NONE, _NONE, _NONE)
    thread = host.numbers(rows["pid"], rows["tid"])
    begin_ns, end_ns = rows["start_ns"], rows["start_ns"] + rows["dur_ns"]
    op = np.flatnonzero(device.linked)
    call = device.call[op] + host.origin_ns
    step = np.searchsorted(begin_ns, call, "right") - 1
    inside = (step >= 0) & (call < end_ns[step])
    return Steps(
        [str(each) for each in rows["kind"]],
        [str(each) for each in rows["name"]],
        rows["start_ns"].tolist(),
        host.key(thread, begin_ns),
        host.key(thread, end_ns),
        narrow(op[inside]),
        narrow(step[inside]),
    )
