"""Applies changes to a replay: they scale, remove or free work.

A part is an interval of a host thread, or a GPU op, with a factor. The target says which of a
part's time changes:

  host      the host's work in an interval and, with factor 0, its waits
  call      like host, plus the GPU ops that it launched, or captured for a graph's replays
  overhead  the interval's work that a CUDA graph or compiler saves: launch, dispatch, python
  wait      calls in the interval do not wait for the device; their own work remains
  op        a GPU op

The target `cuda-graph` stands for the change of that name, not for a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracekit.causes import CAUSES, UNKNOWN_LIMIT
from tracekit.database import catalog
from tracekit.database.remedies import find_remedy, query_of
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.replay.grammar import BATCH, PATTERNS, REMEDY, Change
from tracekit.replay.graph import EdgeKind, Graph
from tracekit.replay.graph.arrays import Flags, Floats, Ints, distinct
from tracekit.replay.simulator import Scale

Rows = dict[str, NDArray[Any]]

FREED_BY_GRAPHS = ("launch", "dispatch", "python")
TARGETS = ("host", "call", "overhead", "wait", "op", "cuda-graph")
# The columns of a query whose rows are parts; for an op, all but event_id and factor may be NULL.
COLUMNS = ("target", "event_id", "pid", "tid", "start_ns", "dur_ns", "factor")
# The work that each named change scales.
_TARGETS = {
    "kernel": "op", "class": "op", "fuse": "op", "operator": "call", "module": "call",
    # A removed wait does not remove the op that its call launched (a copy).
    "sync": "host",
}  # fmt: skip
_BORDERS_OF_GRAPHS = ("input", "compilation")
_OF_PARTS = COLUMNS[1:]
# Stretches of host work per block.
_STRETCHES_AT_ONCE = 1 << 18
# Targets as numbers: a million strings take much memory.
_TARGET = f"(list_position({list(TARGETS)}, target) - 1)::TINYINT AS target"
# Number of parallel queries; for large traces, one at a time to save memory.
_QUERIES_AT_ONCE = 2


def apply(change: Change, scale: Scale, graph: Graph, remedies: Remedies, replays_ns: int) -> None:
    """Applies a change to `scale`, the input of a replay of `graph`.

    Replaying a CUDA graph once per step takes the host `replays_ns` in total.

    Raises:
        TracekitError: when the change's pattern matches nothing in the trace.
    """
    if change.what == "cuda-graph":
        _free_launches(scale, graph, replays_ns)
    elif change.what == REMEDY:
        rows = remedies.rows_at(change)
        present = np.bincount(rows["target"], minlength=len(TARGETS))
        for target in sorted(name for name, many in zip(TARGETS, present, strict=True) if many):
            if target == "cuda-graph":
                _free_launches(scale, graph, replays_ns)
            else:
                here = np.flatnonzero(is_target(rows, target))
                scale_parts({name: rows[name][here] for name in _OF_PARTS}, target, scale, graph)
    elif change.what == "fuse" or change.pattern is not None:
        _scale_named(change, scale, graph, remedies)
    else:
        scale_cause(change.what, change.factor, scale, graph)


def scale_cause(what: str, factor: float, scale: Scale, graph: Graph) -> None:
    """Scales the work of a side (`host`, `device`), a cause or a `batch`, or scales `unknown`
    waits.

    Factor 0 removes a cause: its work, and the waits in its calls.
    """
    edges, function = graph.edges, CAUSES.index("host-function")
    if what == "host":
        scale.host.scale_apart(factor, apart=False)
        scale.op.scale_cause(function, factor)
        scale.fixed.scale_apart(factor, apart=True)
    elif what == "device":
        scale.op.scale_cause(function, factor, others=True)
        scale.host.scale_apart(factor, apart=True)
        # Waits for kernels that are not in the trace.
        scale.fixed.scale_cause(CAUSES.index(UNKNOWN_LIMIT), factor)
    elif what == "unknown":
        scale.unknown *= factor
    elif what == BATCH:
        scale.op.scale(factor)
        for rates in (scale.host, scale.fixed):
            rates.scale_cause(CAUSES.index("input"), factor)
    else:
        cause = CAUSES.index(what)
        for rates in (scale.host, scale.op, scale.fixed):
            rates.scale_cause(cause, factor)
        if what == "copy":
            scale.host.scale_apart(factor, apart=True)
        if factor == 0:
            # Other threads do not wait during this call.
            waits = (edges.kind == EdgeKind.SYNC) | (edges.kind == EdgeKind.LOADER)
            scale.dropped |= waits & (edges.fixed_cause == cause)


def _scale_named(change: Change, scale: Scale, graph: Graph, remedies: Remedies) -> None:
    pattern = change.pattern or "*"
    # Text without wildcards matches any part of a name.
    if change.what != "class" and not re.search(r"[*?\[]", pattern):
        pattern = f"*{pattern}*"
    question, more = ("fused_ops", {}) if change.what == "fuse" else PATTERNS[change.what]
    # DuckDB would need pandas to return enumerations, such as a kernel's class, as arrays.
    columns = [column.name for column in catalog.query(question).columns if column.unit != "text"]
    rows = remedies.arrays(question, columns, pattern=pattern, **more)
    if not len(rows["event_id"]):
        nothing = " matches nothing in this trace"
        if change.what == "fuse":
            nothing = ": no adjacent operators have intermediates of known shape"
        raise TracekitError(f"{change.text!r}{nothing}")
    left = 1 - rows["saved_share"] if change.what == "fuse" else change.factor
    factor = np.broadcast_to(left, len(rows["event_id"]))
    scale_parts(rows | {"factor": factor}, _TARGETS[change.what], scale, graph)


def _free_launches(scale: Scale, graph: Graph, replays_ns: int) -> None:
    """Removes the host work that a CUDA graph would save: launch, dispatch and python.

    A graph covers the launches of threads that hand work to each other, between two
    synchronizations: from the first launch's return to the last one's. The first launch, data
    loading, compilation, allocation and blocking copies remain, plus `replays_ns` of the rest.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-graphs
    """
    host, device, edges = graph.host, graph.device, graph.edges
    group = _groups(graph)
    if not len(group):
        return

    def grouped(key: Ints) -> Ints:
        """Times on one axis with a section for each group of threads."""
        return group[host.thread_of(key)] * host.span_ns + host.time_of(key)

    synced = np.unique(edges.target[edges.kind == EdgeKind.SYNC]) - 1 - graph.ops
    border = host.is_of(_BORDERS_OF_GRAPHS)
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
    free = host.is_of(FREED_BY_GRAPHS)
    freed_ns = 0
    for since in range(0, len(host), _STRETCHES_AT_ONCE):
        part = slice(since, min(since + _STRETCHES_AT_ONCE, len(host)))
        free[part] &= regions.around(grouped(host.at[part]))[1]
        ns = np.diff(host.borders[part.start : part.stop + 1])
        freed_ns += int(host.scaled_work(ns, part, scale.host)[free[part]].sum())
    scale.host.scale(min(1.0, replays_ns / max(1, freed_ns)), free)
    scale.dropped |= edges.kind == EdgeKind.QUEUE


def _groups(graph: Graph) -> Ints:
    """Each thread's group: the first of the threads that hand work to each other."""
    host, edges = graph.host, graph.edges
    handed = np.flatnonzero(edges.kind == EdgeKind.HANDOVER)
    giver = host.thread_of(edges.host_to[handed])
    taker = host.thread_of(graph.joins[edges.target[handed] - 1 - graph.ops])
    pairs = np.unique(np.stack([giver, taker]), axis=1)
    first = np.arange(len(host.threads))
    before = None
    while before is None or (first != before).any():
        before = first.copy()
        low = first[pairs].min(axis=0)
        for side in pairs:
            np.minimum.at(first, side, low)
    return first


