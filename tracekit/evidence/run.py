"""Every number of a run that its verdict rests on, once and frozen: of its ranks replayed together,
and of questions.

Times are of the whole recording, unless they are of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tracekit.evidence.model import Clocks, Collectives, Pipeline, SlowLink, WaitingRank
from tracekit.thresholds import Thresholds

# Only this many ranks are examined for why they are late: those that the others wait longest for.
EXAMINED = 5


class RankExcess(Struct, frozen=True):
    """What a rank spends more time on than its peers, the ranks that do the same."""

    cause: str
    ns: int
    """How much more than the median of its peers."""
    call_site: str | None = None
    """The call site of most of it; None: unknown."""


class RankEvidence(Struct, frozen=True, kw_only=True):
    """One rank of the run."""

    rank: int | None
    trace_id: int
    begins_ns: int | None = None
    """When it begins the first step, by the first rank's clock; None: that is unknown."""
    awaited_ns: float = 0.0
    """For how long all others together wait for it (tracekit/replay/ranks/stragglers.py)."""
    times_last: int = 0
    """The number of collectives in which it comes last."""
    excess: RankExcess | None = None
    """The largest one; None: there is none, or it was not examined."""
    saves_ns: int | None = None
    """How much shorter the run is if this rank takes as long as its peers; None: it has no peers,
    or was not examined."""


class SlowStage(Struct, frozen=True):
    """The stage of a pipeline that takes longest beyond the others."""

    trace_id: int
    spared_ns: int
    """How much less the others wait in sends and receives if it takes as long as they do."""
    saves_ns: int
    """How much shorter the run is then."""
    excess: RankExcess | None = None


class Lateness(Struct, frozen=True, kw_only=True):
    """What the ranks' steps take beyond the median step of all of them, in the whole run."""

    saves_ns: int
    """How much shorter the run is without it."""
    cause: str
    """The cause of most of it."""
    excess_ns: int
    """All of it, on all ranks."""
    stops: int
    """Calls that are far longer than usual, on all ranks."""
    stopped_ranks: int
    """The ranks that have stops."""
    stopped_ns: int
    """How much longer than usual all stops take."""
    longest_ns: int
    """The longest stop."""
    kinds: int
    """The different calls among them: a thread that loses its core stops in any call."""
    places: Sequence[str] = ()
    """The most frequent ones."""


class RunEvidence(Struct, frozen=True, kw_only=True):
    """What the verdict of a run judges."""

    thresholds: Thresholds
    """Those by which it is judged."""
    ranks: Sequence[RankEvidence]
    """The ranks with GPU ops, in order."""
    left_out: Sequence[int | None] = ()
    """The ranks without GPU ops."""
    world_size: int = 0
    """The number of ranks in the run; 0: it is unknown."""
    steps: int = 0
    """The steps that all ranks recorded."""
    doubt: str | None = None
    """Why it is unknown who waits for whom."""
    step_ns: int | None = None
    """The median step; without steps, the run."""
    span_ns: int | None = None
    """The length of the run; None: its ranks are not replayed together."""
    once: Mapping[str, int] = {}
    """What its hosts did once, by cause: lengths and prices are without it."""
    waiting: Sequence[WaitingRank] = ()
    """How long each rank waits; none if they are not replayed together."""
    bubble_ns: int = 0
    """How long all ranks together wait in sends and receives."""
    collectives: Collectives | None = None
    """None: none could be matched."""
    clocks: Clocks | None = None
    slow_links: Sequence[SlowLink] = ()
    """The one whose speed would save most comes first."""
    pipeline: Pipeline | None = None
    """None: the run has none, or no step that all ranks recorded."""
    slow_stage: SlowStage | None = None
    """None: the run has no pipeline."""
    saved_ns: Mapping[str, int] = {}
    """How much shorter the run is without each cause of time, or its pipeline's waits."""
    lateness: Lateness | None = None
    """None: no step takes longer, or they cannot be compared."""
    alike_saves_ns: int | None = None
    """How much shorter it is if every rank takes as long as its peers; None: none has peers."""
