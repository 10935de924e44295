"""The critical path of a replay: the chain of work and waits whose lengths add up to a window."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.causes import CAUSES
from tracekit.replay.graph import EdgeKind, Graph
from tracekit.replay.graph.arrays import Columns, Flags, Ints, Numbers, begins, sums
from tracekit.replay.model import largest_first
from tracekit.replay.simulator import Run

# Block sizes for splitting the path's edges and stretches of host work into pieces.
_AT_ONCE = 20_000
_STRETCHES_AT_ONCE = 100_000
# Number of longest links in a report.
_LONGEST = 10
# The side of a piece; the index says whether it is on the device.
_SIDES = ("host", "device")


class Link(Struct, frozen=True):
    """A GPU op or a host slice on the path, or the time between two of them.

    `start_ns` and `dur_ns` do not form an interval: an event can have several pieces on the path.
    """

    event_id: int | None
    """The event; null: time between two events."""
    cause: str
    """The cause of its time."""
    side: str
    """host, device, or unknown."""
    start_ns: int
    """The start of the link's first piece on the path, in replayed ns since the trace's start; 0:
    the trace's start, or earlier if the device's clock was set back."""
    dur_ns: int
    """The total length of the link's pieces on the path."""


class Path(Struct, frozen=True):
    """The parts of a critical path."""

    by_cause: dict[str, int]
    """The path's time by cause in ns, longest first; it adds up to the window's length."""
    links: list[Link]
    """The longest links, longest first."""

    @property
    def shares(self) -> dict[str, float]:
        """The causes' shares of the path."""
        total = sum(self.by_cause.values())
        return {cause: ns / total for cause, ns in self.by_cause.items()} if total else {}


class Pieces(Columns, frozen=True):
    """Contiguous pieces of a path; `event` is -1 for time between events."""

    start: Ints
    ns: Ints
    cause: NDArray[np.int8]
    event: Ints
    on_device: Flags

    def between(self, start: int, end: int) -> Pieces:
        """The pieces, clipped to the time between two instants."""
        since, until = np.maximum(self.start, start), np.minimum(self.start + self.ns, end)
        clipped = Pieces(since, until - since, self.cause, self.event, self.on_device)
        return clipped.take(until > since)


class End(Struct, frozen=True):
    """The end of a path: the end of the GPU op `op`, or the host's instant `key`."""

    time: int
    node: int
    """The last node before the end: the op's start, or a join."""
    op: int = -1
    key: int = -1


def last_of(run: Run, ops: Numbers, keys: Ints) -> End:
    """The latest of the given ops' ends and instants of the host (`keys`)."""
    op_end, key_time = run.op_end[ops], run.host_time(keys)
    if op_end.max(initial=-1) >= key_time.max(initial=-1):
        op = int(ops[np.argmax(op_end)])
        return End(int(op_end.max()), 1 + op, op=op)
    key = keys[[np.argmax(key_time)]]
    return End(int(key_time.max()), int(run.graph.root(key)[0]), key=int(key[0]))


def critical_path(run: Run, start: int, end: End) -> Path:
    """The path from `end` back to `start` (replayed ns since the trace's start)."""
    graph = run.graph
    total = np.zeros(len(CAUSES), np.int64)
    ids = [each.max(initial=-1) for each in (graph.host.event, graph.device.op_id)]
    event = np.arange(int(max(ids)) + 1)
    none = np.zeros(len(event), np.int8)
    # Each event's time on the path, with the start, cause and side of its first piece there.
    start_of, ns_of = np.full(len(event), end.time), np.zeros(len(event), np.int64)
    empty = Pieces(start_of, ns_of, none, event, none.astype(np.bool_))
    links = []
    for piece in pieces(run, start, end):
        total += sums(piece.cause, piece.ns, len(total))
        links += _links(piece.take(piece.event < 0))
        named = piece.take(piece.event >= 0)
        np.add.at(empty.ns, named.event, named.ns)
        # If an event has several pieces, the last one assigned stays.
        named = named.take(np.argsort(-named.start, kind="stable"))
        named = named.take(named.start < empty.start[named.event])
        empty.start[named.event] = named.start
        empty.cause[named.event] = named.cause
        empty.on_device[named.event] = named.on_device
    # The trace does not show the time before its first record.
    missing = end.time - start - int(total.sum())
    if missing > 0:
        total[CAUSES.index("unknown")] += missing
        links.append(Link(None, "unknown", "host", start, missing))
    links = [*_links(empty.take(empty.ns > 0)), *links]
    links = [replace(each, start_ns=max(0, each.start_ns)) for each in links]
    by_cause = {name: int(ns) for name, ns in zip(CAUSES, total, strict=True) if ns}
    return Path(
        largest_first(by_cause),
        sorted(links, key=lambda link: -link.dur_ns)[:_LONGEST],
    )


