"""Every number of one window that a verdict rests on, once and frozen; and what several ranks show.

The denominator of shares is the window's length (`Window.span_ns`); that of gains is the window's
replayed length (`Gains.window_ns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from tracekit.evidence.memory import DeviceMemory
from tracekit.evidence.units import UnitGroup
from tracekit.replay.model import Gains

S = TypeVar("S", bound=Struct)


class Finding(Struct, frozen=True):
    """A problem of the trace that makes numbers doubtful (queries/trace/health.sql)."""

    code: str
    severity: str
    message: str
    count: int
    time_ns: int | None = None
    """The time that it concerns, if known."""


# Findings after which no number of a window says what held the run up.
_FORBIDDING = frozenset({"unread_device", "merged_ranks", "thinned_file"})


def forbids_verdicts(health: Sequence[Finding]) -> bool:
    """Whether a finding forbids a verdict on any window of the trace."""
    return any(each.code in _FORBIDDING for each in health)


def is_snapshot(health: Sequence[Finding]) -> bool:
    """Whether the trace is a memory snapshot."""
    return any(each.code == "memory_snapshot" for each in health)


class Trace(Struct, frozen=True):
    """The trace: its file, rank and devices, its problems, and how it was captured."""

    path: str
    events: int
    rank: int | None
    world_size: int | None
    devices: list[str]
    health: list[Finding]
    """Reasons to doubt the numbers."""
    trace_id: int
    capture: dict[str, Any] | None
    """What `tracekit capture` or `tracekit.profile` noted about the run; null for other traces."""
    device_word: str = "GPU"
    """What its devices are called in sentences: GPU, MTIA, XPU ..."""


class Window(Struct, frozen=True):
    """The interval that shares refer to, on the trace's clock."""

    kind: str
    """gpu_active, trace, step, or range (an annotated one)."""
    name: str
    """For people to read, such as `ProfilerStep#6`."""
    start_ns: int
    """Its start."""
    end_ns: int
    """Its end."""
    span_ns: int
    """Its length: the denominator of shares."""


class Gpu(Struct, frozen=True):
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


class Idle(Struct, frozen=True):
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
    """host_late_ns by the launching thread's activity."""
    waits_for_host_ns: int
    """Idle time that would not be there if the host had been ready: late gaps until the launch call
    returned, device_in_launch_ns and after_last_op_ns."""


class Launch(Struct, frozen=True):
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


class HostThread(Struct, frozen=True):
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
    unrecorded_ns: int = 0
    """The part of it in long stretches, too long for Python between two operators."""
    waiting_ns: int = 0
    """Python frames that wait for other threads or processes."""
    allocation_ns: int = 0
    communication_ns: int = 0
    remote_ns: int = 0
    """The part of it in calls to other workers (RPC)."""
    math_ns: int = 0
    memory_ns: int = 0
    device_read_ns: int = 0
    filling_ns: int = 0
    """Operators that fill tensors with random numbers, as parameters are before a run."""
    device_evidence: str | None = None
    last_wait_ns: int | None = None
    """The last call that waits for a device, after all launches; None: none does."""
    roles: dict[str, int] = {}
    """What the event loop of a server's front end does, in ns by role; empty: it is none."""


class OneOffEvent(Struct, frozen=True):
    """An event that happened once, or took far longer than similar events
    (tracekit/replay/one_offs.py)."""

    start_ns: int
    dur_ns: int
    usual_ns: int
    excess_ns: int
    """Its time beyond the usual, which is left out of the judged window."""
    kind: str
    side: str
    """Which side takes longer: `host` or `device`."""
    cause: str
    """A cause of time, or `capture`."""
    name: str | None
    place: str | None
    """The Python line, module or operator."""
    event_id: int | None = None
    pid: int | None = None
    tid: int | None = None
    calls: str | None = None
    """Of a step, range or start: the slices or GPU ops in which its cause takes most time; of an
    operator that met a new shape: that it did."""


class CallSite(Struct, frozen=True):
    """Where in the program an event comes from (queries/replay/event_sites.sql)."""

    name: str | None = None
    """The event's own name."""
    cpu_op: str | None = None
    module: str | None = None
    python_line: str | None = None

    @property
    def where(self) -> str | None:
        """The Python line, module or operator."""
        return self.python_line or self.module or self.cpu_op


class RankWait(Struct, frozen=True):
    """Time in collectives of a window that probably passes until another rank comes
    (queries/communication/collective_waits.sql)."""

    type: str
    """The type of the collectives; empty: they have several types."""
    count: int
    wait_ns: int
    """The part of it that no compute covers."""


