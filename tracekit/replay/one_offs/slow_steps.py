"""Steps with far more work than the others, on the host or on the device, and a slow start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.replay.graph.arrays import Floats, Ints, sums
from tracekit.replay.one_offs.host_work import HostWork
from tracekit.replay.one_offs.model import SLOW, OneOff, one_off
from tracekit.thresholds import QueryThresholds

if TYPE_CHECKING:
    from tracekit.replay.whatif import Replay


def slow_steps(replay: Replay, worked: HostWork) -> list[OneOff]:
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
    work = worked.between(begin.ravel(), end.ravel()).reshape(begin.shape)
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
            row["cause"] = worked.main_cause(*keys)
            # A wait that the trace does not explain is not work.
            if row["cause"] == "sync":
                continue
            found.append(one_off(row, int(usual[thread]), int(work[number, thread]), *keys))
    return found


def busy_steps(replay: Replay) -> list[OneOff]:
    """Profiler steps that put far more work on the device than the median step (a checkpoint, an
    evaluation, kernels that are tried out), a part for each cause with a long excess."""
    graph, steps, thresholds = replay.graph, replay.steps, QueryThresholds()
    if len(steps) < thresholds.fewest_alike or "phase" in steps.kinds:
        return []
    device, causes = graph.device, len(graph.causes)
    # A row for each step, a column for each cause.
    kind = steps.step.astype(np.int64) * causes + device.cause[steps.op]
    work = sums(kind, device.ns[steps.op], len(steps) * causes).reshape(len(steps), causes)
    total, usual = work.sum(axis=1), np.sort(work, axis=0)[(len(work) - 1) // 2]
    slow = np.flatnonzero(total >= SLOW * np.sort(total)[(len(total) - 1) // 2])
    if 2 * len(slow) > len(steps):
        return []
    span_ns = int(device.end.max() - device.start.min())
    found = []
    for number in slow.tolist():
        row: dict[str, Any] = {"kind": "step", "event_id": None, "name": steps.names[number]}
        row |= {"start_ns": steps.began_ns[number], "dur_ns": steps.lasted_ns[number]}
        excess = work[number] - usual
        for cause in np.flatnonzero(excess >= thresholds.long_share * span_ns).tolist():
            row["cause"] = graph.causes[cause]
            ops = steps.op[kind == number * causes + cause].tolist()
            found.append(one_off(row, int(usual[cause]), int(work[number, cause]), ops=ops))
    return found


def slow_start(replay: Replay, worked: HostWork) -> list[OneOff]:
    """The start of a run without steps, if the host took far longer to its launches than later for
    launches of the same kernels; a part for each launching thread."""
    graph, steps, thresholds = replay.graph, replay.steps, QueryThresholds()
    if len(steps) and "phase" not in steps.kinds:
        return []
    op, key, ratio, enough = _paces(replay, worked)
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
        begin, end, work = worked.lasting(thread, begin_ns, until - since)
        if work:
            row["cause"] = worked.main_cause(begin, end)
            found.append(one_off(row, round(work / factor), work, begin, end))
    span_ns = int(graph.device.end.max() - graph.device.start.min())
    is_long = sum(each.excess_ns for each in found) >= thresholds.long_share * span_ns
    return found if is_long else []


def _paces(replay: Replay, worked: HostWork) -> tuple[Ints, Ints, Floats, bool]:
    """For each launch: an op of it, its key, the host's work since the thread's launch before over
    the median of that for the kernels of its name; and whether the names are enough to compare."""
    graph, thresholds = replay.graph, QueryThresholds()
    device, host = graph.device, graph.host
    op = np.flatnonzero(device.linked)
    key = host.key(device.thread[op], host.origin_ns + device.call[op])
    key, first = np.unique(key, return_index=True)
    op = op[first]
    follows = np.append(False, host.thread_of(key[1:]) == host.thread_of(key[:-1]))[: len(key)]
    work = worked.between(key[np.flatnonzero(follows) - 1], key[follows])
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
