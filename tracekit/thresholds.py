"""All thresholds, from queries/thresholds.csv: one line each, with meaning and source. Shares
are fractions of the window.

`tracekit analyze --threshold NAME=VALUE` sets one for a run, unless stored tables depend on it.
Queries read theirs as `thresholds().NAME`: tracekit/database/constants.py generates that macro from
the table. It also has the defaults of query parameters.
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

# Units by the end of a name.
_UNITS = {
    "_bytes_per_s": "bytes/s", "_bytes": "bytes", "_ns": "ns", "_share": "share", "_percent": "%",
    "_mhz": "MHz", "_ratio": "times", "_factor": "times",
}  # fmt: skip


class Threshold(NamedTuple):
    """A row of the table."""

    name: str
    default: int | float
    meaning: str
    source: str
    in_sql: bool
    """Whether queries read this threshold."""
    is_settable: bool
    """Whether a user can set it for one run. False if a stored table depends on it."""

    @property
    def unit(self) -> str:
        """The unit that its name tells; empty: a count, or what the meaning says."""
        return next((unit for end, unit in _UNITS.items() if self.name.endswith(end)), "")


def _read() -> dict[str, Threshold]:
    text = (files("tracekit.queries") / "thresholds.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    thresholds = {}
    for row in csv.DictReader(lines):
        name, default, read_by = row["name"], row["default"], row["read_by"]
        thresholds[name] = Threshold(
            name,
            int(default) if default.isdecimal() else float(default),
            row["meaning"],
            row["source"] or "ours",
            in_sql=read_by in ("sql", "stored"),
            is_settable=read_by != "stored",
        )
    return thresholds


TABLE = _read()
"""All thresholds by name."""


class _Settings(Struct, frozen=True):
    """The thresholds of one run."""

    if TYPE_CHECKING:
        # One field per row of the table (checked by tests/database/test_sql.py).
        def __getattr__(self, name: str) -> Any: ...

    def __reduce__(self) -> Any:
        # JSON leaves out defaults, which it recognizes by identity, even in a copy.
        return _with_settings, (self.changed,)

    @property
    def changed(self) -> dict[str, int | float]:
        """The values that differ from the defaults, by name."""
        values = ((threshold, getattr(self, threshold.name)) for threshold in TABLE.values())
        return {each.name: value for each, value in values if value != each.default}

    def updated(self, settings: Iterable[str]) -> Thresholds:
        """A copy with `NAME=VALUE` settings.

        Raises:
            TracekitError: when there is no such threshold, it cannot be set for one run, or the
                value is not a number of its type.
        """
        values: dict[str, Any] = {}
        for name, text in pairs(settings, "--threshold").items():
            if name not in TABLE:
                names = [threshold.name for threshold in TABLE.values() if threshold.is_settable]
                hint = suggestion(name, names) or "; `tracekit thresholds` lists them"
                raise TracekitError(f"there is no threshold {name!r}{hint}")
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
        [
            (threshold.name, type(threshold.default), threshold.default)
            for threshold in TABLE.values()
        ],
        bases=(_Settings,),
        module=__name__,
        frozen=True,
        # In JSON, only the values that were set.
        omit_defaults=True,
    )
    Thresholds.__doc__ = _Settings.__doc__


def _with_settings(values: dict[str, int | float]) -> Thresholds:
    return Thresholds(**values)


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, by name.

    Raises:
        TracekitError: when a text is not such a pair, or a name has two values.
    """
    values: dict[str, str] = {}
    for text in given:
        name, _, value = text.partition("=")
        if text.find("=") < 1:
            raise TracekitError(f"{option} takes NAME=VALUE, not {text!r}")
        if name in values:
            raise TracekitError(
                f"{option} sets {name} twice: {values[name]!r} and {value!r}; set it once"
            )
        values[name] = value
    return values
