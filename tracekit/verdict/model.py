"""The analysis of one trace: the answers of queries, and the verdict that follows from them.

The dataclasses here are the JSON of `tracekit analyze --json`, key for key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
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
    time_ns: int | None = None
    """The time that it concerns, where that is known."""


@dataclass(frozen=True)
class Trace:
    """The trace: its file, rank and devices, what is wrong with it, and how it was captured."""

    path: str
    events: int
    rank: int | None
    world_size: int | None
    devices: list[str]
    health: list[Finding]
    """What makes the numbers doubtful."""
    trace_id: int
    capture: dict[str, Any] | None
    """What `tracekit capture` or `tracekit.profile` noted about the run; null for other traces."""


@dataclass(frozen=True)
class Window:
    """The interval that shares refer to, on the trace's clock."""

    kind: str
    """gpu_active, trace, step, or range (an annotated one)."""
    name: str
    """As people read it, such as `ProfilerStep#6`."""
    start_ns: int
    """Its start."""
    end_ns: int
    """Its end."""
    span_ns: int
    """Its length: what shares are shares of."""


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
    """The launch of the op that ends a gap began after the gap did."""
    device_ns: int
    """It began before the gap: a dependency, an event or launch latency."""
    device_in_launch_ns: int
    """The part of device_ns in which the launch call still ran."""
    unlinked_ns: int
    """The launch is not in the trace."""
    after_last_op_ns: int
    """After the window's last op."""
    causes: dict[str, int]
    """host_late_ns by what the launching thread did."""
    waits_for_host_ns: int
    """Idle time that would not be there if the host had been ready: late gaps until the launch call
    returned, device_in_launch_ns and after_last_op_ns."""


@dataclass(frozen=True)
class Launch:
    """How work reached the device (queries/host/launch_stats.sql)."""

    count: int
    """Launches."""
    delay_p50_ns: int
    delay_p90_ns: int
    first_delay_p50_ns: int
    launch_call_p50_ns: int
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
    """The cause of time that is removed."""
    saves_at_most_ns: int
    """How much shorter the window would be."""
    with_unknown_limits_ns: int | None = None
    """For math and memory-bandwidth: the same if the cause also limits all kernels of which the
    trace does not tell whether math or memory does. None: there are no such kernels."""


@dataclass(frozen=True)
class Verdict:
    """The judgement on a window.

    `shares` are fractions of the window. `margin` tells how clear the regime is, also as a fraction
    of the window: with GPU ops, the gain from halving the device's work less the gain from halving
    the host's; without, the time of compute operators and of waits for other ranks less all other
    time. A positive margin means compute-bound, a negative one overhead-bound. What the host gains
    counts up to the device's idle share. If neither gain reaches the threshold `small_gain`, the
    regime, and with it the margin's sign, follows from busy and waiting time instead. None: nothing
    to judge by.
    """

    regime: str
    """What bounds the window."""
    bottleneck: str | None
    """The cause whose removal gains most; null: none, or unknown."""
    confidence: str
    """How sure the regime is."""
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


@dataclass(frozen=True)
class Period:
    """A window with its partition, its gains and its regime."""

    window: Window
    gpu: Gpu | None
    idle: Idle | None
    host: HostThread | None
    gains: Gains | None
    regime: str
    """What bounds it."""
    bottleneck: str | None
    """The cause whose removal gains most."""


@dataclass(frozen=True)
class OneOffEvent:
    """What happened once, or took far longer than its like (queries/time/one_offs.sql).

    `excess_ns` is what it takes beyond the usual; that is taken out of the window that is judged.
    `cause` is a cause of time, or `capture`. `place` is the Python line, module or operator.
    """

    start_ns: int
    dur_ns: int
    excess_ns: int
    """What it takes beyond the usual."""
    kind: str
    side: str
    """Which side takes longer: `host` or `device`."""
    cause: str
    name: str | None
    place: str | None
    """The Python line, module or operator."""


@dataclass(frozen=True)
class Repetition:
    """Whether the run repeats itself (queries/time/repetition.sql)."""

    gpu_ops: int
    repeated: int
    steps: int
    names: int = 0
    once: int = 0


@dataclass(frozen=True)
class Phase:
    """An outermost range of the launching thread, in a trace without steps.

    It lasts from the completion of the previous range to its own; the gains from halving the host's
    or the device's work are fractions of that length.
    """

    name: str
    """The range's name."""
    window_ns: int
    """From the previous range's completion to its own."""
    host_gain: float
    """What halving the host's work gains."""
    device_gain: float
    """What halving the device's work gains."""


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
    shaped: bool = False
    """Whether the operators' shapes were recorded."""


@dataclass(frozen=True)
class Analysis(Shown):
    """Everything `analyze` reports about one trace."""

    trace: Trace
    window: Window
    gpu: Gpu | None
    """The device that is judged; null in a trace without GPU ops."""
    idle: Idle | None
    launch: Launch | None
    host: HostThread | None
    """The busiest host thread, in a trace without GPU ops; otherwise null."""
    verdict: Verdict
    causal: Causal | None
    one_offs: list[OneOffEvent]
    """What happened once, and is not judged."""
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
    """What to change, most worth first."""

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {"schema": SCHEMA, **_plain(self)}


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries, however deep, as of `dataclasses.asdict`. That also copies each
    number and text, which takes most of its time: a run may have thousands of steps."""
    kind: type = type(value)
    if names := _names(kind):
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()
