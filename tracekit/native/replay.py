"""The replay's loops over stretches of host work and over edges, in C, on NumPy arrays.

tracekit/replay/graph/host.py and tracekit/replay/simulator.py, which call them, define the arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import byref, c_double, c_int64, c_void_p
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tracekit.native.library import library

Ints = NDArray[np.int64]


class _Integers(ctypes.Structure):
    _fields_: ClassVar = [("at", c_void_p), ("bytes", c_int64)]


class _Rates(ctypes.Structure):
    _fields_: ClassVar = [("kind", _Integers), ("rate", c_void_p)]


class _Stretches(ctypes.Structure):
    _fields_: ClassVar = [("borders", c_void_p), ("is_blocked", c_void_p), ("count", c_int64)]


class _Edges(ctypes.Structure):
    _fields_: ClassVar = [
        ("source", c_void_p),
        ("target", c_void_p),
        ("op_ns", _Integers),
        ("fixed_ns", _Integers),
        ("count", c_int64),
        ("ops", c_int64),
        ("hosted", c_void_p),
        ("since", c_void_p),
        ("until", c_void_p),
        ("n_hosted", c_int64),
        ("unknown_ns", c_void_p),
    ]


class _Scale(ctypes.Structure):
    _fields_: ClassVar = [
        ("op", _Rates),
        ("fixed", _Rates),
        ("is_dropped", c_void_p),
        ("work_ns", c_void_p),
        ("unknown", c_double),
    ]


class _Rank(ctypes.Structure):
    _fields_: ClassVar = [
        ("edges", c_void_p),
        ("scale", c_void_p),
        ("length", c_void_p),
        ("time", c_void_p),
    ]


class _Nodes(ctypes.Structure):
    _fields_: ClassVar = [
        ("begin", c_void_p),
        ("rank", c_void_p),
        ("node", c_void_p),
        ("ns", c_void_p),
    ]


class _Turns(ctypes.Structure):
    _fields_: ClassVar = [
        ("rank", c_void_p),
        ("first", c_void_p),
        ("last", c_void_p),
        ("hosted", c_void_p),
        ("count", c_int64),
    ]


class Parts:
    """The rates of parts by kind: `kind` holds each part's kind, and `rate` each kind's rate."""

    def __init__(self, kind: NDArray[Any], rate: NDArray[np.float64] | None) -> None:
        """`rate` None: all parts take their measured time."""
        self._kept = (kind, rate)
        address = None if rate is None else _address(rate, np.float64)
        self.struct = _Rates(_integers(kind), address)


def scale_times(ns: NDArray[Any], rates: Parts) -> Ints:
    """The times of parts at these rates; `ns` are the measured times."""
    out = np.empty(len(ns), np.int64)
    library().tracekit_scaled(
        byref(_integers(ns)), byref(rates.struct), len(ns), _address(out, np.int64)
    )
    return out


def work_at(
    borders: Ints,
    is_blocked: NDArray[np.bool_],
    rates: Parts | None,
    points: Ints,
    stretch: NDArray[Any],
) -> Ints:
    """The work done by each of `points`, in ns, at these rates or as measured.

    `points` have to be in order; `stretch` holds the stretch of each.
    """
    rates = rates or Parts(np.zeros(0, np.int8), None)
    out = np.zeros(len(points), np.int64)
    stretches = _Stretches(
        _address(borders, np.int64), _address(is_blocked, np.bool_), len(is_blocked)
    )
    library().tracekit_work(
        byref(stretches),
        byref(rates.struct),
        _address(points, np.int64),
        byref(_integers(stretch)),
        len(points),
        _address(out, np.int64),
    )
    return out


class LaidOutEdges:
    """Edges laid out for many replays: in topological order, with the edges of one target adjacent.

    The elements of `op_ns` and `fixed_ns` have 4 or 8 bytes.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], ops: int, unknown_ns: Ints) -> None:
        """`columns` are source, target, op_ns and fixed_ns of all edges, and hosted, since and
        until of edges with host work. Sources 1 to `ops` are GPU ops."""
        self._kept = (dict(columns), unknown_ns)
        numbers = ("source", "target", "hosted", "since", "until")
        self.nodes = len(unknown_ns)
        self.count = len(columns["source"])
        self.struct = _Edges(
            op_ns=_integers(columns["op_ns"]),
            fixed_ns=_integers(columns["fixed_ns"]),
            count=self.count,
            ops=ops,
            n_hosted=len(columns["hosted"]),
            unknown_ns=_address(unknown_ns, np.int64),
            **{name: _address(columns[name], np.int32) for name in numbers},
        )

    def replay(
        self, op: Parts, fixed: Parts, dropped: NDArray[np.bool_], work_ns: Ints, unknown: float
    ) -> tuple[Ints, Ints]:
        """The length of each edge and the time of each node, in ns."""
        length, time = np.empty(self.count, np.int64), np.zeros(self.nodes, np.int64)
        scale = Scales(op, fixed, dropped, work_ns, unknown)
        library().tracekit_replay(
            byref(self.struct),
            byref(scale.struct),
            _address(length, np.int64),
            _address(time, np.int64),
        )
        return length, time


