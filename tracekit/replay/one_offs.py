"""What happened once in a run: found by a query, priced by the graph, taken out of replays.

A verdict is on the steady state, so replays take the excess of one-offs out: what lies in such an
event takes no longer than its like usually does (queries/time/one_offs.sql).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median_low
from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.replay.graph import Graph
from tracekit.replay.graph.arrays import Floats, Ints, sums
from tracekit.replay.scaling import Scale
from tracekit.thresholds import QueryThresholds

if TYPE_CHECKING:
    from tracekit.replay.whatif import Replay

# A step with this many times the median step's work is slow.
SLOW = QueryThresholds().one_range_ratio


@dataclass(frozen=True)
class OneOff:
    """An event that happened once, or took far longer than its like."""

    kind: str
    """As in queries/time/one_offs.sql, `step`, or `start` of a run without steps."""
    event_id: int | None
    start_ns: int
    """On the trace's clock."""
    dur_ns: int
    usual_ns: int
    """How long its like takes."""
    excess_ns: int
    """Its work beyond the usual length of its like; its waits for the device do not count."""
    cause: str
    name: str | None
    begin: int
    end: int
    """Keys of the host; of an op, its index and the next one."""

    @property
    def on_host(self) -> bool:
        return self.kind != "op"


def one_offs_of(replay: Replay) -> list[OneOff]:
    """The one-offs of a trace, in order of their starts.

    Where the excess of an event is that of one-offs in it, those are listed in its place. A slow
    step is listed beside them, with the rest of its excess.
    """
    found = _priced(replay)
    kept: list[OneOff] = []
    # From the inside out; captures first, since what is in them belongs to them.
    for each in sorted(found, key=lambda each: (each.kind != "capture", each.end - each.begin)):
        if any(_holds(other, each) for other in kept):
            continue
        inner = [other for other in kept if _holds(each, other)]
        covered = sum(other.excess_ns for other in inner)
        if each.kind in ("step", "start"):
            if each.excess_ns - covered >= (SLOW - 1) / 2 * each.usual_ns:
                kept.append(replace(each, excess_ns=each.excess_ns - covered))
        elif covered < replay.thresholds.told_share * each.excess_ns:
            kept = [other for other in kept if other not in inner] + [each]
    return sorted(kept, key=lambda each: (each.start_ns, each.event_id or 0, each.begin))


def _holds(outer: OneOff, inner: OneOff) -> bool:
    return (
        outer is not inner
        and outer.on_host == inner.on_host
        and outer.begin <= inner.begin
        and inner.end <= outer.end
    )


def _priced(replay: Replay) -> list[OneOff]:
    """The candidates with the excess of their work; those without any are left out."""
    graph = replay.graph
    rows = replay.database.ask("one_offs", trace=replay.trace_id)
    number = {each: i for i, each in enumerate(graph.host.threads)}
    index = {}
    if any(row["kind"] == "op" for row in rows):
        index = {op: i for i, op in enumerate(graph.device.op_id.tolist())}
    found = []
    for row in rows:
        if row["kind"] == "op":
            begin = index[row["event_id"]]
            found.append(_one_off(row, row["usual_ns"], row["dur_ns"], begin, begin + 1))
            continue
        thread = number[row["pid"], row["tid"]]
        begin, end, work = _work(graph, thread, row["start_ns"], row["dur_ns"])
        usual = row["usual_ns"]
        if row["at_place"]:
            # The waits in what recurs are not its work.
            alike = (_work(graph, thread, *each.values())[2] for each in row["at_place"])
            usual = median_low(alike)
        found.append(_one_off(row, usual, work, begin, end))
    return [
        each for each in [*found, *_slow_steps(replay), *_slow_start(replay)] if each.excess_ns > 0
    ]


