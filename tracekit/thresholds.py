"""All thresholds, from queries/thresholds.csv: one line each, with meaning and source. Shares
are of the window.

`tracekit analyze --threshold NAME=VALUE` sets one for a run, except thresholds that stored tables
depend on. Queries read theirs as `thresholds().NAME`: tracekit/database/constants.py generates that
macro from the table. A query's parameter that a user can set takes its default from there, too.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from importlib.resources import files
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, defstruct
from msgspec.structs import replace

from tracekit.errors import TracekitError
from tracekit.text import suggestion


class Threshold(NamedTuple):
    """A line of the table."""

    name: str
    default: int | float
    meaning: str
    source: str
    in_sql: bool
    """Whether queries read it."""
    is_settable: bool
    """Whether a user can set it for one run. False if a stored table depends on it."""


def _read() -> dict[str, Threshold]:
    text = (files("tracekit.queries") / "thresholds.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    found = {}
    for row in csv.DictReader(lines):
        name, default, read_by = row["name"], row["default"], row["read_by"]
        found[name] = Threshold(
            name,
            int(default) if default.isdecimal() else float(default),
            row["meaning"],
            row["source"] or "ours",
            in_sql=read_by in ("sql", "stored"),
            is_settable=read_by != "stored",
        )
    return found


TABLE = _read()
"""All thresholds by name."""


class _Settings(Struct, frozen=True):
    """The thresholds of one run."""

    if TYPE_CHECKING:
        # A field for each line of the table (tests/database/test_sql.py proves it).
        def __getattr__(self, name: str) -> Any: ...

    def __reduce__(self) -> Any:
        # Of a copy, too, JSON leaves out the defaults, which it knows by identity.
        return _with_settings, (self.changed,)

    @property
    def changed(self) -> dict[str, int | float]:
        """The values that are not the defaults, by name."""
        values = ((each, getattr(self, each.name)) for each in TABLE.values())
        return {each.name: value for each, value in values if value != each.default}

    def updated(self, settings: Iterable[str]) -> Thresholds:
        """A copy with `NAME=VALUE` settings.

        Raises:
            TracekitError: no threshold has the name, it cannot be set for one run, or the value is
                not a number of its type.
        """
        values: dict[str, Any] = {}
        for name, text in pairs(settings, "--threshold").items():
            if name not in TABLE:
                names = [each.name for each in TABLE.values() if each.is_settable]
                known = suggestion(name, names) or f"; there are: {', '.join(names)}"
                raise TracekitError(f"no threshold is named {name!r}{known}")
            if not TABLE[name].is_settable:
                raise TracekitError(
                    f"threshold {name} cannot be set for one run: what a database stores depends "
                    "on it"
                )
            is_count = isinstance(TABLE[name].default, int)
            try:
                values[name] = int(text) if is_count else float(text)
                if not isfinite(values[name]):
                    raise ValueError
            except (ValueError, OverflowError):
                kind = "an integer" if is_count else "a number"
                raise TracekitError(f"threshold {name} is {kind}, not {text!r}") from None
        return replace(self, **values)


if TYPE_CHECKING:
    Thresholds = _Settings
else:
    Thresholds = defstruct(
        "Thresholds",
        [(each.name, type(each.default), each.default) for each in TABLE.values()],
        bases=(_Settings,),
        module=__name__,
        frozen=True,
        # As JSON, it is what was set.
        omit_defaults=True,
    )
    Thresholds.__doc__ = _Settings.__doc__


def _with_settings(values: dict[str, int | float]) -> Thresholds:
    return Thresholds(**values)


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, by name.

    Raises:
        TracekitError: when a text is no such pair, or a name has two values.
    """
    found: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        if text.find("=") < 1:
            raise TracekitError(f"{option} takes NAME=VALUE, not {text!r}")
        if name in found:
            raise TracekitError(
                f"{option} gives {name} twice: {found[name]!r} and {value!r}; give it once"
            )
        found[name] = value
    return found
