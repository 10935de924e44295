"""One-off events: a query finds them, the graph prices them, and replays leave them out.

A verdict is about the steady state, so replays leave out the excess of one-offs: work in a one-off
takes no longer than in similar events (queries/replay/one_off_candidates.sql).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median_low
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import CAUSES
from tracekit.database.session import Session
from tracekit.replay.graph import EdgeKind, Graph
from tracekit.replay.graph.arrays import Ints, Numbers, sums
from tracekit.replay.simulator import Scale
from tracekit.replay.windows import MarkedWindows
from tracekit.thresholds import Thresholds

# Maximum number of slices and GPU ops that describe a step or range.
_INNER = 64


class OneOff(Struct, frozen=True):
    """An event that happened once, or took far longer than similar events."""

    kind: str
    """A kind from queries/replay/one_off_candidates.sql, or `step`."""
    event_id: int | None
    start_ns: int
    """Start, on the trace's clock."""
    dur_ns: int
    usual_ns: int
    """Typical duration of similar events."""
    excess_ns: int
    """Its work beyond that of similar events, without waits for the device."""
    cause: str
    name: str | None
    begin: int
    end: int
    """Host keys; 0 for ops."""
    ops: frozenset[int] = frozenset()
    """The indices of the long ops; empty for one-offs on the host."""
    pid: int | None = None
    tid: int | None = None
    is_new_shape: bool = False
    """Whether an earlier step ran the operator, but only with other shapes."""
    inner: tuple[tuple[int, int], ...] = ()
    """For a step or range: the longest slices or GPU ops of its cause, and their time."""

    @property
    def on_host(self) -> bool:
        return not self.ops

    @property
    def length(self) -> int:
        """The nesting level, lower than that of an event that contains it."""
        return len(self.ops) or self.end - self.begin


def _one_off(
    row: dict[str, Any],
    usual_ns: int,
    work_ns: int,
    begin: int = 0,
    end: int = 0,
    ops: Iterable[int] = (),
) -> OneOff:
    """The one-off described by a row."""
    fields = {name: row[name] for name in OneOff.__struct_fields__ if name in row}
    fields |= {"usual_ns": usual_ns, "excess_ns": work_ns - usual_ns}
    return OneOff(**fields, begin=begin, end=end, ops=frozenset(ops))


def one_offs_of(
    database: Session, trace_id: int, graph: Graph, steps: MarkedWindows
) -> list[OneOff]:
    """A trace's one-offs, in order of their starts.

    If one-offs inside an event cause its excess, they are listed instead. A slow step or first call
    is also listed, with the rest of its excess.
    """
    thresholds = database.thresholds
    one_offs = _priced(database, trace_id, graph, steps)
    result: list[OneOff] = []
    # From the inside out; captures first, since their contents belong to them.
    for one_off in sorted(one_offs, key=lambda each: (each.kind != "capture", each.length)):
        if any(_holds(other, one_off) for other in result):
            continue
        inner = [other for other in result if _holds(one_off, other)]
        covered = sum(other.excess_ns for other in inner)
        is_explained = covered >= thresholds.told_share * one_off.excess_ns
        if one_off.kind in ("step", "call"):
            rest = one_off.excess_ns - covered
            least = (thresholds.one_range_ratio - 1) / 2 * one_off.usual_ns
            if one_off.kind == "call":
                # A first call is often inside others that do nothing but call it.
                least = max(least, thresholds.named_gain * one_off.excess_ns)
            if rest >= least and not (one_off.ops and is_explained):
                result.append(replace(one_off, excess_ns=rest))
        elif not is_explained:
            result = [other for other in result if other not in inner] + [one_off]
    return sorted(
        result, key=lambda each: (each.start_ns, each.event_id or 0, bool(each.ops), each.begin)
    )


def _holds(outer: OneOff, inner: OneOff) -> bool:
    if outer is inner or outer.on_host != inner.on_host:
        return False
    if inner.ops:
        return inner.ops <= outer.ops
    return outer.begin <= inner.begin and inner.end <= outer.end


