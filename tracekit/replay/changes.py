"""Applies changes to a replay: what each one scales, removes or frees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.replay.grammar import BATCH, PATTERNS, REMEDY, Change
from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Ints, distinct
from tracekit.replay.graph.edges import EdgeKind
from tracekit.replay.parts import FREED_BY_GRAPHS, ChangedParts, Intervals
from tracekit.replay.remedies import Remedies
from tracekit.replay.scaling import Scale

if TYPE_CHECKING:
    from tracekit.database.reader import Reader

# What of the run a named change scales.
_TARGETS = {
    "kernel": "op", "class": "op", "operator": "call", "module": "call",
    # A removed wait does not remove the op that its call launched (a copy).
    "sync": "host",
}  # fmt: skip
_BORDERS_OF_GRAPHS = ("input", "compilation")
# Stretches of host work per block.
_AT_ONCE = 1 << 18


def apply(
    change: Change,
    scale: Scale,
    graph: Graph,
    database: Reader,
    trace_id: int,
    remedies: Remedies,
) -> None:
    """Applies a change to `scale`, which a replay of `graph` takes.

    Raises:
        TracekitError: the change's pattern matches nothing in the trace.
    """
    if change.what == "cuda-graph":
        _free_launches(scale, graph)
    elif change.what == REMEDY:
        for part in remedies.parts(change):
            if part.target == "cuda-graph":
                _free_launches(scale, graph)
            else:
                part.apply(scale, graph)
    elif change.what == "fuse":
        _fuse(change, scale, graph, database, trace_id)
    elif change.pattern is not None:
        _scale_named(change, scale, graph, database, trace_id)
    else:
        scale_cause(change.what, change.factor, scale, graph)


def scale_cause(what: str, factor: float, scale: Scale, graph: Graph) -> None:
    """Scales the work of a side (`host`, `device`), of a cause or of a `batch`, or `unknown` waits.

    Factor 0 removes a cause: its work, and the waits in its calls.
    """
    edges = graph.edges
    on_host = (edges.kind == EdgeKind.HOST) | (edges.kind == EdgeKind.LOADER)
    if what == "host":
        scale.host.scale(factor)
        scale.fixed.scale(factor, on_host)
    elif what == "device":
        scale.op.scale(factor)
    elif what == "unknown":
        scale.unknown *= factor
    elif what == BATCH:
        scale.op.scale(factor)
        for rates in (scale.host, scale.fixed):
            rates.scale_cause(graph.number("input"), factor)
    else:
        cause = graph.number(what)
        for rates in (scale.host, scale.op, scale.fixed):
            rates.scale_cause(cause, factor)
        if factor == 0:
            # A thread that does not make the call does not wait in it either.
            waits = (edges.kind == EdgeKind.SYNC) | (edges.kind == EdgeKind.LOADER)
            scale.dropped |= waits & (edges.fixed_cause == cause)


def _scale_named(
    change: Change, scale: Scale, graph: Graph, database: Reader, trace_id: int
) -> None:
    pattern = change.pattern if change.what == "class" else _glob(change)
    question = PATTERNS[change.what]
    # DuckDB would need pandas for arrays of an enumeration, such as a kernel's class.
    columns = [each.name for each in catalog.query(question).columns if each.unit != "text"]
    rows = database.arrays(question, columns, trace=trace_id, pattern=pattern)
    if not len(rows["event_id"]):
        raise TracekitError(f"{change.text!r} names nothing in this trace")
    ChangedParts.of(rows, _TARGETS[change.what], change.factor).apply(scale, graph)


def _glob(change: Change) -> str:
    """The glob that names have to match; text without wildcards matches any part of a name."""
    pattern = change.pattern or "*"
    return pattern if re.search(r"[*?\[]", pattern) else f"*{pattern}*"


def _free_launches(scale: Scale, graph: Graph) -> None:
    """Removes the host work that a CUDA graph would save: launch, dispatch and python.

    A graph covers the launches between two synchronizations of threads that hand work to each
    other, from the return of the first launch to the return of the last. The first launch, data
    loading, compilation, allocation and blocking copies remain.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-graphs
    """
    host, device, edges = graph.host, graph.device, graph.edges
    group = _groups(graph)
    if not len(group):
        return

    def grouped(key: Ints) -> Ints:
        """Times on an axis with a section for each group of threads."""
        return group[host.thread_of(key)] * host.span_ns + host.time_of(key)

    synced = np.unique(edges.target[edges.kind == EdgeKind.SYNC]) - 1 - graph.ops
    border = np.isin(host.cause, [graph.number(name) for name in _BORDERS_OF_GRAPHS])
    border_at = distinct(np.concatenate([grouped(graph.joins[synced]), grouped(host.at[border])]))
    op = np.flatnonzero(device.linked & ~device.is_blocking)
    call = group[device.thread[op]] * host.span_ns + device.call[op]
    done = group[device.thread[op]] * host.span_ns + device.call_end[op]
    region = np.searchsorted(border_at, call, "right")
    # Borders do not separate groups, so the group's number is part of the region's.
    region = region * (int(group.max()) + 1) + group[device.thread[op]]
    names = distinct(region)
    region = np.searchsorted(names, region)
    first = np.full(len(names), np.iinfo(np.int64).max)
    last = np.full(len(names), -1)
    np.minimum.at(first, region, done)
    np.maximum.at(last, region, done)
    regions = Intervals.of(first, last, np.zeros(len(first)))
    free = np.isin(host.cause, [graph.number(name) for name in FREED_BY_GRAPHS])
    for since in range(0, len(host), _AT_ONCE):
        part = slice(since, since + _AT_ONCE)
        free[part] &= regions.around(grouped(host.at[part]))[1]
    scale.host.scale(0, free)
    scale.dropped |= edges.kind == EdgeKind.QUEUE


def _groups(graph: Graph) -> Ints:
    """For each thread, its group: the first of the threads that hand work to each other."""
    first = list(range(len(graph.host.threads)))
    edges = graph.edges
    handed = np.flatnonzero(edges.kind == EdgeKind.HANDOVER)
    giver = edges.host_to[handed] // graph.host.span_ns
    taker = graph.joins[edges.target[handed] - 1 - graph.ops] // graph.host.span_ns

    def first_of(thread: int) -> int:
        while first[thread] != thread:
            first[thread] = thread = first[first[thread]]
        return thread

    for a, b in {(int(a), int(b)) for a, b in zip(giver, taker, strict=True)}:
        low, high = sorted((first_of(a), first_of(b)))
        first[high] = low
    return np.array([first_of(each) for each in first], np.int64)


def _fuse(change: Change, scale: Scale, graph: Graph, database: Reader, trace_id: int) -> None:
    rows = database.arrays("fused_ops", trace=trace_id, pattern=_glob(change))
    if not len(rows["event_id"]):
        raise TracekitError(
            f"{change.text!r}: no neighbouring operators whose intermediates the shapes tell"
        )
    order = np.argsort(graph.device.op_id)
    index = order[np.searchsorted(graph.device.op_id[order], rows["event_id"])]
    scale.op.scale_each(1 - rows["saved_share"], index)