class Remedies:
    """The rows of each query in queries/remedies for one trace; each query runs once. Targets are
    their numbers in `TARGETS`."""

    def __init__(self, database: Session, trace_id: int) -> None:
        self._database = database
        self._trace_id = trace_id
        self._rows: dict[str, Rows] = {}

    def rows(self, remedy: str) -> Rows:
        """A remedy's rows; `place` is empty for rows without a call site.

        Raises:
            TracekitError: when there is no such remedy.
        """
        if remedy not in self._rows:
            self._rows[remedy] = self._asked(remedy)
        return self._rows[remedy]

    def ask(self, remedies: Iterable[str]) -> None:
        """Runs several queries in parallel, since most take longer to plan than to run."""
        new = [remedy for remedy in remedies if remedy not in self._rows]
        at_once = 1 if self._database.is_large else _QUERIES_AT_ONCE
        with ThreadPoolExecutor(at_once, "tracekit-remedies") as threads:
            self._rows |= zip(new, threads.map(self._asked, new), strict=True)

    def _asked(self, remedy: str) -> Rows:
        description, name = find_remedy(remedy), query_of(remedy)
        if description is None or not description.has_query:
            raise TracekitError(
                f"there is no remedy named {remedy!r}: `tracekit advise` lists them"
            )
        nothing = {each: np.array([], object) for each in (*COLUMNS, "place", "detail")}
        nothing["target"] = np.zeros(0, np.int8)
        if not self._database.is_possible(name):
            return nothing
        if description.of_plugin is None:
            return self._rows_of(name)
        with description.of_plugin.leaving_out(f"the remedy {remedy}"):
            rows = self._rows_of(name)
            for column in COLUMNS:
                if column != "target" and rows[column].dtype.kind not in "iuf":
                    raise TracekitError(f"its column {column} is not a number")
            return rows
        return nothing

    def _rows_of(self, name: str) -> Rows:
        columns = [_TARGET if column == "target" else column for column in COLUMNS]
        columns += ["place", "detail"]
        arrays = self.arrays(name, columns, in_order=not self._database.is_large)
        arrays["target"] = np.ma.filled(arrays["target"], 0)
        for name in ("place", "detail"):
            arrays[name] = np.ma.filled(arrays[name].astype(object), "")
        return arrays

    def arrays(self, question: str, columns: Sequence[str] = (), **given: Any) -> Rows:
        """The answer to a question about the trace, as columns."""
        return self._database.arrays(question, columns, trace=self._trace_id, **given)

    def rows_at(self, change: Change) -> Rows:
        """The rows that `remedy:NAME` or `remedy:NAME:PLACE` changes.

        Raises:
            TracekitError: when there is no such remedy, or it finds nothing there.
        """
        remedy, _, place = (change.pattern or "").partition(":")
        rows = self.rows(remedy)
        if place:
            here = rows["place"] == place
            rows = {name: values[here] for name, values in rows.items()}
        if not len(rows["target"]):
            raise TracekitError(f"{change.text!r} matches nothing in this trace")
        return rows


