"""Threads that hand work to each other, told by who stands still while who works.

A trace does not record it (but for `fwdbwd` flows, which tie operators, not threads, and in real
traces lead to no thread that is not found without them). What it shows of a backward pass is a
thread of autograd's that works while the thread that called backward is in one and the same slice,
or in none, from the first to the last of that work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracekit.replay.graph.arrays import Flags, Ints, Numbers
from tracekit.replay.graph.host import Host
from tracekit.thresholds import Thresholds

# Threads looked through at once.
_AT_ONCE = 4_096


@dataclass(frozen=True)
class Handovers:
    """Stretches of work that one thread gives to another; instants on the host's axis."""

    idle_from: Ints
    """On the worker: the end of what it did before."""
    begin: Ints
    end: Ints
    given: Ints
    """On the giver: when the worker began."""
    still_from: Ints
    returned: Ints
    """On the giver: when the worker had ended."""


def handovers(host: Host, launching: Numbers, thresholds: Thresholds) -> Handovers:
    """What the threads numbered `launching` were given to do by others."""
    # Who could give work to whom: the process's first thread to all, then whoever worked earlier.
    at = host.at[host.event >= 0]
    owner = host.thread_of(at)
    first = np.flatnonzero(np.append(True, np.diff(owner) != 0)[: len(owner)])
    thread, begun = owner[first], host.time_of(at[first])
    is_other = np.array([host.threads[each][0] != host.threads[each][1] for each in thread], bool)
    order = thread[np.lexsort((begun, is_other))].tolist()
    workers = set(launching.tolist())
    taken = set(order[: thresholds.most_givers]) | workers
    of_process: dict[int, list[int]] = {}
    for each in order:
        if each in taken:
            of_process.setdefault(host.threads[each][0], []).append(each)
    found = [
        given
        for turn in of_process.values()
        for given in _in_process(host, turn, workers, thresholds)
    ]
    nothing = np.zeros(0, np.int64)
    return Handovers(
        *(np.concatenate([nothing, *(getattr(each, name) for each in found)])
          for name in Handovers.__dataclass_fields__)
    )  # fmt: skip


def _in_process(
    host: Host, turn: list[int], workers: set[int], thresholds: Thresholds
) -> Iterator[Handovers]:
    """What is handed over between the threads of one process, each of which may be given work by
    those before it."""
    since, until = _inner(host, np.array(turn, np.int64))
    for index, worker in enumerate(turn):
        if worker not in workers or not index:
            continue
        begin, end = (host.time_of(each) for each in _runs(host, worker))
        best: tuple[float, int, Flags, Ints] | None = None
        for giver in _there(begin, end, since[:index], until[:index], thresholds):
            still, stretch = _stands_still(host, turn[giver], begin, end)
            share = float((end - begin)[still].sum() / max(1, (end - begin).sum()))
            if share >= thresholds.handed_over_share and (best is None or share > best[0]):
                best = (share, turn[giver], still, stretch)
            if share == 1:
                break
        if best is not None:
            yield _given(host, worker, best[1], begin, end, best[2], best[3])


def _inner(host: Host, thread: Ints) -> tuple[Ints, Ints]:
    """The time between each thread's first and last stretch, of which the trace tells nothing."""
    first = np.searchsorted(host.at, thread * host.span_ns)
    last = np.searchsorted(host.at, (thread + 1) * host.span_ns)
    since = np.append(host.at, 0)[np.minimum(first + 1, last)]
    return since - thread * host.span_ns, host.at[last - 1] - thread * host.span_ns


def _there(
    begin: Ints, end: Ints, since: Ints, until: Ints, thresholds: Thresholds
) -> Iterator[int]:
    """Threads that could stand still for enough of a worker's runs: their time has to hold the
    runs from where the rest of the work is left before, to where it is left behind."""
    done = np.cumsum(end - begin)
    if not len(done):
        return
    left = int(max(0.0, 1 - thresholds.handed_over_share) * int(done[-1])) + 1
    first = end[min(int(np.searchsorted(done, left, "right")), len(end) - 1)]
    last = end[int(np.searchsorted(done, done[-1] - left, "left"))]
    tried = 0
    for block in range(0, len(since), _AT_ONCE):
        some = slice(block, block + _AT_ONCE)
        for index in np.flatnonzero((since[some] < first) & (until[some] >= last)).tolist():
            yield block + index
            tried += 1
            if tried == thresholds.most_tried:
                return


def _runs(host: Host, thread: int) -> tuple[Ints, Ints]:
    """Where a thread's recorded work begins and ends: stretches without a gap in them."""
    first, last = np.searchsorted(host.at, [thread * host.span_ns, (thread + 1) * host.span_ns])
    works = (host.event[first:last] >= 0).astype(np.int8)
    edge = np.diff(works, prepend=0, append=0)
    begin = host.at[first:last][edge[:-1] > 0]
    stop = np.flatnonzero(edge < 0) - 1
    last_instant = (thread + 1) * host.span_ns - 1
    return begin, np.minimum(host.borders[first + 1 : last + 1][stop], last_instant)


def _stands_still(host: Host, giver: int, begin: Ints, end: Ints) -> tuple[Flags, Ints]:
    """Whether the giver is in one stretch for most of each of a worker's runs, to its end."""
    first, last = np.searchsorted(host.at, [giver * host.span_ns, (giver + 1) * host.span_ns])
    stretch = np.clip(host.stretch_of(giver * host.span_ns + end - 1), first, last - 1)
    since = host.at[stretch] % host.span_ns
    until = since + host.borders[stretch + 1] - host.at[stretch]
    common = np.minimum(end, until) - np.maximum(begin, since)
    # What it did before its first slice and after its last the trace does not tell.
    inner = (stretch > first) & (stretch < last - 1)
    return inner & (until >= end) & (2 * common >= end - begin), stretch


def _given(
    host: Host, worker: int, giver: int, begin: Ints, end: Ints, still: Flags, stretch: Ints
) -> Handovers:
    """Neighbouring runs of the worker in one stretch of the giver are one handover."""
    chosen = np.flatnonzero(still)
    new = np.append(True, (np.diff(stretch[chosen]) != 0) | (np.diff(chosen) != 1))[: len(chosen)]
    first, last = chosen[new], chosen[np.append(new[1:], True)[: len(chosen)]]
    before = np.where(first > 0, end[first - 1], 0)
    since = host.at[stretch[first]] % host.span_ns
    own, other = worker * host.span_ns, giver * host.span_ns
    return Handovers(
        idle_from=own + before,
        begin=own + begin[first],
        end=own + end[last],
        given=other + begin[first],
        still_from=other + np.maximum(since, begin[first]),
        returned=other + end[last],
    )
