"""The analysis of one trace: the answers of queries, gathered, with the verdict over them.

The dataclasses here are the JSON of `tracekit analyze --json`, key for key.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracekit.replay.gains import Causal, Gains

SCHEMA = "tracekit/analysis/1"


@dataclass(frozen=True)
class Finding:
    """Something in the trace that makes numbers doubtful (queries/trace/health.sql)."""

    code: str
    severity: str
    message: str
    count: int


@dataclass(frozen=True)
class Trace:
    """Which trace this is."""

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
    """What shares are taken of: an interval on the trace's clock."""

    kind: str
    name: str
    start_ns: int
    end_ns: int
    span_ns: int


@dataclass(frozen=True)
class Gpu:
    """One device in one window (queries/time/partition.sql).

    compute + exposed_comm + exposed_memcpy + idle is the window; busy is the first three.
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
    """Why the device was idle: late, device, unlinked and after the last op add up to idle_ns.

    `causes` add up to host_late_ns; device_in_launch_ns is a part of device_ns.
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


@dataclass(frozen=True)
class Saving:
    """What removing a cause would save at most: its exposed time, if nothing took its place."""

    remove: str
    saves_at_most_ns: int


@dataclass(frozen=True)
class Verdict:
    """The judgement. `shares` are of the window; `margin` is the distance from flipping."""

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
    """A window, its partition, what halves of it gain, and its regime, briefly."""

    window: Window
    gpu: Gpu | None
    idle: Idle | None
    host: HostThread | None
    gains: Gains | None
    regime: str
    bottleneck: str | None


@dataclass(frozen=True)
class Phase:
    """Of a trace without steps: a range of its launching thread, from the completion of the one
    before to its own, as fractions of its length."""

    name: str
    window_ns: int
    host_gain: float
    device_gain: float


@dataclass(frozen=True)
class Facts:
    """What the verdict judges: one window of one device, or of the host where there is none."""

    window: Window
    gpu: Gpu | None
    idle: Idle | None
    launch: Launch | None
    host: HostThread | None


@dataclass(frozen=True)
class Analysis:
    """Everything `analyze` reports about one trace."""

    trace: Trace
    window: Window
    gpu: Gpu | None
    idle: Idle | None
    launch: Launch | None
    host: HostThread | None
    verdict: Verdict
    causal: Causal | None
    steps: list[Period]
    phases: list[Phase]
    windows: list[Period]
    devices: list[Gpu]
    top_kernels: list[dict[str, Any]]
    memory_traffic: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {"schema": SCHEMA} | asdict(self)
