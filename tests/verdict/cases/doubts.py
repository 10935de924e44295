"""What lowers the confidence of a verdict: evidence, and the verdict on it."""

from msgspec.structs import replace

from tests.kit.evidenced import (
    CUT,
    LATE,
    MS,
    ONE_STEP,
    PYTHON,
    RECORDED,
    SPAN_NS,
    STEP,
    TURNS,
    Judged,
    evidence,
    finding,
    gpu,
    host_evidence,
    late_for,
    launch,
    period,
    window,
)
from tracekit.evidence.model import OneOffEvent

LED = {
    "busy": 0.95,
    "device_gain": 0.45,
    "windows": [
        period(window("trace", "whole trace", -50 * MS, SPAN_NS), "overhead-bound", "python")
    ],
}
BARELY = replace(
    LED["windows"][0],
    gpu=gpu(busy_ns=90 * MS, idle_ns=60 * MS),
    idle=late_for(python_ms=60),
    gains=replace(evidence(host_gain=0.10, device_gain=0.07).period.gains, window_ns=150 * MS),
)
SLOWED = {
    "recorder_ns": 20 * MS,
    "removed": {"dispatch": 0.6},
    "health": [
        finding("recorder_cost", "recording took about 20 % of it", severity="info",
                time_ns=20 * MS)
    ],
}  # fmt: skip
ONE_PASS = [replace(ONE_STEP, kind="pass", source="single", passes=0, is_main=False)]
STEPS = [replace(ONE_STEP, count=3)]
# Units of which no two do the same work.
UNLIKE = [replace(ONE_PASS[0], source="frame", group=n, is_main=not n) for n in range(3)]


def gpu_active(regime):
    return period(window("gpu_active", "gpu_active", 0, 50 * MS), regime, "math")


def communicating(*, ms):
    device = gpu(busy_ns=45 * MS, comm_ns=ms * MS, idle_ns=55 * MS)
    return evidence(busy=0.45, host_gain=0.36, device_gain=0.06, gpu=device)


def passes(*lengths_ms, cold=0, **others):
    """A run of passes of these lengths, of which the first ones are cold."""
    steps = [
        period(window("step", f"pass {at}", 0, ms * MS), "", group=0, is_cold=at < cold)
        for at, ms in enumerate(lengths_ms)
    ]
    units = [replace(ONE_STEP, kind="pass", source="frame", count=len(steps), passes=0)]
    return evidence(**(PYTHON | others), units=units, steps=steps)


def with_step(*, ops, busy_ms):
    """A step of 1000 ops that computes for 90 ms, and another one."""
    step = period(STEP, "", gpu=gpu(ops=ops, busy_ns=busy_ms * MS, idle_ns=5 * MS))
    return evidence(busy=0.9, device_gain=0.5, removed={"math": 0.5}, window=STEP, steps=[step])


def stepping(*, alike, other, longer):
    """Steps as the judged one, and one with another regime that is longer."""
    long = window("step", "ProfilerStep#9", SPAN_NS, (1 + longer) * SPAN_NS)
    return [period(STEP, "overhead-bound", "python")] * alike + [period(long, other, "math")]


