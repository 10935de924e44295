"""Bindings of the replay's C loops over host work and edges, on NumPy arrays.

The callers, tracekit/replay/graph/host.py and tracekit/replay/simulator.py, define the arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import byref, c_double, c_int64, c_void_p
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.native.library import library

Ints = NDArray[np.int64]


def _address(array: NDArray[Any], kind: Any) -> int:
    assert array.dtype == kind and array.flags.c_contiguous, (array.dtype, kind)
    return array.ctypes.data


class _Integers(ctypes.Structure):
    """An array of integers of 1 to 8 bytes."""

    _fields_: ClassVar = [("at", c_void_p), ("bytes", c_int64)]

    def __init__(self, array: NDArray[Any]) -> None:
        super().__init__(_address(array, array.dtype), array.dtype.itemsize)


def _layout(members: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The `_fields_` of a struct with these members."""
    return [
        (name, c_void_p if issubclass(kind, np.generic) else kind) for name, kind in members.items()
    ]


class _Arrays(ctypes.Structure):
    """A struct in src/replay.c that consists of numbers and of arrays, which it keeps alive.
    `members` are its members in order; for an array of a fixed type, the type of its elements."""

    members: ClassVar[dict[str, Any]] = {}

    def __init__(self, *given: Any) -> None:
        self._kept = given
        super().__init__(*map(self._member, self.members.values(), given))

    @staticmethod
    def _member(kind: Any, value: Any) -> Any:
        if issubclass(kind, np.generic) and value is not None:
            return _address(value, kind)
        return _Integers(value) if kind is _Integers else value


class Parts(_Arrays):
    """The kind of each part and the rate of each kind. Without rates, parts take their measured
    time."""

    members: ClassVar = {"kind": _Integers, "rate": np.float64}
    _fields_: ClassVar = _layout(members)


class Scales(_Arrays):
    """The input of one replay of a run's edges: the rates of operations and fixed costs, the
    dropped edges, the host work by each point, and the factor on unexplained waits."""

    members: ClassVar = {
        "op": Parts, "fixed": Parts, "dropped": np.bool_, "work_ns": np.int64, "unknown": c_double,
    }  # fmt: skip
    _fields_: ClassVar = _layout(members)


class MeetingNodes(_Arrays):
    """Nodes of several runs, grouped by meeting: the nodes of meeting m are `begin[m]` to
    `begin[m + 1]`. `ns` is added to the time of a node that arrives at its meeting, and to the
    meeting's end for a node that leaves it."""

    members: ClassVar = {"begin": np.int64, "run": np.int32, "node": np.int32, "ns": np.int64}
    _fields_: ClassVar = _layout(members)


class Turns(_Arrays):
    """The turns of a joint replay: a run's edges from `first` to `last`; or, if `run` is -1, the
    meeting with the number `first`. `hosted` is the first edge with host work."""

    members: ClassVar = {
        "run": np.int32, "first": np.int64, "last": np.int64, "hosted": np.int64, "count": c_int64,
    }  # fmt: skip
    _fields_: ClassVar = _layout(members)


class _Stretches(_Arrays):
    members: ClassVar = {"borders": np.int64, "is_blocked": np.bool_, "count": c_int64}
    _fields_: ClassVar = _layout(members)


class LaidOutEdges(_Arrays):
    """Edges laid out for many replays: in topological order, with the edges of one target adjacent.

    The elements of `op_ns` and `fixed_ns` have 4 or 8 bytes.
    """

    members: ClassVar = {
        "source": np.int32, "target": np.int32, "op_ns": _Integers, "fixed_ns": _Integers,
        "count": c_int64, "ops": c_int64, "hosted": np.int32, "since": np.int32, "until": np.int32,
        "n_hosted": c_int64, "unknown_ns": np.int64,
    }  # fmt: skip
    _fields_: ClassVar = _layout(members)

    def __init__(self, columns: Mapping[str, NDArray[Any]], ops: int, unknown_ns: Ints) -> None:
        """`columns` are source, target, op_ns and fixed_ns of all edges, and hosted, since and
        until of edges with host work. Sources 1 to `ops` are GPU ops."""
        counts = {"count": len(columns["source"]), "n_hosted": len(columns["hosted"]), "ops": ops}
        members = {**columns, **counts, "unknown_ns": unknown_ns}
        super().__init__(*(members[name] for name in self.members))
        self._nodes = len(unknown_ns)

    def room(self) -> tuple[Ints, Ints]:
        """Arrays for the length of each edge and the time of each node, in ns."""
        return np.empty(self.count, np.int64), np.zeros(self._nodes, np.int64)

    def replay(self, scales: Scales) -> tuple[Ints, Ints]:
        """The length of each edge and the time of each node, in ns."""
        length, time = self.room()
        library().tracekit_replay(byref(self), byref(scales), length.ctypes.data, time.ctypes.data)
        return length, time


class _Rank(ctypes.Structure):
    _fields_: ClassVar = [(name, c_void_p) for name in ("edges", "scale", "length", "time")]


def scale_times(ns: NDArray[Any], rates: Parts) -> Ints:
    """The times of parts at these rates; `ns` are the measured times."""
    out = np.empty(len(ns), np.int64)
    library().tracekit_scaled(byref(_Integers(ns)), byref(rates), len(ns), out.ctypes.data)
    return out


def work_at(
    borders: Ints,
    is_blocked: NDArray[np.bool_],
    rates: Parts | None,
    points: Ints,
    stretch: NDArray[Any],
) -> Ints:
    """The work done by each of `points`, in ns, at these rates or as measured. Only differences
    within a thread are meaningful.

    `points` must be in order; `stretch` holds each point's stretch.
    """
    rates = rates or Parts(np.zeros(0, np.int8), None)
    out = np.zeros(len(points), np.int64)
    stretches = _Stretches(borders, is_blocked, len(is_blocked))
    library().tracekit_work(
        byref(stretches), byref(rates), _address(points, np.int64), byref(_Integers(stretch)),
        len(points), out.ctypes.data,
    )  # fmt: skip
    return out


def replay_ranks(
    edges: Sequence[LaidOutEdges],
    scales: Sequence[Scales],
    turns: Turns,
    arrive: MeetingNodes,
    leave: MeetingNodes,
    wire_ns: Ints,
) -> tuple[list[tuple[Ints, Ints]], Ints]:
    """Replays runs together. A meeting ends `wire_ns` after the last node that arrives at it.

    Returns the length of each edge and the time of each node for each run, and the end of each
    meeting.
    """
    rooms = [edge.room() for edge in edges]
    ranks = (_Rank * len(edges))(
        *(
            _Rank(
                ctypes.addressof(one), ctypes.addressof(scale), length.ctypes.data, time.ctypes.data
            )
            for one, scale, (length, time) in zip(edges, scales, rooms, strict=True)
        )
    )
    ended = np.zeros(len(wire_ns), np.int64)
    library().tracekit_replay_ranks(
        ranks, byref(turns), byref(arrive), byref(leave), _address(wire_ns, np.int64),
        ended.ctypes.data,
    )  # fmt: skip
    return rooms, ended
