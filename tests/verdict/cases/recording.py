"""What was not recorded: evidence that lacks a device, calls or ops, and the verdict on it."""

from msgspec.structs import replace

from tests.kit.evidenced import (
    CUT,
    LATE,
    LONG,
    MS,
    PYTHON,
    WINDOW,
    Judged,
    evidence,
    finding,
    gpu,
    host_evidence,
    idle,
    period,
    window,
    with_gains,
    with_period,
)
from tracekit.evidence.model import Evidence, Period

UNRECORDED = host_evidence(
    compute_ms=30, dispatch_ms=20, python_ms=15, untraced_ms=20, launches=420
)
UNLINKED = evidence(
    busy=0.3,
    unknown=0.6,
    gpu=replace(gpu(busy_ns=30 * MS, idle_ns=70 * MS), linked=0),
    idle=idle(host_late_ns=0, unlinked_ns=70 * MS, causes={}),
)


def operators_within(trace_ms):
    """100 ms of operators at the begin of a trace whose rest is communication."""
    shown = host_evidence(compute_ms=20, dispatch_ms=80)
    span, whole = (
        window(kind, kind, 0, ms * MS) for kind, ms in (("host_active", 100), ("trace", trace_ms))
    )
    rest = period(whole, "compute-bound", "communication")
    return replace(shown, period=replace(shown.period, window=span), windows=[rest])


def linked_ops(*, linked, gap_ms, busy=0.3, host_gain=0.4):
    """50 ops, some with their launch; the device waits this long for the others."""
    gains = {"busy": busy, "host_gain": host_gain, "device_gain": 0.02}
    whole = evidence(health=["unlinked_gpu_ops"], **gains, removed={"python": 0.6})
    return with_period(
        whole,
        gpu=replace(whole.period.gpu, gpu_ops=50, linked=linked),
        idle=replace(whole.period.idle, unlinked_ns=gap_ms * MS),
    )


def on_host(evidence, *health, **host_ns):
    host = replace(evidence.period.host, **host_ns)
    return replace(with_period(evidence, host=host), health=list(health))


def once_only(window):
    """A window of which nothing is left to judge."""
    return with_gains(evidence(window=window), window_ns=0)