def _priced(database: Session, trace_id: int, graph: Graph, steps: MarkedWindows) -> list[OneOff]:
    """The candidates that take longer than usual, with the excess of their work."""
    worked, thresholds = _HostWork(graph), database.thresholds
    number = {each: i for i, each in enumerate(graph.host.threads)}
    # A thread without events that last has no work.
    rows = [
        row
        for row in database.ask("one_off_candidates", trace=trace_id)
        if row["kind"] == "op" or (row["pid"], row["tid"]) in number
    ]
    index = {}
    if any(row["kind"] == "op" for row in rows):
        index = {op: i for i, op in enumerate(graph.device.op_id.tolist())}
    one_offs = []
    for row in rows:
        if row["kind"] == "op":
            ops = [index[row["event_id"]]]
            one_offs.append(_one_off(row, row["usual_ns"], row["dur_ns"], ops=ops))
            continue
        thread = number[row["pid"], row["tid"]]
        begin, end, work = worked.lasting(thread, row["start_ns"], row["dur_ns"])
        usual = row["usual_ns"]
        if row["at_place"]:
            # The waits inside a recurring event are not its work.
            alike = (worked.lasting(thread, *each.values())[2] for each in row["at_place"])
            usual = median_low(alike)
        if row["kind"] == "range":
            row |= worked.mainly(begin, end)
        one_offs.append(_one_off(row, usual, work, begin, end))
        if row["kind"] == "copies":
            copies = _launched(graph, begin, end)
            ns = int(graph.device.ns[copies].sum())
            one_offs.append(_one_off(row, 0, ns, ops=copies.tolist()))
    if len(steps.alike) >= thresholds.fewest_alike:
        one_offs += _slow_steps(steps, worked, thresholds) + _busy_steps(steps, graph, thresholds)
    return [
        one_off for one_off in one_offs if all(rule(one_off, graph, thresholds) for rule in RULES)
    ]


def takes_longer(one_off: OneOff, graph: Graph, thresholds: Thresholds) -> bool:
    return one_off.excess_ns > 0


def holds_little_work(one_off: OneOff, graph: Graph, thresholds: Thresholds) -> bool:
    """A range that contains a large part of the launches is regular work, however rare its name."""
    if one_off.kind != "range":
        return True
    launches = len(_launched(graph, one_off.begin, one_off.end))
    return bool(launches < thresholds.held_share * int(graph.device.linked.sum()))


def waits_for_no_turn(one_off: OneOff, graph: Graph, thresholds: Thresholds) -> bool:
    """A thread that is idle while another one works waits for its turn, like autograd's thread and
    its caller in every pass. For a thread in a slice, the others must launch all the time."""
    if one_off.kind != "stretch":
        return True
    host, device, begin = graph.host, graph.device, one_off.start_ns - graph.host.origin_ns
    end, thread = begin + one_off.dur_ns, one_off.begin // graph.host.span_ns
    launching = np.unique(device.thread[device.linked])
    if one_off.event_id is None:
        for other in launching[launching != thread].tolist():
            first, last = np.searchsorted(
                host.at, [other * host.span_ns, (other + 1) * host.span_ns]
            )
            borders = np.clip(host.borders[first : last + 1] - other * host.span_ns, begin, end)
            if 2 * int(np.diff(borders)[host.event[first:last] >= 0].sum()) > one_off.dur_ns:
                return False
    others = (device.call >= begin) & (device.call < end) & (device.thread != thread)
    calls = np.sort(device.call[others & device.linked])
    return bool(2 * np.diff(calls, prepend=begin, append=end).max() >= one_off.dur_ns)


def is_not_the_only_input(one_off: OneOff, graph: Graph, thresholds: Thresholds) -> bool:
    """Input that a thread loads before the first launch may be the usual input, unless the thread
    loads more of it later."""
    host, device = graph.host, graph.device
    first = int(device.call[device.linked].min(initial=host.span_ns))
    if one_off.kind != "stretch" or one_off.cause != "input":
        return True
    if one_off.start_ns - host.origin_ns >= first:
        return True
    start = one_off.begin // host.span_ns * host.span_ns
    begun = host.borders[:-1][host.cause == CAUSES.index("input")]
    return bool(((begun >= start + first) & (begun < start + host.span_ns)).any())


# The conditions on a candidate, one function each.
RULES: tuple[Callable[[OneOff, Graph, Thresholds], bool], ...] = (
    takes_longer,
    holds_little_work,
    waits_for_no_turn,
    is_not_the_only_input,
)


