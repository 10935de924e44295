"""The collectives that several ranks of a database took part in, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.replay.graph.arrays import Flags, Ints

if TYPE_CHECKING:
    from tracekit.database.reader import Reader


@dataclass(frozen=True)
class MetKernels:
    """The kernels of meetings: collectives, or sends with their receives (the rows of the query
    collective_members), in order of `meeting`."""

    meeting: Ints
    """Which kernels are one meeting: numbers from 0."""
    trace_id: Ints
    event_id: Ints
    ns: Ints
    """How long the kernel took, waiting included."""
    wire_ns: Ints
    """How long the bytes took: the duration on the rank that came last."""
    is_last: Flags
    type: NDArray[Any]
    direction: NDArray[Any]
    """send, receive, or an empty text for a collective."""
    matched_by: NDArray[Any]
    group: NDArray[Any]
    bytes: Ints
    """-1: the trace does not tell."""
    group_size: Ints
    """-1: the trace does not tell."""

    def __len__(self) -> int:
        return len(self.meeting)

    @property
    def count(self) -> int:
        return int(self.meeting.max(initial=-1)) + 1

    @property
    def wait_ns(self) -> Ints:
        """How long each rank waited for the last one."""
        return self.ns - self.wire_ns

    @property
    def is_exchange(self) -> Flags:
        """Which are sends or receives."""
        found: Flags = self.direction != ""
        return found

    def take(self, which: Flags) -> MetKernels:
        """Some of the members, with meetings numbered anew."""
        columns = {name: getattr(self, name)[which] for name in self.__dataclass_fields__}
        columns["meeting"] = np.unique(columns["meeting"], return_inverse=True)[1]
        return MetKernels(**columns)


def members_of(database: Reader) -> tuple[MetKernels, int]:
    """The members of all meetings, and how many meetings were left out because a rank has several
    kernels of them: it is not known which of these met the others."""
    rows = database.arrays("collective_members")

    def numbers(name: str) -> Ints:
        return np.ma.filled(rows[name], -1).astype(np.int64)

    def words(name: str) -> NDArray[Any]:
        return np.array(["" if each is None or each is np.ma.masked else str(each)
                         for each in rows[name].tolist()], dtype=np.str_)  # fmt: skip

    found = MetKernels(
        numbers("call") - 1, numbers("trace_id"), numbers("event_id"), numbers("dur_ns"),
        numbers("wire_ns"), np.ma.filled(rows["is_last"], False).astype(np.bool_), words("type"),
        words("direction"), words("matched_by"), words("group_key"), numbers("message_bytes"),
        numbers("group_size"),
    )  # fmt: skip
    pairs, pair, times = np.unique(
        np.stack([found.meeting, found.trace_id]), axis=1, return_inverse=True, return_counts=True
    )
    twice = np.unique(pairs[0][times > 1])
    del pair
    return found.take(~np.isin(found.meeting, twice)), len(twice)
