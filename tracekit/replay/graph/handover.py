"""Finds threads that hand work to each other: one stands still while the other works.

A trace does not record handovers. (Its `fwdbwd` flows link operators, not threads; in real traces
they lead to no thread that is not found without them.) In a backward pass, a thread of autograd's
works while the thread that called backward stays in one slice, or in none, from the begin of that
work to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracekit.replay.graph.arrays import Flags, Ints, Numbers
from tracekit.replay.graph.host import Host
from tracekit.thresholds import Thresholds

# Threads per block.
_AT_ONCE = 4_096


@dataclass(frozen=True)
class Handovers:
    """Stretches of work that one thread gives to another. Instants are keys of the host."""

    idle_from: Ints
    """On the worker: the end of its previous work."""
    begin: Ints
    end: Ints
    given: Ints
    """On the giver: the instant at which the worker began."""
    still_from: Ints
    returned: Ints
    """On the giver: the instant at which the worker ended."""


def handovers(host: Host, launching: Numbers, thresholds: Thresholds) -> Handovers:
    """The work that other threads gave to the threads numbered `launching`."""
    # A process's first thread may give work to all its threads; any other thread, to those that
    # began to work later.
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
    """The handovers between the threads of one process; each may get work from those before it."""
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
    """The end of each thread's first stretch and the begin of its last: the trace tells nothing of
    what the thread did in these two."""
    first = np.searchsorted(host.at, thread * host.span_ns)
    last = np.searchsorted(host.at, (thread + 1) * host.span_ns)
    since = np.append(host.at, 0)[np.minimum(first + 1, last)]
    return since - thread * host.span_ns, host.at[last - 1] - thread * host.span_ns


def _there(
    begin: Ints, end: Ints, since: Ints, until: Ints, thresholds: Thresholds
) -> Iterator[int]:
    """Threads that could stand still for `handed_over_share` of a worker's work.

    The recorded time of such a thread leaves out, at either end, at most the rest of that work.
    """
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
    """The begins and ends of a thread's runs: recorded work without a gap."""
    first, last = np.searchsorted(host.at, [thread * host.span_ns, (thread + 1) * host.span_ns])
    works = (host.event[first:last] >= 0).astype(np.int8)
    edge = np.diff(works, prepend=0, append=0)
    begin = host.at[first:last][edge[:-1] > 0]
    stop = np.flatnonzero(edge < 0) - 1
    last_instant = (thread + 1) * host.span_ns - 1
    return begin, np.minimum(host.borders[first + 1 : last + 1][stop], last_instant)


def _stands_still(host: Host, giver: int, begin: Ints, end: Ints) -> tuple[Flags, Ints]:
    """For each of the worker's runs: whether the giver is in one stretch for at least half of the
    run and until its end, and which stretch that is."""
    first, last = np.searchsorted(host.at, [giver * host.span_ns, (giver + 1) * host.span_ns])
    stretch = np.clip(host.stretch_of(giver * host.span_ns + end - 1), first, last - 1)
    since = host.at[stretch] % host.span_ns
    until = since + host.borders[stretch + 1] - host.at[stretch]
    common = np.minimum(end, until) - np.maximum(begin, since)
    # The trace does not tell what the giver did before its first slice and after its last.
    inner = (stretch > first) & (stretch < last - 1)
    return inner & (until >= end) & (2 * common >= end - begin), stretch


def _given(
    host: Host, worker: int, giver: int, begin: Ints, end: Ints, still: Flags, stretch: Ints
) -> Handovers:
    """The handovers; adjacent runs of the worker in one stretch of the giver are one handover."""
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