def is_target(rows: Rows, target: str) -> Flags:
    """Which of a remedy's rows have this target."""
    flags: Flags = rows["target"] == TARGETS.index(target)
    return flags


def scale_parts(rows: Rows, target: str, scale: Scale, graph: Graph) -> None:
    """Scales the parts in these rows, which share one target, in `scale`, the input of a replay of
    `graph`. A thread's intervals must not overlap."""
    factor = np.ma.filled(rows["factor"], 1.0).astype(np.float64)
    if target == "op":
        event_id = np.ma.filled(rows["event_id"], 0)
        op, first = np.unique(graph.device.numbers(event_id), return_index=True)
        op, factor = op[op >= 0], factor[first[op >= 0]]
        scale.op.scale_each(factor, op)
        _close_gaps(scale, graph, op[factor == 0])
        return
    slices = {name: np.ma.filled(rows[name], 0) for name in COLUMNS[2:6]}
    thread, begin, end = graph.host.slices(slices)
    is_known = thread >= 0
    Intervals.of(begin[is_known], end[is_known], factor[is_known]).apply(target, scale, graph)


class Intervals(Struct, frozen=True):
    """Sorted, disjoint intervals of host threads as keys, with a factor each."""

    begin: Ints
    end: Ints
    factor: Floats

    @staticmethod
    def of(begin: Ints, end: Ints, factor: Floats) -> Intervals:
        order = np.argsort(begin, kind="stable")
        return Intervals(begin[order], end[order], factor[order])

    def around(self, at: Ints) -> tuple[Ints, Flags]:
        """The interval of each instant, and whether it lies in one."""
        index = np.searchsorted(self.begin, at, "right") - 1
        if not len(self.begin):
            return index, np.zeros(len(at), np.bool_)
        return index, (index >= 0) & (at < self.end[index])

    def apply(self, target: str, scale: Scale, graph: Graph) -> None:
        host, edges = graph.host, graph.edges
        if not len(self.begin):
            return
        join, joins = self.around(graph.joins - 1)
        # For each edge, the index of its target among the joins; negative: a GPU op.
        place = edges.target - 1 - graph.ops
        edge = np.flatnonzero(place >= 0)
        edge = edge[joins[place[edge]]]
        factor = self.factor[join[place[edge]]]
        waits = np.isin(edges.kind[edge], (EdgeKind.SYNC, EdgeKind.LOADER))
        if target == "wait":
            scale.dropped[edge[waits]] = True
            return
        stretches = host.within(self.begin, self.end)
        if target == "overhead":
            stretches &= host.is_of(FREED_BY_GRAPHS)
        stretch = np.flatnonzero(stretches)
        scale.host.scale_each(self.factor[self.around(host.at[stretch])[0]], stretch)
        if target == "overhead":
            return
        is_host = edges.kind[edge] == EdgeKind.HOST
        scale.fixed.scale_each(factor[is_host], edge[is_host])
        scale.dropped[edge[waits & (factor == 0)]] = True
        if target == "call":
            device = graph.device
            remains = np.full(len(device.start), np.nan)
            calls = (device.captured_by, device.captured), (device.thread, device.call)
            for thread, call in calls:
                places = np.flatnonzero(thread >= 0)
                index, inside = self.around(host.key(thread[places], host.origin_ns + call[places]))
                remains[places[inside]] = self.factor[index[inside]]
            ops = np.flatnonzero(~np.isnan(remains))
            scale.op.scale_each(remains[ops], ops)
            _close_gaps(scale, graph, ops[remains[ops] == 0])


def _close_gaps(scale: Scale, graph: Graph, ops: Ints) -> None:
    """Closes the gaps before removed ops: later ops on their streams start that much earlier."""
    if not len(ops):
        return
    removed = np.zeros(len(graph.time), np.bool_)
    removed[1 + ops] = True
    edges = graph.edges
    scale.fixed.scale(0, (edges.kind == EdgeKind.STREAM) & removed[edges.target])
