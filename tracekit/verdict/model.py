"""The analysis of one trace: the answers of queries, and the verdict that follows from them. The
verdict of a run of several ranks.

The structs here are the JSON of `tracekit analyze --json`, key for key.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct, field

from tracekit.advice.model import Advice
from tracekit.evidence.model import (
    Clocks,
    Collectives,
    Gpu,
    HostThread,
    Idle,
    Launch,
    OneOffEvent,
    Period,
    Phase,
    SlowLink,
    Trace,
    WaitingRank,
    Window,
)
from tracekit.records import Shown
from tracekit.replay.model import Causal
from tracekit.thresholds import Thresholds

SCHEMA = "tracekit/analysis/1"
# The queries whose answers the verdict of a run holds; `--explain` prints them.
RUN_QUERIES = ("collective_members", "link_bandwidth", "rank_clocks")


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


class FoundDoubt(Struct, frozen=True):
    """Something that lowers the confidence of a verdict (tracekit/verdict/doubts.py)."""

    code: str
    """What is doubtful, in a word that stays the same."""
    sentence: str
    """The same as a sentence."""
    stated: bool
    """Whether the first sentence or the margin says it already."""


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
    lowered_by: list[FoundDoubt] = field(default_factory=list)
    """What lowers the confidence, also where the first sentence or the margin shows it."""


class WindowPart(Struct, frozen=True):
    """A part of a window."""

    name: str
    """In plain words."""
    kind: str
    """The cause or activity that has its color."""
    dur_ns: int
    """How much of the window it takes."""


class OneOffGroup(Struct, frozen=True):
    """One-offs of one name, or in one slow step or first call."""

    name: str
    inside: str
    """What took the time; empty: the name tells."""
    adds_ns: int
    """How much longer than usual they took; what the device worked through meanwhile adds
    nothing to the trace."""
    begins_ns: int
    """When the first one begins, since the trace's start."""


class Happened(Struct, frozen=True):
    """What happened once in the whole trace."""

    share: float
    """The part of the trace that it adds."""
    adds_ns: int
    """The same as a length."""
    trace_ns: int
    """The length of the trace."""
    events: list[OneOffGroup]
    """The longest first."""


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
    meanwhile: list[dict[str, Any]] = field(default_factory=list)
    """What was recorded on any thread in long waits without a recorded call of the launching
    thread."""
    marked_ns: int | None = None
    """How long the judged step is marked on the host; null: no step is judged. The device completes
    work before and after a mark ends, and a step is judged from completion to completion."""
    priced_ns: int | None = None
    """The length that shares of advice are of, but for advice on recording: without one-offs and
    without what recording cost the host. Null: nothing could be priced."""
    unsure: list[Advice] = field(default_factory=list)
    """Changes that were found but are not advised: the trace has too few ops to represent a run, or
    does not tell what bounds it."""
    parts: list[WindowPart] = field(default_factory=list)
    """Where the judged window's time went: parts that add up to it; none if the recordings of
    several processes are mixed in it."""
    happened: Happened | None = None
    """What happened once; null: it takes little of the trace."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """The thresholds that were set for this analysis, by name; all others are the defaults."""

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


# -- the verdict of a run --------------------------------------------------------------------------


class LateRank(Struct, frozen=True):
    """A rank for which others waited."""

    rank: int | None
    trace_id: int
    held_up_ns: int
    """For how long all others together waited for it in all steps; for a stage of a pipeline, how
    much less they would wait if it took as long as the other stages."""
    times_last: int
    """The number of collectives in which it came last."""
    cause: str | None
    """What it spends more time on than the ranks that do the same; `start-skew`: it began later
    than they did; `slow-link`: its messages take longer; null: unknown."""
    place: str | None
    """Where it does that."""
    excess_ns: int | None
    """The extra time, as the mean of the run's steps; a late start counts once."""
    saves_ns: int | None
    """How much shorter a step of the run would be if it took as long as the others."""
    in_pipeline: bool = False
    """Whether the others wait for it in sends and receives, not in collectives."""


class RunSaving(Struct, frozen=True):
    """How much shorter a step of the run would be without something, by a replay of all ranks
    together: the mean of its steps."""

    remove: str
    """What is removed."""
    rank: int | None
    """None: on all ranks."""
    saves_ns: int
    """How much shorter a step would be: the mean of the steps."""
    share: float
    """A fraction of the run's length."""


class RunVerdict(Shown, frozen=True):
    """The verdict of a run: one for all its ranks."""

    headline: str
    """The verdict in a sentence: the rank that sets the pace, or what bounds the ranks and what
    removing it from all of them would save."""
    ranks: list[int | None]
    """The ranks that have traces (id)"""
    world_size: int | None
    """The number of ranks in the run."""
    steps: int
    """Steps that all ranks recorded; 0: none, the run is judged as a whole."""
    step_ns: int | None
    """The median step: from when all ranks have completed the previous one. The first one begins
    when the last rank has begun it. Without steps, the whole run."""
    span_ns: int | None
    """From the last rank's start to the last one's end."""
    start_skew_ns: int | None
    """How much later the last rank begins than the first, by one clock."""
    pace_rank: int | None
    """The rank for which the others wait longest, if they wait long and not only since its
    recording began late; None: there is no such rank, or it is unknown."""
    late_ranks: list[LateRank]
    """The ranks for which others waited, the worst first."""
    waiting: list[WaitingRank]
    """How long each rank waited."""
    collectives: Collectives | None
    clocks: Clocks | None
    bubble_ns: int
    """How long ranks wait for the stages before or after them in a pipeline (`pipeline-bubble`),
    summed over ranks."""
    slow_links: list[SlowLink]
    """Groups whose messages take longer than those of similar groups."""
    savings: list[RunSaving]
    """What removing something would save, the most first."""
    why: list[str]
    """The reasons, as sentences."""
    unknown: list[str]
    """What the traces do not show, and why."""

    @property
    def pace(self) -> LateRank | None:
        """The rank that sets the pace."""
        return next((e for e in self.late_ranks if e.rank == self.pace_rank is not None), None)