def _launched(graph: Graph, begin: int, end: int) -> Ints:
    """The ops launched between two keys of a thread."""
    device = graph.device
    key = graph.host.key(device.thread, graph.host.origin_ns + device.call)
    return np.flatnonzero(device.linked & (key >= begin) & (key < end))


def without(found: list[OneOff], graph: Graph) -> Scale:
    """The scale of a replay without the one-offs' excess."""
    scale, worked = Scale.of(graph), _HostWork(graph)
    host = graph.host
    work = host.scaled_work(np.diff(host.borders), slice(None))
    # Host stretches, calls' own work, and ops, each with the parts not scaled yet.
    kinds = [
        (rates, ns, np.ones(len(ns), np.bool_))
        for rates, ns in (
            (scale.host, work), (scale.fixed, graph.edges.fixed_ns), (scale.op, graph.device.ns),
        )
    ]  # fmt: skip
    # From the inside out: events in a step are scaled before the rest of the step.
    for one_off in sorted(found, key=lambda each: each.length):
        stretches = np.flatnonzero(host.within(np.array([one_off.begin]), np.array([one_off.end])))
        calls, ops = (
            worked.calls(one_off.begin, one_off.end),
            np.array(sorted(one_off.ops), np.int64),
        )
        chosen = zip((stretches, calls, ops), kinds, strict=True)
        parts = [(which[kind[2][which]], *kind) for which, kind in chosen]
        total_ns = sum(int(ns[which].sum(dtype=np.int64)) for which, _, ns, _ in parts)
        for which, rates, _, left in parts:
            left[which] = False
            if total_ns and len(which):
                rates.scale(max(0.0, 1 - one_off.excess_ns / total_ns), which)
    return scale


class _HostWork:
    """The work of host threads: their stretches, and the own work of calls that may wait.

    A synchronization's own work is left out: it is a wait that the trace does not explain.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, edges = graph, graph.edges
        edge = np.flatnonzero(
            (edges.kind == EdgeKind.HOST)
            & (edges.target > graph.ops)
            & (edges.fixed_cause != CAUSES.index("sync"))
        )
        self.edge: Ints = edge[np.argsort(edges.target[edge], kind="stable")]
        """The edges with the calls' own work, in the order of `at`."""
        self.at: Ints = graph.joins[edges.target[self.edge] - 1 - graph.ops] - 1
        """The last key of each such call."""
        self.ns: Ints = np.cumsum(np.append(0, edges.fixed_ns[self.edge].astype(np.int64)))
        """The running sum of their own work, starting with 0."""

    def between(self, begin: Ints, end: Ints) -> Ints:
        """The work from each `begin` to its `end` on the same thread, in ns."""
        own_ns = self.ns[np.searchsorted(self.at, end)] - self.ns[np.searchsorted(self.at, begin)]
        return self.graph.host.work_between(begin, end) + own_ns

    def lasting(self, thread: int, start_ns: int, dur_ns: int) -> tuple[int, int, int]:
        """The keys at which an interval begins and ends on a thread, and the work between them."""
        times = np.array([start_ns, start_ns + dur_ns])
        keys = self.graph.host.key(np.array([thread, thread]), times)
        begin, end = keys.tolist()
        return begin, end, int(self.between(keys[:1], keys[1:])[0]) if end > begin else 0

    def calls(self, begin: int, end: int) -> Ints:
        """The edges with the own work of the calls from `begin` to `end`."""
        first, last = np.searchsorted(self.at, [begin, end])
        return self.edge[first:last]

    def mainly(self, begin: int, end: int) -> dict[str, Any]:
        """The cause with the most work between two keys of a thread, and its longest slices
        there."""
        graph, edge = self.graph, self.calls(begin, end)
        host = graph.host.cut(np.array([begin, end]))
        stretches = np.flatnonzero(host.within(np.array([begin]), np.array([end])))
        worked = host.scaled_work(np.diff(host.borders)[stretches], stretches)
        edges = graph.edges
        by_cause = sums(host.cause[stretches], worked, len(CAUSES))
        by_cause += sums(edges.fixed_cause[edge], edges.fixed_ns[edge], len(CAUSES))
        cause = int(by_cause.argmax())
        of_cause = host.cause[stretches] == cause
        event, ns = host.event[stretches][of_cause], np.diff(host.borders)[stretches][of_cause]
        return {"cause": CAUSES[cause], "inner": _longest(event, ns)}