def pieces(run: Run, start: int, end: End) -> Iterator[Pieces]:
    """The pieces of the path from `end` back to `start`, in blocks."""
    for part in _tail(run, end):
        yield part.between(start, end.time)
    chain = _chain(run, start, end.node)
    for first in range(0, len(chain), _AT_ONCE):
        for part in _taken_apart(run, chain[first : first + _AT_ONCE]):
            yield part.between(start, end.time)


def _links(pieces: Pieces) -> list[Link]:
    """A link for each of the longest pieces."""
    pieces = pieces.take(np.argsort(-pieces.ns, kind="stable")[:_LONGEST])
    columns = (pieces.start, pieces.ns, pieces.cause, pieces.event, pieces.on_device)
    return [
        Link(event if event >= 0 else None, CAUSES[cause], _SIDES[on_device], start, length)
        for start, length, cause, event, on_device in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _chain(run: Run, start: int, node: int) -> NDArray[np.int32]:
    """The edges of the path, from its end to its start."""
    chain = array("i")
    time, binding, source = run.time, run.binding, run.graph.edges.source
    while time[node] > start and binding[node] >= 0:
        edge = int(binding[node])
        chain.append(edge)
        node = int(source[edge])
    return np.frombuffer(chain, np.int32) if chain else np.zeros(0, np.int32)


def _tail(run: Run, end: End) -> Iterator[Pieces]:
    """The pieces after the last node: the op's own time, or the thread's work."""
    graph = run.graph
    if end.op >= 0:
        op = np.array([end.op])
        start, ns = run.op_start[op], run.op_ns[op]
        yield _pieces(start, ns, graph.device.cause[op], graph.device.op_id[op], True)
    else:
        last, until = np.array([end.node]), np.array([end.key])
        yield from _host_pieces(run, graph.since(last, until), until, run.time[last])


def _taken_apart(run: Run, chain: NDArray[np.int32]) -> Iterator[Pieces]:
    """The pieces of these edges: host work, the op's time, the fixed time, and the unexplained
    wait, in this order."""
    graph, edges = run.graph, run.graph.edges.take(chain)
    at = run.time[edges.source]
    hosted = np.flatnonzero(edges.host_to >= 0)
    until = edges.host_to[hosted]
    since = graph.since(edges.source[hosted], until)
    yield from _host_pieces(run, since, until, at[hosted])
    at[hosted] += run.work_between(since, until)
    by_op = np.flatnonzero((edges.source > 0) & (edges.source <= graph.ops))
    op = edges.source[by_op] - 1
    op_part = np.zeros(len(chain), np.int64)
    op_part[by_op] = run.scale.op.times(edges.op_ns[by_op], op)
    fixed = run.scale.fixed.times(edges.fixed_ns, chain)
    # A negative fixed time (clocks differ) shortens the op.
    op_ns = op_part + np.minimum(fixed, 0)
    device = graph.device
    yield _pieces(at[by_op], op_ns[by_op], device.cause[op], device.op_id[op], True)
    on_device = (edges.kind != EdgeKind.HOST) & (edges.kind != EdgeKind.SYNC)
    yield _pieces(at + op_ns, np.maximum(fixed, 0), edges.fixed_cause, -1, on_device)
    unknown = CAUSES.index("unknown")
    yield _pieces(at + op_part + fixed, run.wait[edges.target], unknown, -1, on_device)


def _host_pieces(run: Run, since: Ints, until: Ints, begun: Ints) -> Iterator[Pieces]:
    """The work of threads from each `since` to its `until`, stretch by stretch."""
    host, rates = run.graph.host, run.scale.host
    first = host.stretch_of(since)
    last = np.cumsum(host.stretch_of(until) - first + 1)
    offset = np.append(0, last)
    # Each interval's start, minus the work of all intervals before it: `done` is one running sum.
    begun = begun.copy()
    worked = 0
    for block in range(0, int(offset[-1]), _STRETCHES_AT_ONCE):
        piece = np.arange(block, min(block + _STRETCHES_AT_ONCE, int(offset[-1])))
        which = np.searchsorted(last, piece, "right")
        stretch = first[which] + piece - offset[which]
        stop = host.borders[stretch + 1]
        begin = np.maximum(since[which], host.at[stretch])
        end = np.maximum(np.minimum(until[which], stop), begin)
        ns = host.scaled_work(stop - begin, stretch, rates) - host.scaled_work(
            stop - end, stretch, rates
        )
        done = worked + np.cumsum(ns) - ns
        new = piece == offset[which]
        begun[which[new]] -= done[new]
        worked = int(done[-1] + ns[-1])
        yield _pieces(begun[which] + done, ns, host.cause[stretch], host.event[stretch], False)


def _pieces(
    start: Ints, ns: Ints, cause: Numbers | int, event: Numbers | int, on_device: Flags | bool
) -> Pieces:
    def column(value: Any, kind: Any) -> NDArray[Any]:
        return np.broadcast_to(value, len(start)).astype(kind, copy=False)

    return Pieces(
        start, ns, column(cause, np.int8), column(event, np.int64), column(on_device, np.bool_)
    )


class PathPiece(Struct, frozen=True):
    """A stretch of the path with one cause on one side, in the trace's clock."""

    start_ns: int
    dur_ns: int
    cause: str
    side: str
    """host or device."""


def path_between(
    path: Iterable[Pieces], graph: Graph, from_ns: int, to_ns: int, parts: int
) -> list[PathPiece]:
    """The pieces of a path between two instants, counted from the trace's base time.

    Adjacent pieces with the same cause and side are merged. Pieces shorter than one of `parts`
    equal parts of the interval are summed up by cause within their part.
    """
    origin = graph.host.origin_ns
    since, until = from_ns - origin, to_ns - origin
    blocks = [few for block in path if len((few := block.between(since, until)).ns)]
    if not blocks:
        return []
    joined = Pieces.concatenate(blocks)
    joined = joined.take(np.argsort(joined.start, kind="stable"))
    start, ns, kind = joined.start, joined.ns, 2 * joined.cause.astype(np.int64) + joined.on_device
    # Merge adjacent pieces of the same kind.
    first = np.flatnonzero(begins(kind))
    start, ns, kind = start[first], np.add.reduceat(ns, first), kind[first]
    part_ns = max(1, -(-(until - since) // parts))
    part = np.where(ns < part_ns, (start - since) // part_ns, -1 - np.arange(len(ns)))
    order = np.lexsort((start, kind, part))
    start, ns, kind, part = start[order], ns[order], kind[order], part[order]
    first = np.flatnonzero(begins(kind, part))
    merged = zip(
        np.minimum.reduceat(start, first).tolist(),
        np.add.reduceat(ns, first).tolist(),
        kind[first].tolist(),
        part[first].tolist(),
        strict=True,
    )
    pieces: list[PathPiece] = []
    end_of: dict[int, int] = {}
    for begin, length, which, at in sorted(merged):
        begin = max(begin, end_of.get(at, begin))
        end_of[at] = begin + length
        name = CAUSES[which // 2]
        pieces.append(PathPiece(begin + origin, length, name, _SIDES[which % 2]))
    return pieces
