"""The analysis of a trace: the answers of queries and the verdict; and the verdict on a run of
several ranks.

The structs define the JSON of `tracekit analyze --json`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct, field

from tracekit.advice.model import Advice
from tracekit.evidence.memory import DeviceMemory
from tracekit.evidence.model import (
    Blocked,
    Clocks,
    Collectives,
    Communication,
    Gpu,
    HostThread,
    Idle,
    Launch,
    OneOffEvent,
    Period,
    Pipeline,
    SlowLink,
    Trace,
    WaitingRank,
    Window,
)
from tracekit.evidence.run import Lateness
from tracekit.evidence.units import UnitGroup
from tracekit.records import Shown
from tracekit.replay.model import Causal
from tracekit.thresholds import Thresholds

SCHEMA = "tracekit/analysis/1"
# The queries whose answers are in the verdict on a run; `--explain` prints them.
RUN_QUERIES = ("collective_members", "link_bandwidth", "rank_clocks")


class Saving(Struct, frozen=True):
    """The decrease of the window's length without a cause.

    With GPU ops: the window's length minus its length in a replay that removes the cause's work and
    the waits in its calls (tracekit/replay/changes.py). Without GPU ops: the cause's time on the
    busiest thread. `saves_at_most_ns` is an upper bound, because a real change rarely removes all
    work of a cause, and what replaces the work takes time, too.
    """

    remove: str
    """The removed cause."""
    saves_at_most_ns: int
    """The upper bound on the saving."""
    with_unknown_limits_ns: int | None = None
    """For math and memory-bandwidth: the saving if the cause also limits all kernels whose limit
    the trace does not show. None: there are no such kernels."""


class FoundDoubt(Struct, frozen=True):
    """Something that lowers the confidence of a verdict (tracekit/verdict/doubts.py)."""

    code: str
    """A stable identifier of the doubt."""
    sentence: str
    """The doubt as a sentence."""
    stated: bool
    """Whether the first sentence, a note or the margin already says it."""


class Verdict(Struct, frozen=True):
    """The verdict on a window.

    `shares` are fractions of the window. `margin` is how clear the regime is, also as a fraction
    of the window: with GPU ops, the gain from halving the device's work minus the gain from halving
    the host's; without, the time of compute operators and of waits for other ranks minus all other
    time. A positive margin means compute-bound, a negative one overhead-bound. The host's gain
    counts up to the device's idle share. If neither gain reaches the threshold `small_gain`, the
    regime, and with it the margin's sign, follows from busy and waiting time instead. None: there
    is nothing to judge by.
    """

    headline: str
    """A sentence on what holds the run up, with the number that decided."""
    regime: str
    """The window's bound."""
    bottleneck: str | None
    """The cause whose removal gains most; null: none, or unknown."""
    confidence: str
    """The confidence in the regime."""
    window: Window
    """The window that is judged: the typical step, unless asked otherwise."""
    shares: dict[str, float]
    """Parts of the window by name."""
    why: list[str]
    """The reasons, as sentences."""
    savings: list[Saving]
    """Upper bounds on the saving of removing each cause, largest first."""
    margin: float | None
    """Positive: compute-bound; negative: overhead-bound; null: nothing to judge by."""
    try_next: list[str]
    """What to do or record next, as sentences."""
    doubts: list[str] = field(default_factory=list)
    """Doubts that lower the confidence, as sentences."""
    lowered_by: list[FoundDoubt] = field(default_factory=list)
    """All doubts that lower the confidence, including those shown by the first sentence or the
    margin."""
    notes: list[str] = field(default_factory=list)
    """What a reader must know beside the first sentence: a sentence each."""


class WindowPart(Struct, frozen=True):
    """A part of a window."""

    name: str
    """The part's name in plain words."""
    kind: str
    """The cause or activity that determines its color."""
    dur_ns: int
    """Its time in the window."""


class OneOffGroup(Struct, frozen=True):
    """One-offs with one name, or in one slow step or first call."""

    name: str
    inside: str
    """What took the time; empty: the name says it."""
    adds_ns: int
    """Their time beyond the usual. Time that the device worked through does not add to the
    trace."""
    begins_ns: int
    """The start of the first one, since the trace's start."""


