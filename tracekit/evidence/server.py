"""What a server's traces show together: its engines, and the front ends beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from tracekit.database.session import Session
from tracekit.evidence.model import of_row
from tracekit.thresholds import Thresholds

# Roles of queries/facts/server_label.sql that say little of what a front end does.
WAITING, OTHER = "waiting", "other"


class ServerUnits(Struct, frozen=True):
    """The prefills or decodes of an engine (queries/host/server_units.sql)."""

    trace_id: int
    rank: int | None
    kind: str
    units: int
    requests: float | None
    tokens: float | None
    total_ns: int
    device_ns: int
    scheduling_ns: int
    exchanging_ns: int
    waiting_ns: int
    other_ns: int
    held_ns: int
    beside_ns: int


class ServerEvidence(Struct, frozen=True):
    """Every number of a server that its verdict rests on."""

    thresholds: Thresholds
    units: Sequence[ServerUnits]
    """Of each engine, those with most time."""
    front_ends: int
    """How many front ends were recorded."""
    works_share: float
    """The part of its time in which the busiest of them works."""
    does: str | None
    """What the front ends do most; None: none was recorded, or it is unknown."""


def front_ends_of(database: Session) -> list[int]:
    """The trace_ids of the front ends of servers."""
    return sorted({row[0] for row in database.fetch("SELECT trace_id FROM front_end")[1]})


def server_evidence(database: Session) -> ServerEvidence | None:
    """The evidence on the server of whose processes these are traces; None: they are of none, or of
    one process."""
    # The kind with most time comes first.
    units: dict[int, ServerUnits] = {}
    for each in database.ask("server_units"):
        units.setdefault(each["trace_id"], of_row(ServerUnits, each))
    front_ends = front_ends_of(database) if units else []
    if not units or len(units) + len(front_ends) == 1:
        return None
    roles: Counter[str] = Counter()
    works: Counter[int] = Counter()
    for row in database.ask("server_time") if front_ends else []:
        if row["is_front_end"] and row["role"] != WAITING:
            works[row["trace_id"]] += row["share_of_thread"]
            roles[row["role"]] += row["own_ns"]
    does = max(roles.keys() - {OTHER}, key=lambda role: roles[role], default=None)
    share = max(works.values(), default=0.0)
    return ServerEvidence(database.thresholds, [*units.values()], len(front_ends), share, does)
