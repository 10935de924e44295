"""Windows of a replay: what lengths are measured between, as recorded and as replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracekit.replay.graph import Graph
from tracekit.replay.host import Ints
from tracekit.replay.path import Path, critical_path
from tracekit.replay.sweep import Run

if TYPE_CHECKING:
    from tracekit.database import Database

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Bounds:
    """A window of a run: from the first of its beginnings to the last of its ends, which are GPU
    ops and instants of the host."""

    kind: str
    name: str
    first_ops: Ints
    first_keys: Ints
    last_ops: Ints
    last_keys: Ints

    def start(self, run: Run) -> int:
        times = [run.op_start(self.first_ops), run.host_time(self.first_keys)]
        return int(np.concatenate(times).min())

    def end(self, run: Run) -> int:
        return int(np.concatenate([run.op_end(self.last_ops), run.host_time(self.last_keys)]).max())

    def length(self, run: Run) -> int:
        """Its length in ns."""
        return self.end(run) - self.start(run)

    def path(self, run: Run) -> Path:
        """The critical path through it: its links add up to its length."""
        return path_to(run, self.start(run), self.last_ops, self.last_keys)


def path_to(run: Run, start: int, ops: Ints, keys: Ints) -> Path:
    """The critical path from an instant to the last of some ops and instants of the host."""
    op_end, key_time = run.op_end(ops), run.host_time(keys)
    if op_end.max(initial=-1) >= key_time.max(initial=-1):
        op = int(ops[np.argmax(op_end)])
        return critical_path(run, start, int(op_end.max()), 1 + op, tail_op=op)
    key = keys[[np.argmax(key_time)]]
    node = int(run.graph.root(key)[0][0])
    return critical_path(run, start, int(key_time.max()), node, key=int(key[0]))


def gpu_active(graph: Graph, device_id: int) -> Bounds:
    """From the start of a device's first op to the end of its last."""
    ops = np.flatnonzero(graph.device.device_id == device_id)
    return Bounds("gpu_active", "GPU-active span", ops, _NONE, ops, _NONE)


def whole(graph: Graph) -> Bounds:
    """From the first event of the trace to its last."""
    host, ops = graph.host, np.arange(graph.ops)
    threads = np.arange(len(host.threads)) * host.span_ns
    return Bounds("trace", "whole trace", ops, threads, ops, threads + host.span_ns - 1)


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
    """Where the host begins each: places on its axis."""
    end: Ints
    op: Ints
    """The ops launched in one of them, and in which."""
    step: Ints

    def __len__(self) -> int:
        return len(self.names)

    def completions(self, run: Run) -> Ints:
        """When each is complete, after the start of the first: one more than there are steps."""
        times = run.host_time(np.append(self.begin[:1], self.end))
        np.maximum.at(times, 1 + self.step, run.op_end(self.op))
        return np.maximum.accumulate(times)

    def lengths(self, run: Run) -> Ints:
        return np.diff(self.completions(run))

    def path(self, run: Run, number: int) -> Path:
        start = int(self.completions(run)[number])
        ops = self.op[self.step == number]
        return path_to(run, start, ops, self.end[[number]])


def steps_of(database: Database, trace_id: int, graph: Graph) -> Steps:
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
        op[inside],
        step[inside],
    )
