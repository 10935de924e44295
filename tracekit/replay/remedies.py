"""What remedies change in a run: the rows of queries/remedies, as parts that a replay scales."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracekit.database.catalog import query
from tracekit.errors import TracekitError
from tracekit.replay.grammar import Change
from tracekit.replay.parts import COLUMNS, TARGETS, ChangedParts

if TYPE_CHECKING:
    from tracekit.database.reader import Reader

# A target as its number: a million strings take much memory.
_TARGET = f"(list_position({list(TARGETS)}, target) - 1)::TINYINT AS target"
# Queries at once; of a large trace, one, to save memory.
_AT_ONCE = 2

Rows = dict[str, NDArray[Any]]


def query_of(remedy: str) -> str:
    """The query that finds a remedy's places: `pinned-copies` is pinned_copies.sql."""
    return remedy.replace("-", "_")


class Remedies:
    """The rows of the queries of queries/remedies for one trace, each asked once."""

    def __init__(self, database: Reader, trace_id: int) -> None:
        self._database = database
        self._trace_id = trace_id
        self._rows: dict[str, Rows] = {}

    def rows(self, remedy: str) -> Rows:
        """A remedy's rows; without a place, `place` is empty.

        Raises:
            TracekitError: there is no such remedy.
        """
        if remedy not in self._rows:
            self._rows[remedy] = self._asked(remedy)
        return self._rows[remedy]

    def ask(self, remedies: Iterable[str]) -> None:
        """Asks several queries side by side: most take longer to plan than to run."""
        new = [each for each in remedies if each not in self._rows]
        at_once = 1 if self._database.is_large else _AT_ONCE
        with ThreadPoolExecutor(at_once, "tracekit-remedies") as threads:
            self._rows |= zip(new, threads.map(self._asked, new), strict=True)

    def _asked(self, remedy: str) -> Rows:
        if query(query_of(remedy)).topic != "remedies":
            raise TracekitError(f"no remedy is named {remedy!r}")
        columns = [_TARGET if each == "target" else each for each in COLUMNS]
        found = self._database.arrays(
            query_of(remedy),
            [*columns, "place", "detail"],
            in_order=not self._database.is_large,
            trace=self._trace_id,
        )
        found["target"] = np.array(TARGETS, object)[np.ma.filled(found["target"], 0)]
        for name in ("place", "detail"):
            found[name] = np.ma.filled(found[name].astype(object), "")
        return found

    def parts(self, change: Change) -> list[ChangedParts]:
        """The parts that `remedy:NAME` or `remedy:NAME:PLACE` changes.

        Raises:
            TracekitError: there is no such remedy, or it finds nothing there.
        """
        remedy, _, place = (change.pattern or "").partition(":")
        rows = self.rows(remedy)
        if place:
            here = rows["place"] == place
            rows = {name: values[here] for name, values in rows.items()}
        if not len(rows["target"]):
            raise TracekitError(f"{change.text!r} names nothing in this trace")
        return [ChangedParts.of(rows, target) for target in sorted(set(rows["target"].tolist()))]
