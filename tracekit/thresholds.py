"""Every number that judges, once, with where it comes from. Shares are of the window.

`tracekit analyze --threshold NAME=VALUE` sets one of `Thresholds` for a run. Queries read
theirs as `thresholds().NAME`: tracekit/database/constants.py writes that macro from the tables
below. Where a query lets a user choose, the default of its parameter is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tracekit.errors import TracekitError

_OURS = "ours"
_SKIP = "SKIP measures 4 to 8 us on today's machines, https://arxiv.org/abs/2504.11750"
_HTA = "HTA's default, https://github.com/facebookresearch/HolisticTraceAnalysis"
_TUKEY = "Tukey, Exploratory Data Analysis, 1977: 3 ranges are 'far out'"


def _limit(default: float | int, help: str, source: str = _OURS, *, in_sql: bool = False) -> Any:
    return field(default=default, metadata={"help": help, "source": source, "in_sql": in_sql})


def _asked(default: float | int, help: str, source: str = _OURS) -> Any:
    return _limit(default, help, source, in_sql=True)


@dataclass(frozen=True)
class QueryThresholds:
    """What queries alone judge by: part of the SQL vocabulary, so the same in every database."""

    late_time_ns: int = _asked(
        4_000_000_000_000_000_000, "a time beyond this, or before its negative, is not a time"
    )
    absurd_duration_ns: int = _asked(86_400_000_000_000, "an event that lasts longer is doubtful")
    job_gap_ns: int = _asked(
        60_000_000_000, "traces of one job are recorded within this of each other"
    )
    stepped_devices: int = _asked(
        64,
        "in a trace of more devices, steps are windows of this many, and no gap is stored by cause",
    )
    cold_step_ratio: float = _asked(1.5, "a first step that takes this many median steps is cold")
    cold_steps: int = _asked(3, "of fewer steps than this, none is called cold")
    dilation_ratio: float = _asked(
        1.1, "a profiler that makes steps longer by more than this counts"
    )
    slow_launch_ns: int = _asked(50_000, "a launch call is slow from here on", _HTA)
    late_launch_ns: int = _asked(100_000, "a launch delay is an outlier from here on", _HTA)
    kernel_wait_ns: int = _asked(30_000, "HTA calls a gap below this kernel_wait", _HTA)
    outlier_fence: int = _asked(
        3,
        "a kernel is far from usual this many interquartile ranges above the third quartile",
        _TUKEY,
    )
    outlier_runs: int = _asked(8, "of a kernel with fewer runs, no duration is usual")
    outlier_excess_ns: int = _asked(1_000, "an outlier takes longer than the median by this")
    outlier_excess_share: float = _asked(0.1, "and by this share of the median")
    shaped_share: float = _asked(
        0.90, "shapes tell products of two runs apart where this share of their time has them"
    )
    latency_percent: int = _asked(
        10, "work that reaches less of both roofs, in per cent, is limited by latency"
    )


@dataclass(frozen=True)
class Thresholds:
    """What judges, with what it means and its source in each field's metadata."""

    small_gain: float = _limit(
        0.05, "where halving either side gains less than this share, the accounting decides"
    )
    busy_share: float = _limit(
        0.90, "a device that is busy for this share, and gains nothing, leaves the host no slack"
    )
    unknown_share: float = _limit(
        0.20, "this share of waits that the trace does not explain leaves the regime open"
    )
    doubtful_share: float = _limit(0.05, "this share of such waits lowers the confidence")
    exposed_share: float = _limit(
        0.05, "communication or copies that no kernel covers are named from this share on"
    )
    close_margin: float = _limit(0.10, "a margin under this is a close call")
    plain_margin: float = _limit(0.25, "a margin over this is plain")
    named_gain: float = _limit(0.01, "other causes are named that gain at least this share")
    shown_gain: float = _limit(0.0005, "a gain under this share is told as none")
    fastest: float = _limit(
        64.0, "a side is tried up to this many times as fast, to find where the verdict flips"
    )
    few_ops: int = _limit(10, "fewer GPU ops or operators than this are an anecdote, not a run")
    recorded_share: float = _limit(
        0.01, "recorded slices that cover less of a CPU-only window than this leave it unexplained"
    )
    launch_floor_ns: int = _limit(
        8_000, "a launch reaches an idle device in this time", _SKIP, in_sql=True
    )
    launch_latency_ns: int = _limit(
        5_000, "the same, where a trace has no launch that found its device idle", _SKIP
    )
    kernel_gap_ns: int = _limit(
        1_000, "between kernels of one stream, where a trace has none that queued"
    )
    wait_ns: int = _limit(
        20_000, "a longer wait for the device than this has a reason that the trace does not tell"
    )
    clock_tick_ns: int = _limit(
        1_000, "times may be rounded by this", "Kineto wrote whole microseconds until 2023"
    )
    return_ns: int = _limit(
        5_000, "an allocator call that ends so soon after the device's last op waited for it"
    )
    clock_shift_ns: int = _limit(
        1_000_000, "a device clock further off than this is no clock, but a wrong link"
    )
    queue_depth: int = _limit(512, "fewer launches than this fill no stream's queue", in_sql=True)
    full_calls: int = _limit(
        8, "a queue is full where so many launch calls return with as many waiting", in_sql=True
    )
    full_share: float = _limit(
        0.25, "and this share of those that return with queue_depth waiting or more", in_sql=True
    )
    full_slack: int = _limit(
        2, "fewer than the deepest a queue gets, by so many, are as many", in_sql=True
    )
    prefetched_ns: int = _limit(
        200_000, "a fetch from other processes that takes longer found nothing loaded"
    )
    handed_over_share: float = _limit(
        0.90, "a thread works for another, if that stands still for this share of its work"
    )
    most_givers: int = _limit(
        64, "this many threads may give work to others, of those that worked first"
    )
    most_tried: int = _limit(64, "this many of them are tried for each thread that is given work")
    quick_share: float = _limit(0.1, "this share of launches is quicker than a quick one")
    around_ns: int = _limit(
        1_000_000_000_000,
        "host work this long before the first GPU op or after the last has a wrong time",
    )
    least_growth: float = _limit(
        0.05, "in a probe, work that grew by less than this tells nothing beyond the noise"
    )
    most_excess: float = _limit(
        1.5,
        "a probed step that grew more than so many times as much as its work did more than that",
    )

    def updated(self, settings: Iterable[str]) -> Thresholds:
        """With `NAME=VALUE` settings.

        Raises:
            TracekitError: for a name that is none of these, or a value that is no number.
        """
        known = {each.name: type(each.default) for each in fields(self)}
        values: dict[str, Any] = {}
        for setting in settings:
            name, _, text = setting.partition("=")
            if name not in known:
                names = ", ".join(known)
                raise TracekitError(f"no threshold is named {name!r}; there are: {names}")
            try:
                values[name] = int(text) if known[name] is int else float(text)
            except ValueError:
                kind = "an integer" if known[name] is int else "a number"
                raise TracekitError(f"threshold {name} is {kind}, not {text!r}") from None
        return replace(self, **values)