def _slow_steps(replay: Replay) -> list[OneOff]:
    """Profiler steps with far more work than the median step, a part for each launching thread."""
    graph, steps = replay.graph, replay.steps
    if len(steps) < QueryThresholds().fewest_alike or "phase" in steps.kinds:
        return []
    host = graph.host
    launching = graph.device.thread[graph.device.linked]
    threads = np.union1d(launching, host.thread_of(steps.begin))
    began, lasted = np.array(steps.began_ns), np.array(steps.lasted_ns)
    # A row for each step, a column for each thread.
    begin = host.key(threads[None, :], began[:, None])
    end = host.key(threads[None, :], (began + lasted)[:, None])
    work = host.work_between(begin.ravel(), end.ravel()).reshape(begin.shape)
    usual = np.sort(work, axis=0)[(len(work) - 1) // 2]
    slow = np.flatnonzero(work.sum(axis=1) >= SLOW * usual.sum())
    if 2 * len(slow) > len(steps):
        return []
    found = []
    for number in slow.tolist():
        row: dict[str, Any] = {"kind": "step", "event_id": None, "name": steps.names[number]}
        row |= {"start_ns": steps.began_ns[number], "dur_ns": steps.lasted_ns[number]}
        for thread in np.flatnonzero(work[number] > usual).tolist():
            keys = int(begin[number, thread]), int(end[number, thread])
            row["cause"] = _main_cause(graph, *keys)
            # A wait that the trace does not explain is not work.
            if row["cause"] == "sync":
                continue
            found.append(_one_off(row, int(usual[thread]), int(work[number, thread]), *keys))
    return found


def _slow_start(replay: Replay) -> list[OneOff]:
    """The start of a run without steps, if the host took far longer to its launches than later for
    launches of the same kernels; a part for each launching thread."""
    graph, steps, thresholds = replay.graph, replay.steps, QueryThresholds()
    if len(steps) and "phase" not in steps.kinds:
        return []
    op, key, ratio, enough = _paces(replay)
    if not enough:
        return []
    # Launches in order of time, in parts of about the same number.
    time = graph.host.time_of(key)
    order = np.argsort(time, kind="stable")
    parts = np.array_split(order, thresholds.start_parts)
    slow = [len(part) > 0 and float(np.median(ratio[part])) >= SLOW for part in parts]
    first = slow.index(False) if False in slow else len(slow)
    if not 0 < first <= thresholds.start_share * len(parts) or any(slow[first:]):
        return []
    start = np.concatenate(parts[:first])
    since, until = int(time[start].min()), int(time[start].max())
    factor = float(np.median(ratio[start]))
    begin_ns = graph.host.origin_ns + since
    row = {
        "kind": "start", "event_id": None, "name": "the start of the run",
        "start_ns": begin_ns, "dur_ns": until - since,
    }  # fmt: skip
    found = []
    for thread in np.unique(graph.device.thread[op[start]]).tolist():
        begin, end, work = _work(graph, thread, begin_ns, until - since)
        if work:
            row["cause"] = _main_cause(graph, begin, end)
            found.append(_one_off(row, round(work / factor), work, begin, end))
    span_ns = int(graph.device.end.max() - graph.device.start.min())
    is_long = sum(each.excess_ns for each in found) >= thresholds.long_share * span_ns
    return found if is_long else []


def _paces(replay: Replay) -> tuple[Ints, Ints, Floats, bool]:
    """For each launch: an op of it, its key, the host's work since the thread's launch before over
    the median of that for the kernels of its name; and whether the names are enough to compare."""
    graph, thresholds = replay.graph, QueryThresholds()
    device, host = graph.device, graph.host
    op = np.flatnonzero(device.linked)
    key = host.key(device.thread[op], host.origin_ns + device.call[op])
    key, first = np.unique(key, return_index=True)
    op = op[first]
    follows = np.append(False, host.thread_of(key[1:]) == host.thread_of(key[:-1]))[: len(key)]
    work = host.work_between(key[np.flatnonzero(follows) - 1], key[follows])
    op, key = op[follows], key[follows]
    if len(op) < thresholds.start_parts * thresholds.fewest_alike:
        return op, key, np.zeros(0), False
    rows = replay.database.arrays("op_names", trace=replay.trace_id)
    name = rows["name_id"][np.searchsorted(rows["event_id"], device.op_id[op])]
    order = np.lexsort((work, name))
    _, begin, count = np.unique(name[order], return_index=True, return_counts=True)
    usual = work[order][begin + (count - 1) // 2]
    kind = np.searchsorted(name[order][begin], name)
    known = count[kind] >= thresholds.start_parts // 2
    ratio = work / np.maximum(1, usual[kind])
    return op[known], key[known], ratio[known], 2 * int(known.sum()) > len(op)


def _main_cause(graph: Graph, begin: int, end: int) -> str:
    """The cause with most work between two keys of a thread."""
    host = graph.host.cut(np.array([begin, end]))
    stretches = np.flatnonzero(host.within(np.array([begin]), np.array([end])))
    worked = host.worked(np.diff(host.borders)[stretches], stretches)
    return graph.causes[int(sums(host.cause[stretches], worked, len(graph.causes)).argmax())]


def _work(graph: Graph, thread: int, start_ns: int, dur_ns: int) -> tuple[int, int, int]:
    """The keys at which an interval begins and ends on a thread, and the work between them."""
    keys = graph.host.key(np.array([thread, thread]), np.array([start_ns, start_ns + dur_ns]))
    begin, end = keys.tolist()
    return begin, end, int(graph.host.work_between(keys[:1], keys[1:])[0]) if end > begin else 0


def _one_off(row: dict[str, Any], usual_ns: int, work_ns: int, begin: int, end: int) -> OneOff:
    given = {key: row[key] for key in ("kind", "event_id", "start_ns", "dur_ns", "cause", "name")}
    excess_ns = work_ns - usual_ns
    return OneOff(**given, usual_ns=usual_ns, excess_ns=excess_ns, begin=begin, end=end)


def without(found: list[OneOff], graph: Graph) -> Scale:
    """The scale of a replay in which one-offs have no excess."""
    scale = Scale.of(graph)
    host = graph.host
    work = host.worked(np.diff(host.borders), slice(None))
    left = np.ones(len(host), np.bool_)
    # From the inside out: what a step holds has been scaled before the rest of the step.
    for each in sorted(found, key=lambda each: each.end - each.begin):
        if each.on_host:
            where = left & host.within(np.array([each.begin]), np.array([each.end]))
            worked = int(work[where].sum())
            if worked:
                scale.host.scale(max(0.0, 1 - each.excess_ns / worked), where)
            left &= ~where
        else:
            factor = np.array([1 - each.excess_ns / each.dur_ns])
            scale.op.scale_each(factor, np.array([each.begin]))
    return scale