def _longest(event: Numbers, ns: Numbers) -> tuple[tuple[int, int], ...]:
    """The ids and times of the longest events, without -1 (not recorded)."""
    at = np.argsort(-ns, kind="stable")[:_INNER]
    pairs = zip(event[at].tolist(), ns[at].tolist(), strict=True)
    return tuple((event_id, time) for event_id, time in pairs if event_id >= 0)


def _slow_steps(steps: MarkedWindows, worked: _HostWork, thresholds: Thresholds) -> list[OneOff]:
    """Steps with far more work than the median step, split by launching thread."""
    graph, host = worked.graph, worked.graph.host
    launching = graph.device.thread[graph.device.linked]
    threads = np.union1d(launching, host.thread_of(steps.begin))
    began, lasted = np.array(steps.began_ns)[steps.alike], np.array(steps.lasted_ns)[steps.alike]
    # A row for each step, a column for each thread.
    begin = host.key(threads[None, :], began[:, None])
    end = host.key(threads[None, :], (began + lasted)[:, None])
    work = worked.between(begin.ravel(), end.ravel()).reshape(begin.shape)
    usual = np.sort(work, axis=0)[(len(work) - 1) // 2]
    slow = []
    for number in _far_slower(work.sum(axis=1), usual.sum(), thresholds):
        row = _row_of(steps, steps.alike[number])
        for thread in np.flatnonzero(work[number] > usual).tolist():
            keys = int(begin[number, thread]), int(end[number, thread])
            row |= worked.mainly(*keys)
            # A wait that the trace does not explain is not work.
            if row["cause"] == "sync":
                continue
            slow.append(_one_off(row, int(usual[thread]), int(work[number, thread]), *keys))
    return slow


def _busy_steps(steps: MarkedWindows, graph: Graph, thresholds: Thresholds) -> list[OneOff]:
    """Steps with far more device work than the median step (a checkpoint, an evaluation,
    autotuning), split by causes with a long excess."""
    device = graph.device
    # Steps without ops were cut off.
    working = [number for number in steps.alike if len(steps.ops(number))]
    if len(working) < thresholds.fewest_alike:
        return []
    launched = [steps.ops(number) for number in working]
    # A row for each step, a column for each cause.
    work = np.stack([sums(device.cause[ops], device.ns[ops], len(CAUSES)) for ops in launched])
    total, usual = work.sum(axis=1), np.sort(work, axis=0)[(len(work) - 1) // 2]
    median = np.sort(total)[(len(total) - 1) // 2]
    span_ns = int(device.end.max(initial=0) - device.start.min(initial=0))
    busy = []
    for number in _far_slower(total, median, thresholds):
        row = _row_of(steps, working[number])
        excess = work[number] - usual
        for cause in np.flatnonzero(excess >= thresholds.long_share * span_ns).tolist():
            ops = launched[number][device.cause[launched[number]] == cause]
            row |= {"cause": CAUSES[cause], "inner": _longest(device.op_id[ops], device.ns[ops])}
            ns = int(work[number, cause])
            busy.append(_one_off(row, int(usual[cause]), ns, ops=ops.tolist()))
    return busy


def _far_slower(work: Ints, usual: int, thresholds: Thresholds) -> list[int]:
    """The steps with far more work than usual, unless they recur: half of the steps, or several
    with about the same work."""
    slow: list[int] = np.flatnonzero(work >= thresholds.one_range_ratio * usual).tolist()
    median = np.median(work[slow]) if slow else 0
    alike = int((np.abs(work[slow] - median) <= thresholds.close_margin * median).sum())
    recur = 2 * len(slow) >= len(work) or alike >= thresholds.fewest_alike
    return [] if recur else slow


def _row_of(steps: MarkedWindows, number: int) -> dict[str, Any]:
    """A step as the row of a one-off, without a cause."""
    times = {"start_ns": steps.began_ns[number], "dur_ns": steps.lasted_ns[number]}
    return {"kind": "step", "event_id": None, "name": steps.names[number]} | times