class Scales:
    """The input of one replay of one run's edges: the rates of its parts and its host work."""

    def __init__(
        self, op: Parts, fixed: Parts, dropped: NDArray[np.bool_], work_ns: Ints, unknown: float
    ) -> None:
        self._kept = (op, fixed, dropped, work_ns)
        self.struct = _Scale(
            op.struct,
            fixed.struct,
            _address(dropped, np.bool_),
            _address(work_ns, np.int64),
            unknown,
        )


@dataclass(frozen=True)
class MeetingNodes:
    """Nodes of several runs by the meeting that they belong to: those of meeting m are from
    `begin[m]` until `begin[m + 1]`. `ns` is added to the time of a node that arrives at its
    meeting, and to the meeting's end for one that leaves it."""

    begin: Ints
    run: NDArray[np.int32]
    node: NDArray[np.int32]
    ns: Ints

    @property
    def struct(self) -> _Nodes:
        return _Nodes(
            _address(self.begin, np.int64), _address(self.run, np.int32),
            _address(self.node, np.int32), _address(self.ns, np.int64),
        )  # fmt: skip


@dataclass(frozen=True)
class Turns:
    """The turns of a joint replay: edges of a run, from `first` until `last`; or the meeting with
    the number `first` if `run` is -1. `hosted` is the first of the edges with host work."""

    run: NDArray[np.int32]
    first: Ints
    last: Ints
    hosted: Ints

    @property
    def struct(self) -> _Turns:
        columns = (_address(each, np.int64) for each in (self.first, self.last, self.hosted))
        return _Turns(_address(self.run, np.int32), *columns, len(self.run))


def replay_ranks(
    edges: Sequence[LaidOutEdges],
    scales: Sequence[Scales],
    turns: Turns,
    arrive: MeetingNodes,
    leave: MeetingNodes,
    wire_ns: Ints,
) -> tuple[list[tuple[Ints, Ints]], Ints, Ints]:
    """Replays runs together. A meeting ends `wire_ns` after the last node that arrives at it.

    Returns for each run the length of each edge and the time of each node, and for each meeting its
    end and which arriving node was the last.
    """
    found = [(np.empty(each.count, np.int64), np.zeros(each.nodes, np.int64)) for each in edges]
    ranks = (_Rank * len(edges))(
        *(
            _Rank(
                ctypes.addressof(laid_out.struct),
                ctypes.addressof(scale.struct),
                _address(length, np.int64),
                _address(time, np.int64),
            )
            for laid_out, scale, (length, time) in zip(edges, scales, found, strict=True)
        )
    )
    ended, awaited = np.zeros(len(wire_ns), np.int64), np.zeros(len(wire_ns), np.int64)
    library().tracekit_replay_ranks(
        ranks, byref(turns.struct), byref(arrive.struct), byref(leave.struct),
        _address(wire_ns, np.int64), _address(ended, np.int64), _address(awaited, np.int64),
    )  # fmt: skip
    return found, ended, awaited


def _integers(array: NDArray[Any]) -> _Integers:
    return _Integers(_address(array, array.dtype), array.dtype.itemsize)


def _address(array: NDArray[Any], kind: Any) -> int:
    assert array.dtype == kind and array.flags.c_contiguous, (array.dtype, kind)
    return array.ctypes.data
