"""An event that happened once, or took far longer than its like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OneOff:
    """An event that happened once, or took far longer than its like."""

    kind: str
    """As in queries/time/one_offs.sql, `step`, or `start` (of a run without steps)."""
    event_id: int | None
    start_ns: int
    """On the trace's clock."""
    dur_ns: int
    usual_ns: int
    """How long its like takes."""
    excess_ns: int
    """Its work beyond the usual length of its like; its waits for the device do not count."""
    cause: str
    name: str | None
    begin: int
    end: int
    """Keys of the host; 0 for ops."""
    ops: frozenset[int] = frozenset()
    """The indices of the ops that take long; empty: it is on the host."""

    @property
    def on_host(self) -> bool:
        return not self.ops

    @property
    def length(self) -> int:
        """Less than that of one that holds it."""
        return len(self.ops) or self.end - self.begin


def one_off(
    row: dict[str, Any],
    usual_ns: int,
    work_ns: int,
    begin: int = 0,
    end: int = 0,
    ops: Iterable[int] = (),
) -> OneOff:
    """The one-off of a row, which gives its kind, event, times, cause and name."""
    given = {key: row[key] for key in ("kind", "event_id", "start_ns", "dur_ns", "cause", "name")}
    given |= {"usual_ns": usual_ns, "excess_ns": work_ns - usual_ns}
    return OneOff(**given, begin=begin, end=end, ops=frozenset(ops))
