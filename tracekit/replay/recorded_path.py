"""The critical path of a run as recorded, piece by piece: where its time was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tracekit.replay.whatif import Replay


@dataclass(frozen=True)
class PathPiece:
    """A stretch of the path with one cause, on one side; on the trace's clock."""

    start_ns: int
    dur_ns: int
    cause: str
    side: str
    """host or device."""


def recorded_path(replay: Replay, from_ns: int, to_ns: int, parts: int) -> list[PathPiece]:
    """The critical path of the whole trace between two instants.

    Neighbours of one cause and side are one piece. Pieces shorter than one of `parts` equal parts
    of the interval are summed up by cause inside their part, and lie side by side there.
    """
    run = replay.measured()
    origin = replay.graph.host.origin_ns
    since, until = from_ns - origin, to_ns - origin
    blocks = [
        kept
        for block in replay.bounds("trace").pieces(run)
        if len((kept := block.between(since, until)).ns)
    ]
    if not blocks:
        return []
    start, ns, cause, on_device = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("start", "ns", "cause", "on_device")
    )
    order = np.argsort(start, kind="stable")
    start, ns, kind = start[order], ns[order], 2 * cause[order].astype(np.int64) + on_device[order]
    # Neighbours of one kind are one piece.
    first = np.flatnonzero(np.append(True, np.diff(kind) != 0))
    start, ns, kind = start[first], np.add.reduceat(ns, first), kind[first]
    part_ns = max(1, -(-(until - since) // parts))
    part = np.where(ns < part_ns, (start - since) // part_ns, -1 - np.arange(len(ns)))
    order = np.lexsort((start, kind, part))
    start, ns, kind, part = start[order], ns[order], kind[order], part[order]
    first = np.flatnonzero(np.append(True, (np.diff(kind) != 0) | (np.diff(part) != 0)))
    found = zip(
        np.minimum.reduceat(start, first).tolist(),
        np.add.reduceat(ns, first).tolist(),
        kind[first].tolist(),
        part[first].tolist(),
        strict=True,
    )
    pieces: list[PathPiece] = []
    end_of: dict[int, int] = {}
    for begin, length, which, at in sorted(found):
        begin = max(begin, end_of.get(at, begin))
        end_of[at] = begin + length
        name = replay.graph.causes[which // 2]
        pieces.append(PathPiece(begin + origin, length, name, "device" if which % 2 else "host"))
    return pieces
