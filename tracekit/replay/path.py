"""The critical path of a replay: the chain of work that a window's length consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph import Kind
from tracekit.replay.host import Ints, Worked, sums, times
from tracekit.replay.sweep import Run

# So many edges of the path are taken apart at once.
_AT_ONCE = 50_000


@dataclass(frozen=True)
class Path:
    """Links of the path, from its end to its start, without gap or overlap.

    A link is a GPU op or a slice of the host (`event`), or time between them (`event` -1).
    """

    start: Ints
    """ns since the trace's start, as replayed."""
    ns: Ints
    cause: NDArray[np.int8]
    event: Ints
    on_device: NDArray[np.bool_]
    causes: list[str]

    def between(self, start: int, end: int) -> Path:
        """What of it lies between two instants."""
        since, until = np.maximum(self.start, start), np.minimum(self.start + self.ns, end)
        kept = until > since
        return Path(
            since[kept],
            (until - since)[kept],
            self.cause[kept],
            self.event[kept],
            self.on_device[kept],
            self.causes,
        )

    def by_cause(self) -> dict[str, int]:
        """The path's time by cause, most first; it adds up to the window."""
        total = sums(self.cause, self.ns, len(self.causes))
        named = {name: int(ns) for name, ns in zip(self.causes, total, strict=True) if ns}
        return dict(sorted(named.items(), key=lambda item: -item[1]))

    def longest(self, top: int) -> list[dict[str, int | str | None]]:
        """The longest links: what of each event is on the path, and each nameless stretch."""
        named = self.event >= 0
        events, inverse = np.unique(self.event[named], return_inverse=True)
        total = sums(inverse, self.ns[named], len(events))
        first = np.zeros(len(events), np.int64)
        where = np.flatnonzero(named)
        first[inverse[::-1]] = where[::-1]
        link = np.concatenate([first, np.flatnonzero(~named)])
        ns = np.concatenate([total, self.ns[~named]])
        chosen = np.argsort(-ns, kind="stable")[:top]
        return [
            {
                "event_id": int(self.event[i]) if self.event[i] >= 0 else None,
                "cause": self.causes[self.cause[i]],
                "side": "device" if self.on_device[i] else "host",
                "start_ns": int(self.start[i]),
                "dur_ns": int(length),
            }
            for i, length in zip(link[chosen], ns[chosen], strict=True)
        ]


def critical_path(
    run: Run, start: int, end: int, node: int, tail_op: int = -1, key: int = -1
) -> Path:
    """The path from `end` back to `start` (ns since the trace's start, as replayed).

    The end is that of the op `tail_op`, whose start is `node`, or the instant `key` of the host,
    which follows `node`.
    """
    graph, edges = run.graph, run.graph.edges
    chain: list[int] = []
    time, binding, source = run.time, run.binding, edges.source
    at = node
    while time[at] > start and binding[at] >= 0:
        edge = int(binding[at])
        chain.append(edge)
        at = int(source[edge])
    links = np.array(chain, np.int64)
    worked = run.worked
    parts = [
        part.between(start, end)
        for first in range(0, len(links), _AT_ONCE)
        for part in _pieces(run, worked, links[first : first + _AT_ONCE])
    ]
    parts.append(_tail(run, node, tail_op, key).between(start, end))
    # Before the trace's first record nothing is known.
    missing = end - start - sum(int(part.ns.sum()) for part in parts)
    if missing > 0:
        unknown = np.array([graph.number("unknown")], np.int8)
        parts.append(_links(run, np.array([start]), np.array([missing]), unknown, None, False))
    return Path(
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.ns for part in parts]),
        np.concatenate([part.cause for part in parts]),
        np.concatenate([part.event for part in parts]),
        np.concatenate([part.on_device for part in parts]),
        graph.causes,
    )


def _tail(run: Run, node: int, op: int, key: int) -> Path:
    """From the last node to the path's end: an op's own time, or a thread's work."""
    graph = run.graph
    if op >= 0:
        return _links(
            run,
            run.op_start(np.array([op])),
            run.op_ns[[op]],
            graph.device.cause[[op]],
            graph.device.op_id[[op]],
            True,
        )
    _, since = graph.root(np.array([key]))
    return _host_links(run, run.worked, since, np.array([key]), run.time[[node]])


def _pieces(run: Run, worked: Worked, chain: Ints) -> Iterator[Path]:
    """What these edges of the path consist of: host work, then the op's, then the fixed time, then
    a wait that nothing explains."""
    graph, edges = run.graph, run.graph.edges
    begun = run.time[edges.source[chain]]
    since, until = edges.host_from[chain], edges.host_to[chain]
    yield _host_links(run, worked, since, until, begun)
    at = begun + worked.until(until) - worked.until(since)
    by_op = edges.op[chain] >= 0
    op = edges.op[chain][by_op]
    op_part = np.zeros(len(chain), np.int64)
    op_part[by_op] = times(edges.op_ns[chain][by_op], run.scale.op[op])
    # A fixed time below nothing (clocks differ) takes from the op.
    fixed = times(edges.fixed_ns[chain], run.scale.fixed[chain])
    shown = op_part + np.minimum(fixed, 0)
    device = graph.device
    yield _links(run, at[by_op], shown[by_op], device.cause[op], device.op_id[op], True)
    kind = edges.kind[chain]
    on_device = (kind != Kind.HOST) & (kind != Kind.SYNC)
    cause = edges.fixed_cause[chain]
    yield _links(run, at + shown, np.maximum(fixed, 0), cause, None, on_device)
    unknown = np.full(len(chain), graph.number("unknown"), np.int8)
    wait = run.wait[edges.target[chain]]
    yield _links(run, at + op_part + fixed, wait, unknown, None, on_device)


def _host_links(run: Run, worked: Worked, since: Ints, until: Ints, begun: Ints) -> Path:
    """The work of threads between two instants each, stretch by stretch."""
    host = run.graph.host
    first, last = host.stretch_of(since), host.stretch_of(until)
    count = last - first + 1
    index = np.repeat(np.arange(len(since)), count)
    stretch = (
        np.repeat(first, count)
        + np.arange(int(count.sum()))
        - np.repeat(np.cumsum(count) - count, count)
    )
    begin = np.maximum(since[index], host.at[stretch])
    end = np.minimum(until[index], host.at[stretch] + host.ns[stretch])
    end = np.maximum(end, begin)
    points = np.concatenate([begin, end, since])
    where = np.concatenate([stretch, stretch, first])
    work = worked.until(points, where)
    n = len(stretch)
    start = begun[index] + work[:n] - work[2 * n :][index]
    return _links(
        run, start, work[n : 2 * n] - work[:n], host.cause[stretch], host.event[stretch], False
    )


def _links(
    run: Run,
    start: Ints,
    ns: Ints,
    cause: NDArray[np.int8],
    event: Ints | None,
    on_device: bool | NDArray[np.bool_],
) -> Path:
    n = len(start)
    return Path(
        start,
        ns,
        cause,
        np.full(n, -1, np.int64) if event is None else event,
        np.broadcast_to(on_device, n).astype(np.bool_),
        run.graph.causes,
    )
