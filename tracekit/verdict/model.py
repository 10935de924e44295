"""The analysis of one trace: the answers of queries, and the verdict that follows from them.

The dataclasses here are the JSON of `tracekit analyze --json`, key for key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tracekit.shown import Shown

if TYPE_CHECKING:
    from tracekit.advice.model import Advice
    from tracekit.replay.gains import Causal, Gains

SCHEMA = "tracekit/analysis/1"


@dataclass(frozen=True)
class Finding:
    """A problem of the trace that makes numbers doubtful (queries/trace/health.sql)."""

    code: str
    severity: str
    message: str
    count: int


@dataclass(frozen=True)
class Trace:
    """The trace: its file, rank and devices, what is wrong with it, and how it was captured."""

    path: str
    events: int
    rank: int | None
    world_size: int | None
    devices: list[str]
    health: list[Finding]
    trace_id: int
    capture: dict[str, Any] | None


@dataclass(frozen=True)
class Window:
    """The interval that shares refer to, on the trace's clock."""

    kind: str
    name: str
    start_ns: int
    end_ns: int
    span_ns: int


@dataclass(frozen=True)
class Gpu:
    """One device in one window (queries/time/partition.sql).

    compute, exposed_comm, exposed_memcpy and idle add up to the window; busy is the sum of the
    first three.
    """

    device_id: int | None
    kernels: int
    gpu_ops: int
    linked: int
    busy_ns: int
    compute_ns: int
    exposed_comm_ns: int
    exposed_memcpy_ns: int
    idle_ns: int


@dataclass(frozen=True)
class Idle:
    """Why the device was idle.

    host_late_ns, device_ns, unlinked_ns and after_last_op_ns add up to the device's idle_ns.
    `causes` (ns by cause) add up to host_late_ns; device_in_launch_ns is a part of device_ns.
    """

    host_late_ns: int
    device_ns: int
    device_in_launch_ns: int
    unlinked_ns: int
    after_last_op_ns: int
    causes: dict[str, int]


@dataclass(frozen=True)
class Launch:
    """How work reached the device (queries/host/launch_stats.sql)."""

    count: int
    delay_p50_ns: int
    delay_p90_ns: int
    queue_depth_p50: int
    dispatch_per_launch_ns: int | None
    graph_share: float = 0.0
    compiled_share: float | None = None


@dataclass(frozen=True)
class HostThread:
    """The busiest host thread of a trace without GPU ops (queries/host/cpu_time.sql)."""

    operators: int
    launches: int
    compute_ns: int
    dispatch_ns: int
    view_ns: int
    python_ns: int
    input_ns: int
    compilation_ns: int
    runtime_ns: int
    untraced_ns: int
    allocation_ns: int = 0
    communication_ns: int = 0
    math_ns: int = 0
    memory_ns: int = 0
    device_evidence: str | None = None


@dataclass(frozen=True)
class Saving:
    """How much shorter the window would be without a cause.

    With GPU ops: the window's length less its length in a replay that removes the cause's work and
    the waits in its calls (tracekit/replay/changes.py). Without GPU ops: the cause's time on the
    busiest thread. `saves_at_most_ns` is an upper bound, because a real change rarely removes all
    work of a cause, and what replaces the work takes time, too.
    """

    remove: str
    saves_at_most_ns: int
    with_unknown_limits_ns: int | None = None
    """For math and memory-bandwidth: the same if the cause also limits all kernels of which the
    trace does not tell whether math or memory does. None: there are no such kernels."""


@dataclass(frozen=True)
class Verdict:
    """The judgement on a window.

    `shares` are fractions of the window. `margin` tells how clear the regime is, also as a fraction
    of the window: with GPU ops, the gain from halving the device's work less the gain from halving
    the host's; without, the time of compute operators and of waits for other ranks less all other
    time. A positive margin means compute-bound, a negative one overhead-bound; if neither gain
    reaches the threshold `small_gain`, the regime follows from busy and waiting time instead. None:
    nothing to judge by.
    """

    regime: str
    bottleneck: str | None
    confidence: str
    shares: dict[str, float]
    why: list[str]
    savings: list[Saving]
    margin: float | None
    try_next: list[str]


@dataclass(frozen=True)
class Period:
    """A window with its partition, its gains and its regime."""

    window: Window
    gpu: Gpu | None
    idle: Idle | None
    host: HostThread | None
    gains: Gains | None
    regime: str
    bottleneck: str | None


@dataclass(frozen=True)
class OneOffEvent:
    """What happened once, or took far longer than its like (queries/time/one_offs.sql).

    `excess_ns` is what it takes beyond the usual; that is taken out of the window that is judged.
    `cause` is a cause of time, or `capture`. `place` is the Python line, module or operator.
    """

    start_ns: int
    dur_ns: int
    excess_ns: int
    kind: str
    cause: str
    name: str | None
    place: str | None


@dataclass(frozen=True)
class Repetition:
    """Whether the run repeats itself (queries/time/repetition.sql)."""

    gpu_ops: int
    repeated: int
    steps: int


@dataclass(frozen=True)
class Phase:
    """An outermost range of the launching thread, in a trace without steps.

    It lasts from the completion of the previous range to its own; the gains from halving the host's
    or the device's work are fractions of that length.
    """

    name: str
    window_ns: int
    host_gain: float
    device_gain: float


@dataclass(frozen=True)
class Facts:
    """What the verdict judges: one window of one device, or of the host in a trace without one."""

    window: Window
    gpu: Gpu | None
    idle: Idle | None
    launch: Launch | None
    host: HostThread | None


@dataclass(frozen=True)
class Beside:
    """What a verdict mentions beside its window: the trace's one-offs, steps and other windows."""

    one_offs: Sequence[OneOffEvent] = ()
    steps: Sequence[Period] = ()
    windows: Sequence[Period] = ()
    repetition: Repetition | None = None


@dataclass(frozen=True)
class Analysis(Shown):
    """Everything `analyze` reports about one trace."""

    trace: Trace
    window: Window
    gpu: Gpu | None
    idle: Idle | None
    launch: Launch | None
    host: HostThread | None
    verdict: Verdict
    causal: Causal | None
    one_offs: list[OneOffEvent]
    steps: list[Period]
    phases: list[Phase]
    windows: list[Period]
    devices: list[Gpu]
    top_kernels: list[dict[str, Any]]
    memory_traffic: list[dict[str, Any]]
    advice: list[Advice]

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {"schema": SCHEMA} | asdict(self)
