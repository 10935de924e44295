"""The start of a run without steps, if its launches are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracekit.replay.graph.arrays import Floats, Ints
from tracekit.replay.one_offs.host_work import HostWork
from tracekit.replay.one_offs.model import OneOff, one_off

if TYPE_CHECKING:
    from tracekit.replay.whatif import Replay


def slow_start(replay: Replay, worked: HostWork) -> list[OneOff]:
    """The start of a run without steps, if the host took far longer to its launches than later for
    launches of the same kernels; a part for each launching thread."""
    graph, steps, thresholds = replay.graph, replay.steps, replay.thresholds
    if len(steps) and "phase" not in steps.kinds:
        return []
    op, key, ratio, enough = _paces(replay, worked)
    if not enough:
        return []
    # Launches in order of time, in parts of about the same number.
    time = graph.host.time_of(key)
    order = np.argsort(time, kind="stable")
    parts = np.array_split(order, thresholds.start_parts)
    least = thresholds.one_range_ratio
    slow = [len(part) > 0 and float(np.median(ratio[part])) >= least for part in parts]
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
    graph, thresholds = replay.graph, replay.thresholds
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
