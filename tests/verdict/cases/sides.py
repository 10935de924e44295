"""Which side holds a run up, and the bottleneck: evidence, and the verdict on it."""

from tests.kit.evidenced import (
    DEVICE_DOES,
    HOST_DOES,
    LATE,
    MS,
    RECORDED,
    SPLIT,
    TURNS,
    TURNS_ARE,
    Judged,
    evidence,
    gpu,
    late_for,
    window,
    with_links,
)
from tracekit.evidence.model import Account

TIED = {"host_gain": 0.01, "device_gain": 0.02, "work": {"math": 60, "memory-bandwidth": 40}}
GAPS = {"busy": 0.45, "host_gain": 0.27}
SLOW_HOST = {"busy": 0.6, "host_gain": 0.15, "flip": 1.3, "removed": {"dispatch": 0.15}}

CASES = {
    # The host dispatches without a pause: faster kernels gain nothing.
    "a busy device whose host is never idle": Judged(
        evidence=evidence(busy=0.86, host_gain=0.2, device_gain=0.01, removed={"dispatch": 0.2}),
        regime="overhead-bound", says=["waiting time alone"],
    ),
    "a busy device of which half the work gains nothing": Judged(
        evidence=evidence(busy=0.86, host_gain=0.2, device_gain=0.0, removed={"dispatch": 0.2}),
        regime="overhead-bound", lacks=["waiting time alone"],
    ),
    "waits that end while the device idles for other reasons": Judged(
        evidence=evidence(busy=0.07, host_gain=0.45, removed={"sync": 0.9, "python": 0.5}),
        bottleneck="python", says=["sync 7.0 %"],
    ),
    "a host that waits longer where nothing was recorded": Judged(
        evidence=evidence(
            busy=0.5, host_gain=0.25, removed={"dispatch": 0.4, "python": 0.45},
            idle=late_for(untraced_ms=45),
        ),
        bottleneck="dispatch",
        begins=f"The host holds this run up: {HOST_DOES['dispatch']}.",
        notes=["The GPU waits longer (45 ms) while nothing was recorded on the host."],
    ),
    **{
        f"a host of which nothing was recorded between its {calls}": Judged(
            evidence=evidence(
                busy=0.5, host_gain=0.25, removed={"python": 0.45}, work={"dispatch": dispatch_ns},
                idle=late_for(untraced_ms=45),
            ),
            bottleneck="python",
            begins=f"The host holds this run up: {HOST_DOES[guess]} (45 of 100 ms).",
        )
        for calls, dispatch_ns, guess in (
            ("operators", 9 * MS, "guessed-python"), ("launches", 0, "guessed-calls"),
        )
    },
    "a long call that is a small part of a run": Judged(
        evidence=with_links(
            evidence(busy=0.5, host_gain=0.05, removed={"dispatch": 0.06}, flip=1.3),
            {"cause": "dispatch", "dur_ns": 4 * MS, "name": "aten::mm"},
        ),
        bottleneck="dispatch",
        begins=f"The host holds this run up: {HOST_DOES['dispatch']}.",
        notes=[
            "The waits for Python take longer (50 ms), but without them the GPU would wait for "
            "other work."
        ],
    ),
    "a busy side whose halving gains nothing": Judged(
        evidence=evidence(
            busy=0.95, host_gain=0.03, work={"math": 90, "python": 50}, removed={"python": 0.02},
        ),
        regime="overhead-bound", bottleneck="python", confidence="low",
        says=["Half the host's work"],
    ),
    "a gain below zero": Judged(
        evidence=evidence(busy=0.1, host_gain=0.4, device_gain=-0.03, removed={"python": 0.4}),
        says=["half the device's, no shorter"],
    ),
    # Copies are on the critical path by chance; the device spends its time on math.
    "a cause that gains next to nothing": Judged(
        evidence=evidence(
            busy=0.95, host_gain=0.01, device_gain=0.02, removed={"copy": 0.001},
            work={"math": 90 * MS, "copy": 1 * MS},
        ),
        regime="compute-bound", bottleneck="math",
    ),
    "a faster host gains no more than the idle time": Judged(
        evidence=evidence(
            busy=0.97, host_gain=0.3, device_gain=0.1, removed={"math": 0.2, "python": 0.4},
        ),
        regime="compute-bound", says=["idles for only 3.0 %"],
    ),
    "a limit of kernels in two parts, against communication": Judged(
        evidence=evidence(busy=0.98, device_gain=0.4, removed=SPLIT),
        bottleneck="memory-bandwidth",
    ),
    "a limit of kernels in two parts, against more communication": Judged(
        evidence=evidence(busy=0.98, device_gain=0.4, removed=SPLIT | {"communication": 0.3}),
        bottleneck="communication",
    ),
    "causes that gain the same because the host comes next": Judged(
        evidence=evidence(
            busy=0.95, device_gain=0.2, flip=1.3, removed={"math": 0.2, "memory-bandwidth": 0.2},
            work={"math": 30 * MS, "memory-bandwidth": 60 * MS},
        ),
        bottleneck="memory-bandwidth",
        begins=f"{DEVICE_DOES['memory-bandwidth'].format('95 of 100 ms')}.",
    ),
    "a busy device where neither half gains": Judged(
        evidence=evidence(busy=0.99, **TIED),
        regime="compute-bound", bottleneck="math", confidence="low", says=["no slack"],
    ),
    "an idle device where neither half gains": Judged(
        evidence=evidence(busy=0.2, **TIED),
        regime="overhead-bound",
    ),
    "unexplained waits that could turn the verdict": Judged(
        evidence=evidence(host_gain=0.1, device_gain=0.05, unknown=0.5),
        regime="unknown",
    ),
    "unexplained waits in a run of which a part repeats": Judged(
        evidence=evidence(
            host_gain=0.1, device_gain=0.05, unknown=0.5,
            repeating=Account(
                window=window("range", "50 passes", 0, 50 * MS),
                gpu=gpu(ops=500, busy_ns=40 * MS, comm_ns=35 * MS, idle_ns=10 * MS),
            ),
        ),
        regime="unknown",
        says=[
            "Its work repeats, 50 passes of 50 ms in the median: 70.0 % communication that nothing "
            "covers, 20.0 % idle, 10.0 % compute.",
        ],
    ),
    # Even if the host caused them, the device's work outweighs them.
    "unexplained waits that could not turn the verdict": Judged(
        evidence=evidence(busy=0.7, host_gain=0.02, device_gain=0.35, unknown=0.25),
        regime="compute-bound", says=["does not explain"],
    ),
    "two sides that take turns": Judged(
        evidence=evidence(**TURNS),
        regime="overhead-bound", confidence="low",
        says=[
            f"take turns (53 and 47 of 100 ms): {TURNS_ARE['input']}",
            "save at most 47.0 %",
        ],
    ),
    # The cause that the first piece of advice is against gives the reason.
    "two sides that take turns, and advice on the host": Judged(
        evidence=evidence(**TURNS, advised="sync", advised_share=0.2),
        bottleneck="sync", says=[TURNS_ARE["sync"]],
    ),
    "two sides that take turns, and advice on the device": Judged(
        evidence=evidence(**TURNS, advised="math", advised_share=0.2),
        bottleneck="input", says=[TURNS_ARE["input"]],
    ),
    "kernels that are too small, and a host that is late": Judged(
        evidence=evidence(busy=0.8, device_gain=0.4, removed={"latency": 0.6}),
        bottleneck="latency", begins=DEVICE_DOES["small"].format("80 of 100 ms"),
        lacks=["idle_gaps"],
    ),
    "time in which nothing was recorded, and hardly less dispatch": Judged(
        evidence=evidence(**LATE, removed={"unrecorded-time": 0.5, "dispatch": 0.45}),
        bottleneck="dispatch", confidence="high",
    ),
    "waits whose removal saves more than that of the work between them": Judged(
        evidence=evidence(
            **LATE, removed={"dispatch": 0.5, "sync": 0.01}, advised="sync", advised_share=0.6,
        ),
        bottleneck="sync", begins=f"The host holds this run up: {HOST_DOES['sync']}.",
        says=["Removing sync would save at most 60.0 %"],
    ),
    "waits whose removal saves less than that of the work between them": Judged(
        evidence=evidence(
            **LATE, removed={"dispatch": 0.5, "sync": 0.01}, advised="sync", advised_share=0.4,
        ),
        bottleneck="dispatch", says=["Removing other causes: sync 40.0 %"],
    ),
    "waits that cost more than half of the host's work": Judged(
        evidence=evidence(
            **LATE, removed={"dispatch": 0.6, "sync": 0.5}, advised="sync", advised_share=0.5,
        ),
        bottleneck="sync", begins=f"The host holds this run up: {HOST_DOES['sync']}.",
    ),
    "long gaps that nothing explains": Judged(
        evidence=evidence(**GAPS, ops=100, idle=late_for(python_ms=25, device_ms=30)),
        regime="unknown",
        says=["For 30.0 % of the window, the GPU waits although work is launched, which"],
    ),
    "long gaps that nothing explains among many ops": Judged(
        evidence=evidence(**GAPS, ops=4_000, idle=late_for(python_ms=25, device_ms=30)),
        regime="overhead-bound",
    ),
    "a host that is late only while it is recorded": Judged(
        evidence=evidence(**RECORDED, host_gain=0.03, device_gain=0.09),
        regime="compute-bound", confidence="low",
        begins=DEVICE_DOES["memory-bandwidth"].format("83 of 100 ms"),
        says=[
            "Recording took about 8 % of it",
            "Without the profiler's cost, half the host's work makes the GPU-active span 3.0 % "
            "shorter",
        ],
    ),
    "a host and a device that are even once they are not recorded": Judged(
        evidence=evidence(
            **RECORDED | {"busy": 0.8}, host_gain=0.03, device_gain=0.01,
            removed={"dispatch": 0.11, "math": 0.02},
        ),
        regime="overhead-bound", bottleneck="dispatch", confidence="low",
        begins=(
            "Host and GPU are about even: without the profiler, halving the host's work would gain "
            "3.0 %, halving the GPU's 1.0 %."
        ),
    ),
    "a busy device whose host is 1.43 times as slow while it is recorded": Judged(
        evidence=evidence(**SLOW_HOST, recorder_ns=30 * MS),
        regime="overhead-bound", bottleneck="dispatch",
        begins=(
            "The host holds this run up while it is recorded; without the profiler, the GPU would "
            "be busy for about 85.7 % of the time."
        ),
        notes=["Without the profiler, the host can give back at most 10 ms."],
    ),
    "a busy device whose host is 1.25 times as slow while it is recorded": Judged(
        evidence=evidence(**SLOW_HOST, recorder_ns=20 * MS),
        regime="overhead-bound", bottleneck="dispatch",
        begins=f"The host holds this run up: {HOST_DOES['dispatch']}.",
    ),
}  # fmt: skip
