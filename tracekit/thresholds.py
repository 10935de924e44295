"""All thresholds, from queries/thresholds.csv: one line each, with meaning and source. Shares
are of the window.

`tracekit analyze --threshold NAME=VALUE` sets one for a run, except thresholds that stored tables
depend on. Queries read theirs as `thresholds().NAME`: tracekit/database/constants.py generates that
macro from the table. A query's parameter that a user can set takes its default from there, too.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import Field, make_dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import field
from msgspec.structs import fields, replace

from tracekit.errors import TracekitError


class _Settings:
    """The thresholds of one run. Each field's metadata holds its meaning and source, whether
    queries read it, and whether stored tables depend on it."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    if TYPE_CHECKING:
        # A field for each line of the table (tests/database/test_sql.py proves it).
        def __getattr__(self, name: str) -> Any: ...

    def updated(self, settings: Iterable[str]) -> Thresholds:
        """A copy with `NAME=VALUE` settings.

        Raises:
            TracekitError: no threshold has the name, it cannot be set for one run, or the value is
                not a number of its type.
        """
        known = {each.name: type(each.default) for each in fields(self) if is_settable(each)}
        stored = {each.name for each in fields(self)} - known.keys()
        values: dict[str, Any] = {}
        for setting in settings:
            name, _, text = setting.partition("=")
            if name in stored:
                raise TracekitError(
                    f"threshold {name} cannot be set for one run: what a database stores depends "
                    "on it"
                )
            if name not in known:
                names = ", ".join(known)
                raise TracekitError(f"no threshold is named {name!r}; there are: {names}")
            try:
                values[name] = int(text) if known[name] is int else float(text)
            except ValueError:
                kind = "an integer" if known[name] is int else "a number"
                raise TracekitError(f"threshold {name} is {kind}, not {text!r}") from None
        return replace(self, **values)


def _table() -> Iterator[tuple[str, type, Any]]:
    """Each threshold as a field."""
    text = (files("tracekit.queries") / "thresholds.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for row in csv.DictReader(lines):
        kind = int if row["default"].isdecimal() else float
        metadata = {
            "help": row["meaning"],
            "source": row["source"] or "ours",
            "in_sql": row["read_by"] in ("sql", "stored"),
            "is_stored": row["read_by"] == "stored",
        }
        yield row["name"], kind, field(default=kind(row["default"]), metadata=metadata)


if TYPE_CHECKING:
    Thresholds = _Settings
else:
    Thresholds = make_dataclass("Thresholds", _table(), bases=(_Settings,), frozen=True)
    Thresholds.__module__ = __name__
    Thresholds.__doc__ = _Settings.__doc__


def is_settable(threshold: Field[Any]) -> bool:
    """Whether a user can set a field of `Thresholds` for one run."""
    return not threshold.metadata["is_stored"]