CASES = {
    "launches that load the code of their kernels": Judged(
        evidence=evidence(**LATE, health=["cold_start"]),
        confidence="low", says=["a warm run takes less"],
    ),
    "a close call": Judged(
        evidence=evidence(host_gain=0.24, device_gain=0.20, removed={"python": 0.3}),
        confidence="low", says=["close call"],
    ),
    **{
        f"a trace with {code}": Judged(
            evidence=evidence(**LATE, health=[code]), confidence="medium"
        )
        for code in ("shared_file", "graph_without_kernels", "starts_before_launch")
    },
    "many durations that are negative": Judged(
        evidence=evidence(
            **LATE, health=[finding("negative_duration", "events are wrong", count=60)],
        ),
        confidence="low", notes=["Events are wrong."],
    ),
    "a few negative durations in a thousand": Judged(
        evidence=evidence(
            **LATE, health=[finding("negative_duration", "events are wrong", count=6)],
        ),
        confidence="high", lacks=["Events are wrong."],
    ),
    "an overhead in a cut file, which the missing end may deny": Judged(
        evidence=evidence(**LATE, health=[CUT]),
        confidence="low", notes=["The end is missing: it stops inside an event."],
    ),
    "a busy device in a file that was cut off": Judged(
        evidence=evidence(busy=0.95, device_gain=0.45, health=[CUT]),
        confidence="medium",
    ),
    "prompts between decoding steps": Judged(
        evidence=evidence(
            **LATE, window=STEP, steps=stepping(alike=3, other="compute-bound", longer=6),
        ),
        confidence="low",
        says=["1 of the 4 steps, 66.7 % of their time, is compute-bound by math."],
    ),
    "long steps with the same regime and another bottleneck": Judged(
        evidence=evidence(
            **PYTHON, window=STEP, steps=stepping(alike=3, other="overhead-bound", longer=6),
        ),
        says=["1 of the 4 steps, 66.7 % of their time, is bound by math."],
    ),
    "a short step of another kind": Judged(
        evidence=evidence(
            **LATE, window=STEP, steps=stepping(alike=3, other="compute-bound", longer=2),
        ),
        lacks=["of their time"],
    ),
    "a long step that happened once": Judged(
        evidence=evidence(
            **LATE, window=STEP, steps=stepping(alike=3, other="compute-bound", longer=6),
            one_offs=[
                OneOffEvent(
                    start_ns=0, dur_ns=MS, usual_ns=0, excess_ns=MS, kind="step", side="host",
                    cause="python", name="ProfilerStep#9", place=None,
                ),
            ],
        ),
        lacks=["of their time"],
    ),
    "a step that is long only by what happened once in it": Judged(
        evidence=evidence(
            **PYTHON, window=STEP,
            steps=[
                *stepping(alike=3, other="overhead-bound", longer=2)[:3],
                replace(
                    stepping(alike=3, other="overhead-bound", longer=6)[3],
                    gains=replace(evidence().period.gains, one_offs_ns=5 * SPAN_NS),
                ),
            ],
        ),
        lacks=["of their time"],
    ),
    "a device that may be busy, as recording often costs more than is sure": Judged(
        evidence=evidence(**SLOWED | {"busy": 0.38}, host_gain=0.45),
        confidence="medium",
        says=[
            "Recording made the GPU-active span at least 20 ms longer, and often costs 2.5 times "
            "this least: without it, the GPU may be busy most of the time.",
        ],
    ),
    "a device that is not busy even without the recorder's cost": Judged(
        evidence=evidence(**SLOWED | {"busy": 0.2}, host_gain=0.45),
        confidence="high", lacks=["may be busy"],
    ),
    "no doubt": Judged(
        evidence=evidence(**LATE),
        confidence="high", lacks=["Without the profiler's cost"],
    ),
    "a clock that was set right": Judged(
        evidence=evidence(**LATE, shift_ns=3_000),
        confidence="medium", says=["clock was set forward by 3 us"],
    ),
    "a profiler that slows the host of an overhead-bound run": Judged(
        evidence=evidence(**LATE, health=["profiler_dilation"]),
        confidence="medium",
    ),
    "a profiler that slows the host of a compute-bound run": Judged(
        evidence=evidence(busy=0.95, health=["profiler_dilation"], device_gain=0.45),
        confidence="high",
    ),
    "work that is faster than the device can be": Judged(
        evidence=evidence(busy=0.95, health=["over_peak"], device_gain=0.45),
        confidence="medium", says=["Work would run faster than the device can"],
    ),
    "products that something else on the device slows": Judged(
        evidence=evidence(busy=0.95, health=["uneven_kernels"], device_gain=0.45),
        confidence="medium", says=["another program used the device"],
    ),
    "a host that bounds even a device that something else slows": Judged(
        evidence=evidence(**LATE, health=["uneven_kernels"]),
        confidence="high", lacks=["another program"],
    ),
    "a device that would bound the run as recorded, too": Judged(
        evidence=evidence(**RECORDED, host_gain=0.04, device_gain=0.4),
        confidence="high",
    ),
    "a device that bounds the run only without the recorder": Judged(
        evidence=evidence(**RECORDED, host_gain=0.04, device_gain=0.1),
        confidence="low",
    ),
    "a device that is busier than the window is long without the recorder": Judged(
        evidence=evidence(**RECORDED | {"busy": 0.95}, host_gain=0.2, device_gain=0.4),
        lacks=["streams"],
    ),
    "a few ops": Judged(
        evidence=evidence(busy=0.9, ops=3, device_gain=0.45),
        confidence="low",
    ),
    "few ops that repeat in each step": Judged(
        evidence=evidence(
            **LATE, ops=3, removed={"unrecorded-time": 0.8}, units=STEPS,
        ),
        regime="overhead-bound", confidence="medium", lacks=["too few"],
    ),
    "Python that nobody recorded": Judged(
        evidence=evidence(**PYTHON, idle=late_for(python_ms=20, untraced_ms=70)),
        confidence="medium", says=["70 ms of it nothing was recorded"],
    ),
    "a span of which much is in no step": Judged(
        evidence=evidence(
            **LATE, window=STEP, windows=[gpu_active("compute-bound")],
            steps=[
                period(window("step", str(at), at * MS, (at + 15) * MS), "overhead-bound")
                for at in (0, 20)
            ],
        ),
        says=[
            "The GPU-active span alone would be compute-bound by math: 40.0 % of it is in no step.",
        ],
    ),
    "windows that agree": Judged(
        evidence=evidence(**PYTHON, window=STEP, windows=[gpu_active("overhead-bound")]),
        confidence="high",
    ),
    "windows that disagree": Judged(
        evidence=evidence(**PYTHON, window=STEP, windows=[gpu_active("compute-bound")]),
        confidence="low", says=["The GPU-active span alone would be compute-bound by math"],
    ),
    "windows that disagree and have one cause": Judged(
        evidence=evidence(
            **TURNS | {"removed": {"communication": 0.5}}, window=STEP,
            windows=[replace(gpu_active("compute-bound"), bottleneck="communication")],
        ),
        bottleneck="communication", says=["The GPU-active span alone would be compute-bound."],
    ),
    "communication that may be waiting, beyond the margin": Judged(
        evidence=communicating(ms=38),
        confidence="low",
    ),
    "little communication that may be waiting": Judged(
        evidence=communicating(ms=5),
        confidence="high",
    ),
    "one marked step": Judged(
        evidence=evidence(**LATE, window=STEP, units=[ONE_STEP]),
        confidence="medium", says=["One step is marked, with 5 passes"],
    ),
    "several marked steps": Judged(
        evidence=evidence(**LATE, window=STEP, units=STEPS),
        confidence="high",
    ),
    "one marked step of a host without a device": Judged(
        evidence=replace(host_evidence(compute_ms=5, dispatch_ms=90), units=[ONE_STEP]),
        confidence="medium", says=["One step is marked, with 5 passes"],
    ),
    "several marked steps of a host without a device": Judged(
        evidence=replace(
            host_evidence(compute_ms=5, dispatch_ms=90), units=STEPS,
        ),
        confidence="high",
    ),
    "passes of two lengths": Judged(
        evidence=passes(118, 116, 1_015, 1_068), says=["The passes are not alike: 2 take"],
    ),
    "passes of about the same length": Judged(
        evidence=passes(237, 238, 242, 245), lacks=["The passes are not alike"],
    ),
    # It is a start, or an event that happened once.
    "one long pass": Judged(
        evidence=passes(900, 120, 118, 116), lacks=["The passes are not alike"],
    ),
    "long passes that are cold": Judged(
        evidence=passes(1_015, 1_068, 118, 116, cold=2), lacks=["The passes are not alike"],
    ),
    "passes of a host that runs ahead of its device": Judged(
        evidence=passes(
            13, 14, 140, 145, busy=1, host_gain=0, device_gain=0.5, removed={"math": 0.5},
            launch=launch(delay_ns=9 * MS, queue_depth=90),
        ),
        regime="compute-bound", lacks=["The passes are not alike"],
    ),
    "a step of as many ops that computes far less": Judged(
        evidence=with_step(ops=1000, busy_ms=40), says=["computes 50 ms less in as many GPU ops"],
    ),
    "a step of as many ops that computes hardly less": Judged(
        evidence=with_step(ops=1000, busy_ms=80), lacks=["less in as many GPU ops"],
    ),
    "a step of fewer ops that computes far less": Judged(
        evidence=with_step(ops=500, busy_ms=40), lacks=["less in as many GPU ops"],
    ),
    "a single pass with work before its first op": Judged(
        evidence=evidence(**LED, units=ONE_PASS),
        confidence="low",
        says=[
            "Counting the 50 ms before the first GPU op, the run would be overhead-bound by python."
        ],
    ),
    "a single pass with work before its first op that hardly turns the verdict": Judged(
        evidence=evidence(**LED | {"windows": [BARELY]}, units=ONE_PASS),
        confidence="low", says=["the run would be overhead-bound by python, if only just."],
    ),
    "many passes with work before the first op": Judged(
        evidence=evidence(**LED, units=[replace(ONE_PASS[0], count=20)]),
        lacks=["Counting the 50 ms before", "Not judged"],
    ),
    "three units of different work": Judged(
        evidence=evidence(**LATE, window=STEP, units=UNLIKE), confidence="medium",
        says=["No second pass like it was recorded"],
    ),
    "three marked steps of different work": Judged(
        evidence=evidence(
            **LATE, window=STEP, units=[replace(each, source="mark") for each in UNLIKE]
        ),
        confidence="high", lacks=["No second"],
    ),
    "three units of different work, of which one recurs": Judged(
        evidence=evidence(
            **LATE, window=STEP, units=[replace(UNLIKE[0], count=4), *UNLIKE[1:]]
        ),
        confidence="high", lacks=["No second"],
    ),
}  # fmt: skip
