"""All thresholds, out of queries/thresholds.csv: a line for each, with meaning and source. Shares
are of the window.

`tracekit analyze --threshold NAME=VALUE` sets one for a run, except those that what a database
stores depends on. Queries read theirs as `thresholds().NAME`: tracekit/database/constants.py
generates that macro from the table. A query's parameter that a user can set takes its default from
there, too.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import Field, field, fields, make_dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from tracekit.errors import TracekitError

# What some were called; `--threshold` still takes these names.
FORMER = {
    "most_share": "captured_majority",
    "settled_share": "allocation_settled_by",
    "early_share": "one_off_early_share",
    "start_share": "slow_start_max_share",
}


class _Settings:
    """The thresholds of one run. Each field's metadata holds its meaning and source, whether
    queries read it, and whether what a database stores depends on it."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    # Those that Python reads.
    small_gain: float
    busy_share: float
    unknown_share: float
    doubtful_share: float
    exposed_share: float
    close_margin: float
    turn_gain: float
    told_flip: float
    unrecorded_share: float
    near_share: float
    rank_share: float
    plain_margin: float
    named_gain: float
    advised_gain: float
    price_error: float
    free_growth: float
    most_places: int
    most_combined: int
    shown_gain: float
    told_share: float
    held_share: float
    longer_phase: float
    own_excess_share: float
    slow_link: float
    fastest: float
    few_ops: int
    once_share: float
    captured_majority: float
    recorded_share: float
    shaped_work_share: float
    launch_floor_ns: int
    launch_latency_ns: int
    kernel_gap_ns: int
    wait_ns: int
    clock_tick_ns: int
    return_ns: int
    spin_ns: int
    spin_share: float
    clock_shift_ns: int
    fewest_late: int
    late_quantile: float
    prefetched_ns: int
    handed_over_share: float
    most_givers: int
    most_tried: int
    quick_share: float
    around_ns: int
    least_growth: float
    shift_share: float
    shift_errors: float
    late_host_runs: int
    late_host_factor: float
    late_host_share: float
    late_host_always: float
    most_excess: float
    cold_step_ratio: float
    cold_launch_ns: int
    long_share: float
    one_range_ratio: float
    fewest_alike: int
    start_parts: int
    slow_start_max_share: float
    late_launch_ns: int
    unseen_share: float
    lost_share: float
    queue_depth: int
    full_calls: int
    full_share: float
    full_slack: int

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
            name = FORMER.get(name, name)
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