class Communication(Struct, frozen=True):
    """The device's communication in one window (queries/communication/comm_overlap.sql)."""

    total_ns: int
    """While a kernel of communication ran."""
    hidden_ns: int
    """The part of it while other kernels ran, too."""


class Blocked(Struct, frozen=True):
    """The host's calls in one window that wait for the device (the table host_wait)."""

    count: int
    """The number of calls."""
    wait_ns: int
    """Their length inside the window."""
    longest_ns: int
    """The length of the longest inside the window."""
    call: str | None
    """The longest call; null: none was recorded."""
    where: str | None
    """Its Python line, module or operator."""


class Account(Struct, frozen=True):
    """What took time in one window."""

    window: Window
    gpu: Gpu | None = None
    """The device in the window; None in a trace without GPU ops."""
    idle: Idle | None = None
    host: HostThread | None = None
    """The busiest host thread, in a trace without GPU ops."""

    @property
    def ops(self) -> int:
        """The number of GPU ops, or of operators of the host."""
        return self.gpu.gpu_ops if self.gpu else self.host.operators if self.host else 0


class Period(Account, frozen=True):
    """The account of a window, with its gains and its regime."""

    gains: Gains | None = None
    regime: str = "unknown"
    """What bounds it."""
    bottleneck: str | None = None
    """The cause whose removal gains most."""
    group: int | None = None
    """For a step: those that do the same work have the same number (id)."""
    is_cold: bool = False
    """For a step: whether first-call work takes a large part of it."""
    is_whole: bool = True
    """For a step: whether the recording, of the device too, does not cut it off."""

    @classmethod
    def of(cls, account: Account, gains: Gains | None) -> Period:
        """The period of an account, before it is judged."""
        return cls(account.window, account.gpu, account.idle, account.host, gains)


class Evidence(Struct, frozen=True, kw_only=True):
    """What the verdict judges: one window of one device, or of the host in a trace without a
    device, and relevant facts about the rest of the trace."""

    period: Period
    """The window with what took time in it, and what changes would gain."""
    flip: float | None = None
    """The factor by which the side that bounds the window must get faster before the margin changes
    its sign; None if it does not."""
    links: Sequence[dict[str, Any]] = ()
    """The longest links of the window's critical path."""
    clock_shift_ns: int = 0
    """Time that the replay added to the device's clock."""
    launch: Launch | None = None
    """How work reached the device, in the whole trace."""
    no_replay: str = ""
    """Why a trace with GPU ops could not be replayed."""
    health: Sequence[Finding] = ()
    one_offs: Sequence[OneOffEvent] = ()
    steps: Sequence[Period] = ()
    windows: Sequence[Period] = ()
    """The GPU-active span and the whole trace."""
    units: Sequence[UnitGroup] = ()
    """What the run repeats, most time first."""
    repeating: Account | None = None
    """The device in a typical unit, if its units are no steps; the window's name counts them."""
    rank_wait: RankWait | None = None
    """None: no collective took longer than it had to."""
    has_calls: bool = True
    """Whether calls of the device's runtime or driver were recorded."""
    shaped: bool = False
    """Whether the operators' shapes were recorded."""
    profiler: str = "kineto"
    """What recorded the trace."""
    device_word: str = "GPU"
    """What the device is called in sentences."""
    meanwhile: Sequence[dict[str, Any]] = ()
    """What was recorded on any thread while the device waited and the launching thread recorded no
    call (rows of the question `unrecorded_waits`)."""
    holes: Sequence[dict[str, Any]] = ()
    """The long stretches among them, by what the launching thread did next (rows of the question
    `holes`)."""
    dominant: str = ""
    """The kernels that take most of the device's kernel time, with their share, as a clause."""
    ops: int = 0
    """The number of GPU ops of the device, or of operators of the host, in the trace."""
    advised: str | None = None
    """The cause of time that the first piece of advice on recurring work reduces."""
    advised_remedy: str | None = None
    """The remedy of that advice."""
    advised_share: float = 0.0
    """The saving of that advice, over the window's length without one-offs."""
    memory: DeviceMemory | None = None
    """What held a device's memory; None: the trace is no memory snapshot."""


# -- of several ranks ------------------------------------------------------------------------------


class WaitingRank(Struct, frozen=True):
    """A rank's waiting time in collectives, and the rank for which it waited longest."""

    rank: int | None
    trace_id: int
    waited_ns: int
    """Its waiting time in collectives."""
    awaited_rank: int | None
    """The rank for which it waited longest."""
    awaited_trace_id: int | None
    """That rank's trace."""
    awaited_ns: int
    """Its waiting time for that rank."""
    length_ns: int
    """The time from its start of the first step to its completion of the last."""


