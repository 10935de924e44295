"""Threads that hand work to each other, told by who stands still while who works.

A trace does not record it (but for `fwdbwd` flows, which tie operators, not threads, and in real
traces lead to no thread that is not found without them). What it shows of a backward pass is a
thread of autograd's that works while the thread that called backward is in one and the same slice,
or in none, from the first to the last of that work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.replay.host import Host
from tracekit.replay.rates import Flags, Ints, Numbers
from tracekit.thresholds import Thresholds

# So many threads are asked, of those that worked first, beside those that launch.
_MOST = 64


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


def handovers(host: Host, launching: Numbers, limits: Thresholds) -> Handovers:
    """What the threads numbered `launching` were given to do by others."""
    # Who could give work to whom: the process's first thread to all, then whoever worked earlier.
    at = host.at[host.event >= 0]
    owner = host.thread_of(at)
    first = np.flatnonzero(np.append(True, np.diff(owner) != 0)[: len(owner)])
    thread, begun = owner[first], host.time_of(at[first])
    is_other = np.array([host.threads[each][0] != host.threads[each][1] for each in thread], bool)
    order = thread[np.lexsort((begun, is_other))].tolist()
    taken = set(order[:_MOST]) | set(launching.tolist())
    turn = [each for each in order if each in taken]
    runs = {each: _runs(host, each) for each in turn}
    found: list[Handovers] = []
    for place, worker in enumerate(turn):
        if worker not in launching:
            continue
        begin, end = (host.time_of(each) for each in runs[worker])
        best: tuple[float, int, Flags, Ints] | None = None
        for giver in turn[:place]:
            if host.threads[giver][0] != host.threads[worker][0]:
                continue
            still, stretch = _stands_still(host, giver, begin, end)
            share = float((end - begin)[still].sum() / max(1, (end - begin).sum()))
            if share >= limits.handed_over_share and (best is None or share > best[0]):
                best = (share, giver, still, stretch)
        if best is not None:
            found.append(_given(host, worker, best[1], begin, end, best[2], best[3]))
    nothing = np.zeros(0, np.int64)
    return Handovers(
        *(np.concatenate([nothing, *(getattr(each, name) for each in found)])
          for name in Handovers.__dataclass_fields__)
    )  # fmt: skip


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
