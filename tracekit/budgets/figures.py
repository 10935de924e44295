"""What a step costs, in counts that hold on any machine and a time that holds on one."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracekit.run import Database

# What the query step_counts counts, and whether it takes a device to happen.
COUNTS = {
    "operators": False,
    "launches": True,
    "synchronisations": True,
    "allocations": True,
    "copied_bytes": True,
    "kernels": True,
    "compiled_regions": False,
}
_MOST_NAMES = 200


@dataclass(frozen=True)
class Figures:
    """A step of a recorded run. Counts are per step; a key that is missing cannot be known."""

    counts: dict[str, float]
    """By the figures of the query step_counts."""
    kernels_by_class: dict[str, float]
    names: dict[str, dict[str, float]]
    """By figure, how often each operator, call or kernel ran."""
    regime: str
    """`overhead-bound`, `compute-bound` or `unknown`."""
    host_share: float | None
    """The time in which the device waited for the host, over the judged window; None: unknown."""
    step_ns: int | None
    """The median step without the profiler; None: it was not timed."""
    device: str
    """What it ran on: `step_ns` says something about no other."""
    why: list[str] = field(default_factory=list)
    """The verdict's sentences."""


def figures_of(database: Database) -> Figures:
    """The figures of the only trace of a database.

    Raises:
        TracekitError: when it holds several.
    """
    trace_id = database.only(None)
    analysis = database.verdict(trace_id)
    counts: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    names: dict[str, Counter[str]] = {}
    for row in database.ask("step_counts", trace=trace_id):
        counts[row["figure"]] += row["per_step"]
        names.setdefault(row["figure"], Counter())[str(row["name"])] += row["per_step"]
        if row["class"] is not None:
            classes[row["class"]] += row["per_step"]
    overview = database.ask("overview", trace=trace_id)[0]
    has_device = bool(overview["gpu_ops"])
    known = [name for name, of_device in COUNTS.items() if has_device or not of_device]
    noted = analysis.trace.capture or {}
    return Figures(
        counts={name: round(counts[name], 3) for name in known},
        kernels_by_class={name: round(count, 3) for name, count in sorted(classes.items())},
        names={
            figure: {name: round(count, 3) for name, count in found.most_common(_MOST_NAMES)}
            for figure, found in sorted(names.items())
        },
        regime=analysis.verdict.regime,
        host_share=analysis.verdict.shares.get("idle_host_late") if has_device else None,
        step_ns=noted.get("unprofiled_step_ns"),
        device=", ".join(analysis.trace.devices) if has_device else platform.processor() or "CPU",
        why=list(analysis.verdict.why),
    )
