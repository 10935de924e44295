"""Steps with far more work than the others, on the host or on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracekit.replay.graph.arrays import sums
from tracekit.replay.one_offs.host_work import HostWork
from tracekit.replay.one_offs.model import OneOff, one_off

if TYPE_CHECKING:
    from tracekit.replay.whatif import Replay


def slow_steps(replay: Replay, worked: HostWork) -> list[OneOff]:
    """Profiler steps with far more work than the median step, a part for each launching thread."""
    graph, steps, thresholds = replay.graph, replay.steps, replay.thresholds
    if len(steps) < thresholds.fewest_alike or "phase" in steps.kinds:
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
    slow = np.flatnonzero(work.sum(axis=1) >= thresholds.one_range_ratio * usual.sum())
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
    graph, steps, thresholds = replay.graph, replay.steps, replay.thresholds
    if len(steps) < thresholds.fewest_alike or "phase" in steps.kinds:
        return []
    device, causes = graph.device, len(graph.causes)
    # A row for each step, a column for each cause.
    kind = steps.step.astype(np.int64) * causes + device.cause[steps.op]
    work = sums(kind, device.ns[steps.op], len(steps) * causes).reshape(len(steps), causes)
    total, usual = work.sum(axis=1), np.sort(work, axis=0)[(len(work) - 1) // 2]
    median = np.sort(total)[(len(total) - 1) // 2]
    slow = np.flatnonzero(total >= thresholds.one_range_ratio * median)
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
