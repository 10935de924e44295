"""The analysis of one trace: the answers of queries, and the verdict that follows from them.

The dataclasses here are the JSON of `tracekit analyze --json`, key for key.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct, field

from tracekit.advice.model import Advice
from tracekit.evidence.model import (
    Gpu,
    HostThread,
    Idle,
    Launch,
    OneOffEvent,
    Period,
    Phase,
    Trace,
    Window,
)
from tracekit.records import Shown
from tracekit.replay.model import Causal

SCHEMA = "tracekit/analysis/1"


class Saving(Struct, frozen=True):
    """How much shorter the window would be without a cause.

    With GPU ops: the window's length minus its length in a replay that removes the cause's work and
    the waits in its calls (tracekit/replay/changes.py). Without GPU ops: the cause's time on the
    busiest thread. `saves_at_most_ns` is an upper bound, because a real change rarely removes all
    work of a cause, and what replaces the work takes time, too.
    """

    remove: str
    """The cause of time that is removed."""
    saves_at_most_ns: int
    """How much shorter the window would be."""
    with_unknown_limits_ns: int | None = None
    """For math and memory-bandwidth: the same if the cause also limits all kernels for which the
    trace does not show whether math or memory does. None: there are no such kernels."""


class Verdict(Struct, frozen=True):
    """The judgement on a window.

    `shares` are fractions of the window. `margin` is how clear the regime is, also as a fraction
    of the window: with GPU ops, the gain from halving the device's work minus the gain from halving
    the host's; without, the time of compute operators and of waits for other ranks minus all other
    time. A positive margin means compute-bound, a negative one overhead-bound. The host's gain
    counts up to the device's idle share. If neither gain reaches the threshold `small_gain`, the
    regime, and with it the margin's sign, follows from busy and waiting time instead. None: there
    is nothing to judge by.
    """

    headline: str
    """What holds the run up, in a sentence."""
    regime: str
    """What bounds the window."""
    bottleneck: str | None
    """The cause whose removal gains most; null: none, or unknown."""
    confidence: str
    """How sure the regime is."""
    window: Window
    """The window that is judged: the profiler's step of median length, unless asked otherwise."""
    shares: dict[str, float]
    """Parts of the window by name."""
    why: list[str]
    """The reasons, as sentences."""
    savings: list[Saving]
    """What removing each cause would save at most, the most first."""
    margin: float | None
    """Positive: compute-bound; negative: overhead-bound; null: nothing to judge by."""
    try_next: list[str]
    """What to do or record next, as sentences."""
    doubts: list[str] = field(default_factory=list)
    """What lowers the confidence, as sentences."""


class Analysis(Shown, frozen=True):
    """Everything `analyze` reports about one trace."""

    form: ClassVar[str] = SCHEMA

    trace: Trace
    window: Window
    """The window of `gpu`, `idle` and `host`: the GPU-active span, unless asked otherwise."""
    gpu: Gpu | None
    """The device that is judged; null in a trace without GPU ops."""
    idle: Idle | None
    launch: Launch | None
    host: HostThread | None
    """The busiest host thread, in a trace without GPU ops; otherwise null."""
    verdict: Verdict
    judged: Period
    """The verdict's window, with what happened in it and what changes would gain."""
    causal: Causal | None
    one_offs: list[OneOffEvent]
    """Events that happened once and are not judged."""
    steps: list[Period]
    """The profiler's steps."""
    phases: list[Phase]
    """Ranges of the launching thread, in a trace without steps."""
    windows: list[Period]
    """Other windows: the GPU-active span and the whole trace."""
    devices: list[Gpu]
    """All devices in the window; `gpu` is the one with the most kernel time."""
    top_kernels: list[dict[str, Any]]
    memory_traffic: list[dict[str, Any]]
    advice: list[Advice]
    """What to change; the change that saves most comes first."""

    @property
    def headline(self) -> str:
        """The verdict's: what holds the run up, in a sentence."""
        return self.verdict.headline

    @property
    def regime(self) -> str:
        """The verdict's: overhead-bound, compute-bound, or unknown."""
        return self.verdict.regime

    @property
    def bottleneck(self) -> str | None:
        """The verdict's: the cause whose removal gains most."""
        return self.verdict.bottleneck

    @property
    def confidence(self) -> str:
        """The verdict's: high, medium or low."""
        return self.verdict.confidence

    @property
    def margin(self) -> float | None:
        """The verdict's, as a fraction of the window; positive: compute-bound."""
        return self.verdict.margin