class Collectives(Struct, frozen=True):
    """The collectives that several ranks joined."""

    count: int
    """The number of matched collectives."""
    exchanges: int
    """The number of sends with their receives."""
    matched_by: dict[str, int]
    """The number of matches for each way of matching."""
    left_out: int
    """The number of collectives that could not be matched without contradiction."""
    waited_ns: int
    """All ranks' waits in collectives; waits in sends and receives are the run's `bubble_ns`."""
    wire_ns: int
    """Wire time, counting each collective once: the duration on the rank that arrived last."""
    bandwidth: list[dict[str, Any]]
    """Bandwidth by type, size and group (queries/communication/link_bandwidth.sql)."""


class StageTime(Struct, frozen=True):
    """What a rank does as a stage of a pipeline: means of its steps, which add up to a step."""

    rank: int | None
    trace_id: int
    stage: int
    """Its place in the pipeline, from 0."""
    work_ns: int
    """Its device does anything but communicate."""
    fill_ns: int
    """Other stages work, and it has not begun."""
    between_ns: int
    """It waits for other stages after that."""
    drain_ns: int
    """Other stages work, and it is done."""
    rest_ns: int
    """Messages on the wire that nothing covers, gaps, and waits for the host."""

    @property
    def idle_ns(self) -> int:
        """Its part of the pipeline's bubble."""
        return self.fill_ns + self.between_ns + self.drain_ns


class Pipeline(Struct, frozen=True):
    """What the stages of a run's pipelines do in an average step."""

    stages: int
    """The ranks of a pipeline, each of which sends to the next one and back."""
    micro_batches: int
    """How many of them go through the stages in a step; 0: each stage sends another number."""
    chunks: int
    """The parts of the model that each rank has: more than one if stages are interleaved."""
    ways: int
    """The directions in which micro-batches go through the stages: 2 with DualPipe."""
    idle_ns: int
    """How long a stage idles for the others: the mean of all."""
    least_idle_ns: int
    """How long the stage idles that idles least: a step without a bubble is that much shorter."""
    ranks: Sequence[StageTime]
    """In the order of stages."""

    @property
    def step_ns(self) -> int:
        """The mean length of a step."""
        one = self.ranks[0]
        return one.work_ns + one.idle_ns + one.rest_ns

    @property
    def halved_ns(self) -> int:
        """How much shorter a step is with twice the micro-batches, each half as large and computed
        in half the time: what the busiest stage does not wait for then."""
        return self.least_idle_ns // 2

    @property
    def of_schedule(self) -> float | None:
        """The part of a step that stages of equal length idle at least, if a pipeline fills and
        drains once in a step: (p - 1) / (v m + p - 1) with p stages, m micro-batches and v chunks
        (Narayanan et al. 2021, https://arxiv.org/abs/2104.04473)."""
        if not self.micro_batches:
            return None
        return (self.stages - 1) / (self.chunks * self.micro_batches + self.stages - 1)


class ClockAhead(Struct, frozen=True):
    """How far a rank's clock is ahead of the median rank's clock; negative: behind."""

    rank: int | None
    ahead_ns: int
    """Negative: behind."""
    residual_ns: int
    """The remaining difference between ends of collectives after aligning clocks."""


class Clocks(Struct, frozen=True):
    """The differences between the ranks' clocks, from the ends of collectives (rank_clocks)."""

    apart_ns: int
    """The largest difference between two clocks."""
    residual_ns: int
    """The remaining difference after aligning clocks."""
    compared: int
    """The number of ranks whose clocks could be compared."""
    ranks: list[ClockAhead]


class SlowLink(Struct, frozen=True):
    """A group of ranks whose messages take longer on the wire than those of similar groups, with
    its most expensive messages."""

    ranks: list[int]
    """The ranks of the group (id)"""
    type: str
    """The collective, or a send and receive."""
    message_bytes: int
    """The size of a message."""
    wire_ns: int
    """The median time on the wire."""
    others_wire_ns: int
    """The median in similar groups."""
    excess_ns: int
    """The extra time of all its slow messages per step."""
    saves_ns: int
    """The decrease of a step without that extra time."""


def of_row(kind: type[S], row: dict[str, Any], **given: Any) -> S:
    """A struct with the values of a row for its fields, except the fields that are given."""
    names = kind.__struct_fields__
    return kind(**{name: row[name] for name in names if name not in given}, **given)