class Happened(Struct, frozen=True):
    """Events that happened once in the whole trace."""

    share: float
    """The share of the trace that they add."""
    adds_ns: int
    """The time that they add."""
    trace_ns: int
    """The trace's length."""
    events: list[OneOffGroup]
    """The events, longest first."""


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
    """The verdict's window, with its times and the gains of changes."""
    causal: Causal | None
    one_offs: list[OneOffEvent]
    """Events that happened once and are not judged."""
    steps: list[Period]
    """The profiler's steps, or without marks the units of work."""
    units: list[UnitGroup]
    """What the run repeats: units of work by group, most time first."""
    windows: list[Period]
    """Other windows: the GPU-active span and the whole trace."""
    devices: list[Gpu]
    """All devices in the window; `gpu` is the one with the most kernel time."""
    top_kernels: list[dict[str, Any]]
    memory_traffic: list[dict[str, Any]]
    advice: list[Advice]
    """Possible changes, highest saving first."""
    meanwhile: list[dict[str, Any]] = field(default_factory=list)
    """Activities of any thread during long waits in which the launching thread recorded no call."""
    marked_ns: int | None = None
    """The length of the judged step's mark on the host; null: no marked step is judged. A step is
    judged from one completion on the device to the next."""
    priced_ns: int | None = None
    """The denominator of advice's shares (except for advice on recording): the window's length
    without one-offs and the recorder's cost to the host. Null: nothing could be priced."""
    unsure: list[Advice] = field(default_factory=list)
    """Candidate changes that are not advised, since the trace has too few ops to represent a run or
    does not show what bounds it."""
    parts: list[WindowPart] = field(default_factory=list)
    """The parts of the judged window, which add up to it; empty if it mixes the recordings of
    several processes."""
    happened: Happened | None = None
    """Events that happened once; null: they take little of the trace."""
    settings: list[dict[str, Any]] = field(default_factory=list)
    """What already runs: rows of the question `settings`."""
    together_ns: int | None = None
    """What the first five changes to recurring work save together; null: fewer than two."""
    communication: Communication | None = None
    """Null: hardly any in the judged window."""
    blocked: Blocked | None = None
    """Where the host waits for the device in the judged window; null: hardly at all, or the trace
    does not tell."""
    memory: DeviceMemory | None = None
    """What held a device's memory; null: the trace is no memory snapshot."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """The thresholds set for this analysis, by name; all others are defaults."""

    @property
    def headline(self) -> str:
        """The verdict's sentence on what holds the run up."""
        return self.verdict.headline

    @property
    def regime(self) -> str:
        """The verdict's regime: overhead-bound, compute-bound, or unknown."""
        return self.verdict.regime

    @property
    def bottleneck(self) -> str | None:
        """The verdict's bottleneck: the cause whose removal gains most."""
        return self.verdict.bottleneck

    @property
    def confidence(self) -> str:
        """The verdict's confidence: high, medium or low."""
        return self.verdict.confidence

    @property
    def margin(self) -> float | None:
        """The verdict's margin, as a fraction of the window; positive: compute-bound."""
        return self.verdict.margin


# -- the verdict of a run --------------------------------------------------------------------------


class LateRank(Struct, frozen=True):
    """A rank for which others waited."""

    rank: int | None
    trace_id: int
    held_up_ns: int
    """The other ranks' total wait for it in all steps; for a pipeline stage, the decrease of their
    wait if it took as long as the other stages."""
    times_last: int
    """The number of collectives in which it arrived last."""
    cause: str | None
    """The cause on which it spends more time than its peers; `start-skew`: it began later;
    `slow-link`: its messages take longer; null: unknown."""
    place: str | None
    """The call site of the extra time."""
    excess_ns: int | None
    """The extra time per step (mean); a late start counts once."""
    saves_ns: int | None
    """The decrease of a run's step if it took as long as the others."""
    in_pipeline: bool = False
    """Whether the others wait for it in sends and receives instead of collectives."""


class RunSaving(Struct, frozen=True):
    """The decrease of the run's mean step if something is removed, by a replay of all ranks
    together."""

    remove: str
    """What is removed."""
    rank: int | None
    """The rank on which it is removed; None: all ranks."""
    saves_ns: int
    """The decrease of the mean step."""
    share: float
    """A fraction of the run's length."""


class RunVerdict(Shown, frozen=True):
    """The verdict on a run of several ranks."""

    headline: str
    """The verdict in a sentence: the rank that sets the pace, or the ranks' bound and the saving of
    removing it from all of them."""
    ranks: list[int | None]
    """The ranks that have traces (id)"""
    world_size: int | None
    """The number of ranks in the run."""
    steps: int
    """The number of steps that all ranks recorded; 0: the run is judged as a whole."""
    step_ns: int | None
    """The median step, measured from the completion of the previous one on all ranks. The first
    step begins when the last rank begins it. Without steps, the whole run."""
    span_ns: int | None
    """From the last rank's start to the last one's end."""
    start_skew_ns: int | None
    """The last rank's start minus the first rank's, on one clock."""
    pace_rank: int | None
    """The rank for which the others wait longest, if they wait long for other reasons than its late
    recording; None: no such rank, or unknown."""
    late_ranks: list[LateRank]
    """The ranks for which others waited, worst first."""
    lateness: Lateness | None
    """What makes one rank late after another; None: one rank sets the pace, or none is late."""
    waiting: list[WaitingRank]
    """Each rank's waiting time."""
    collectives: Collectives | None
    clocks: Clocks | None
    bubble_ns: int
    """The total time that ranks wait for adjacent pipeline stages (`pipeline-bubble`)."""
    pipeline: Pipeline | None
    """What the stages of its pipelines do in an average step; None: it has none."""
    slow_links: list[SlowLink]
    """Groups whose messages take longer than those of similar groups."""
    savings: list[RunSaving]
    """Possible savings, largest first."""
    why: list[str]
    """The reasons, as sentences."""
    unknown: list[str]
    """What the traces do not show, and why."""

    @property
    def pace(self) -> LateRank | None:
        """The rank that sets the pace."""
        return next((e for e in self.late_ranks if e.rank == self.pace_rank is not None), None)
