"""Every number that judges, once, with where it comes from. Shares are of the window.

`tracekit analyze --threshold NAME=VALUE` sets one for a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tracekit.errors import TracekitError

_OURS = "ours"
_SKIP = "SKIP measures 4 to 8 us on today's machines, https://arxiv.org/abs/2504.11750"


def _limit(default: float | int, help: str, source: str = _OURS) -> Any:
    return field(default=default, metadata={"help": help, "source": source})


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
    few_ops: int = _limit(10, "fewer GPU ops or operators than this are an anecdote, not a run")
    recorded_share: float = _limit(
        0.01, "recorded slices that cover less of a CPU-only window than this leave it unexplained"
    )
    launch_floor_ns: int = _limit(8_000, "a launch reaches an idle device in this time", _SKIP)
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
    queue_depth: int = _limit(512, "fewer launches than this fill no stream's queue")
    full_calls: int = _limit(
        8, "a queue is full where so many launch calls return with as many waiting"
    )
    full_share: float = _limit(
        0.25, "and this share of those that return with queue_depth waiting or more"
    )
    full_slack: int = _limit(2, "fewer than the deepest a queue gets, by so many, are as many")
    prefetched_ns: int = _limit(
        200_000, "a fetch from other processes that takes longer found nothing loaded"
    )
    handed_over_share: float = _limit(
        0.90, "a thread works for another, if that stands still for this share of its work"
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