CASES = {
    "host events that are most of the trace and are not analyzed": Judged(
        evidence=evidence(
            **LATE, health=[finding("begin_end_events", "events mark", severity="error", count=9)],
        ),
        regime="unknown", begins="Events mark.",
    ),
    "a few host events that are not analyzed": Judged(
        evidence=evidence(**LATE, health=[finding("begin_end_events", "events mark", count=9)]),
        regime="overhead-bound", lacks=["Events mark"],
    ),
    "host events that are not analyzed beside a busy device": Judged(
        evidence=evidence(
            busy=0.95, device_gain=0.45,
            health=[finding("begin_end_events", "events mark", severity="error", count=9)],
        ),
        regime="compute-bound",
    ),
    "GPU ops and calls without a correlation": Judged(
        evidence=replace(UNLINKED, has_calls=True),
        regime="unknown", says=["no GPU op has the correlation"],
    ),
    "GPU ops without calls": Judged(
        evidence=replace(UNLINKED, has_calls=False),
        regime="unknown", says=["Record the host's calls, too"],
    ),
    "operators and GPU ops without calls": Judged(
        evidence=with_gains(replace(UNLINKED, has_calls=False), work_ns={"dispatch": MS}),
        regime="unknown", says=["Record the runtime's calls, too"],
        lacks=["Record the host's calls"],
    ),
    "few ops, and a host of which nothing was recorded": Judged(
        evidence=evidence(**LATE, ops=3, removed={"unrecorded-time": 0.8}),
        regime="unknown", confidence="none",
        says=["holds this run up: only 3 GPU ops were recorded, too few to represent a run."],
    ),
    "operators in little of a trace that waits for others": Judged(
        evidence=operators_within(10_000),
        regime="unknown", confidence="none", says=["take 100 ms of 10 s: too little to judge"],
    ),
    "operators in a third of such a trace": Judged(
        evidence=operators_within(300),
        regime="overhead-bound", confidence="low", says=["the run would be bound by communication"],
    ),
    "few ops, and a trace that is far longer": Judged(
        evidence=evidence(**PYTHON, ops=3, windows=[period(LONG, "unknown")]),
        regime="unknown", says=["only 3 GPU ops were recorded, too few to represent a run."],
    ),
    "operators without a device": Judged(
        evidence=host_evidence(compute_ms=90, untraced_ms=10),
        regime="compute-bound",
    ),
    "dispatch without a device": Judged(
        evidence=host_evidence(compute_ms=20, dispatch_ms=50, python_ms=30),
        regime="overhead-bound", bottleneck="dispatch",
        begins="Overhead takes longer than computing: dispatching operators",
    ),
    "nothing recorded": Judged(
        evidence=host_evidence(compute_ms=0, untraced_ms=100),
        regime="unknown",
    ),
    "a device that was not recorded": Judged(
        evidence=host_evidence(compute_ms=90, untraced_ms=10, launches=5),
        regime="unknown",
    ),
    # Without an operator, the host gave the device nothing to do.
    "Python frames alone, of a job with a device": Judged(
        evidence=on_host(
            host_evidence(compute_ms=0, python_ms=90, untraced_ms=10), operators=0,
            device_evidence="allocations on a device",
        ),
        regime="overhead-bound", bottleneck="python",
        says=["neither GPU ops nor operators, but Python frames"],
    ),
    "a model whose parameters are being filled": Judged(
        evidence=on_host(host_evidence(compute_ms=95, python_ms=5), filling_ns=60 * MS),
        regime="unknown", says=["60 ms of 100 ms fill tensors with random numbers"],
    ),
    "random numbers that are a part of the work": Judged(
        evidence=on_host(host_evidence(compute_ms=95, python_ms=5), filling_ns=40 * MS),
        regime="compute-bound",
    ),
    "a device that was done with the last launch, and was not recorded": Judged(
        evidence=on_host(UNRECORDED, last_wait_ns=MS // 2),
        regime="overhead-bound", bottleneck="dispatch", confidence="low",
        says=[
            "so the host is late",
            "The GPU's work was not recorded, but the host's last wait for it takes only 500 us "
            "of 100 ms.",
        ],
    ),
    "a device that had not finished its work": Judged(
        evidence=on_host(UNRECORDED, last_wait_ns=40 * MS),
        regime="unknown",
    ),
    "work beside other ranks": Judged(
        evidence=on_host(host_evidence(compute_ms=30), communication_ns=60 * MS, remote_ns=0),
        confidence="high", lacks=["micro-batch"],
    ),
    # Work may hide beside their calls.
    "collectives on a thread that does nothing else": Judged(
        evidence=on_host(host_evidence(compute_ms=0, untraced_ms=40), communication_ns=60 * MS),
        regime="unknown", says=["only collectives were recorded on the busiest thread (60.0 %)"],
    ),
    "work beside other workers": Judged(
        evidence=on_host(host_evidence(compute_ms=30), communication_ns=60 * MS, remote_ns=60 * MS),
        confidence="medium", says=["micro-batch"],
    ),
    # The last wait that was read need not have been the last one.
    "the host's last wait in a file that is cut": Judged(
        evidence=on_host(UNRECORDED, CUT, last_wait_ns=MS // 2),
        regime="unknown",
    ),
    "a cut file": Judged(
        evidence=on_host(host_evidence(compute_ms=90, dispatch_ms=5), CUT),
        confidence="low", notes=["The end is missing: it stops inside an event."],
        says=["Get the whole file"],
    ),
    "a cut file of a job with a GPU": Judged(
        evidence=on_host(
            host_evidence(compute_ms=90, dispatch_ms=5), CUT, device_evidence="a listed device",
        ),
        regime="unknown", begins="The end is missing", says=["Get the whole file"],
    ),
    "a host that reads a device of which nothing was recorded": Judged(
        evidence=on_host(
            host_evidence(compute_ms=90, dispatch_ms=5), device_evidence="backend nccl",
            device_read_ns=9 * MS,
        ),
        regime="unknown", begins="The trace does not tell what holds this run up: this job uses",
    ),
    "a run that cannot be replayed": Judged(
        evidence=evidence(gains=None, no_replay="a file: b; c"),
        regime="unknown", confidence="none",
        begins="The trace does not tell what holds this run up: the run cannot be replayed.",
        says=["The run cannot be replayed: a file: b; c."],
    ),
    "a step whose name looks like the end of a reason": Judged(
        evidence=once_only(replace(WINDOW, kind="range", name="load: a; b")),
        regime="unknown", confidence="none",
        begins=(
            "The trace does not tell what holds this run up: the GPU was busy for 50.0 % of load: "
            "a; b (50 ms of 100 ms)."
        ),
    ),
    "nothing at all": Judged(
        evidence=Evidence(period=Period(window=WINDOW)),
        regime="unknown",
    ),
    "events of a form that is not analyzed": Judged(
        evidence=Evidence(
            period=Period(window=WINDOW),
            health=[finding("begin_end_events", "B and E", count=9)],
        ),
        regime="unknown", begins="B and E", says=["complete event"],
    ),
    "ops of which most have a launch": Judged(
        evidence=linked_ops(linked=40, gap_ms=9),
        confidence="medium",
    ),
    "ops of which most have none": Judged(
        evidence=linked_ops(linked=20, gap_ms=9),
        confidence="low",
    ),
    "ops without a launch, for which the device hardly waits": Judged(
        evidence=linked_ops(linked=20, gap_ms=1),
        lacks=["Some GPU ops"],
    ),
    "ops without a launch, while neither side gains": Judged(
        evidence=linked_ops(linked=20, gap_ms=21, busy=0.7, host_gain=0.01),
        regime="unknown", says=["waits for ops whose launch is unknown"],
    ),
    "a few ops without a launch, while neither side gains": Judged(
        evidence=linked_ops(linked=40, gap_ms=21, busy=0.7, host_gain=0.01),
        regime="compute-bound",
    ),
    "a few ops without a launch, for which the device waits longest": Judged(
        evidence=with_period(
            linked_ops(linked=40, gap_ms=70, busy=0.3, host_gain=0.01), idle=UNLINKED.period.idle,
        ),
        regime="unknown", says=["waits for ops whose launch is unknown"],
    ),
    "a few ops in less than half of the trace": Judged(
        evidence=evidence(
            busy=1, ops=1, device_gain=0.5, removed={"math": 0.5},
            windows=[period(LONG, "unknown")],
        ),
        regime="unknown", says=["only 1 GPU op was recorded"],
    ),
}  # fmt: skip
