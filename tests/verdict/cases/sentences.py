"""What the first sentence and the reasons say: evidence, and the verdict on it."""

from tests.kit.evidenced import (
    DEVICE_DOES,
    HOST_DOES,
    LATE,
    LIMITS,
    LONG,
    MS,
    PYTHON,
    SPLIT,
    Judged,
    evidence,
    gpu,
    late_for,
    period,
    with_gains,
    with_links,
)
from tracekit.evidence.model import OneOffEvent, RankWait

NIL = evidence(**LATE, work={"dispatch": 60}, removed={"dispatch": 0.0})
SWITCHES = {
    "kineto": "record_shapes=True", "nsys": "--pytorch=autograd-shapes-nvtx",
    "rocprofv3": "rocprofv3 records none", "jax": "its profiler records none",
    "perfetto": "record_shapes=True",
}  # fmt: skip


def launching(*, longest_ms):
    link = {"cause": "launch", "name": "hipLaunchKernel", "dur_ns": longest_ms * MS}
    return with_links(evidence(**LATE, removed={"launch": 0.8}), link)


def happened_once():
    event = OneOffEvent(
        start_ns=0, dur_ns=90 * MS, usual_ns=10 * MS, excess_ns=80 * MS, kind="stretch",
        side="host", cause="launch", name="cudaLaunchKernel", place=None,
    )  # fmt: skip
    return with_gains(evidence(**PYTHON, one_offs=[event]), window_ns=20 * MS, one_offs_ns=80 * MS)


def waits_for_rank(*, ms):
    return RankWait(type="alltoall", count=1, wait_ns=ms * MS)


CASES = {
    "a close call that the host loses": Judged(
        evidence=evidence(host_gain=0.09, device_gain=0.04, removed={"python": 0.1}),
        begins=f"The host holds this run up: {HOST_DOES['python']} (50 of 100 ms).",
    ),
    "a close call that the device loses": Judged(
        evidence=evidence(busy=0.9, host_gain=0.06, device_gain=0.09),
        says=["a close call"],
    ),
    "a verdict that flips at some speed": Judged(
        evidence=evidence(busy=0.1, host_gain=0.4, flip=2.3),
        says=["2.3 times faster"],
    ),
    "a verdict that flips at a speed beyond any meaning": Judged(
        evidence=evidence(busy=0.1, host_gain=0.4, flip=47.0),
        lacks=["times faster"],
    ),
    "one long operator of a cause that gains nothing if it is removed": Judged(
        evidence=with_links(
            NIL, {"cause": "dispatch", "name": "CompiledFunction", "dur_ns": 8 * MS},
        ),
        says=[HOST_DOES["dispatch"]], lacks=["CompiledFunction"],
    ),
    "causes of which none leads": Judged(
        evidence=evidence(busy=0.98, device_gain=0.4, removed=SPLIT),
        begins=(
            f"The GPU holds this run up, busy for 98 of 100 ms: {LIMITS['communication']} and "
            f"{LIMITS['memory-bandwidth']} limit it alike."
        ),
    ),
    "small kernels without gaps, and another cause": Judged(
        evidence=evidence(
            busy=0.98, device_gain=0.4, removed={"latency": 0.12, "memory-bandwidth": 0.11},
        ),
        begins=(
            f"The GPU holds this run up, busy for 98 of 100 ms: {LIMITS['small']} and "
            f"{LIMITS['memory-bandwidth']} limit it alike."
        ),
    ),
    "four causes of which none leads": Judged(
        evidence=evidence(
            busy=0.98, device_gain=0.4,
            removed={
                "latency": 0.12, "memory-bandwidth": 0.12, "communication": 0.12, "copy": 0.12,
            },
        ),
        begins="The GPU holds this run up, busy for 98 of 100 ms: no single cause leads.",
    ),
    "kernels of unknown limit": Judged(
        evidence=evidence(
            busy=0.98, device_gain=0.4, removed={"math-or-memory": 0.4},
            dominant="matrix products take 66.0 % of kernel time",
        ),
        begins=DEVICE_DOES["math-or-memory"].format("98 of 100 ms"),
        says=["Matrix products take 66.0 % of kernel time."],
    ),
    "long kernels of few blocks, and a remedy for them": Judged(
        evidence=evidence(
            busy=0.98, device_gain=0.4, removed={"latency": 0.6}, advised="latency",
            advised_share=0.5, advised_remedy="fill-the-device",
        ),
        begins=DEVICE_DOES["fill-the-device"].format("98 of 100 ms"),
    ),
    "time in which nothing was recorded, and Python": Judged(
        evidence=evidence(**LATE, removed={"unrecorded-time": 0.6, "python": 0.3}),
        bottleneck="unrecorded-time", confidence="medium",
        begins=f"The host holds this run up: {HOST_DOES['unrecorded-time']} (60 of 100 ms).",
    ),
    "time in which nothing was recorded, and short stretches that count as Python": Judged(
        evidence=evidence(
            **LATE, removed={"unrecorded-time": 0.5, "python": 0.3},
            idle=late_for(python_ms=10, untraced_ms=60),
        ),
        bottleneck="unrecorded-time", says=[f"{HOST_DOES['unrecorded-time']} (60 of 100 ms)."],
    ),
    "time in which nothing was recorded but on other threads": Judged(
        evidence=evidence(
            **LATE, removed={"unrecorded-time": 0.6, "python": 0.3},
            meanwhile=[
                {"name": "api.py(3): block", "activity": "python", "share": 0.6},
                {"name": "execute", "activity": "dispatch", "share": 0.5},
                {"name": "allocations", "activity": "allocation", "share": 0.35},
            ],
        ),
        bottleneck="unrecorded-time",
        notes=["Recorded meanwhile: allocations (35.0 % of that) and block (60.0 % of that)."],
    ),
    "time in which nothing was recorded, most of it before one operator": Judged(
        evidence=evidence(
            **LATE, removed={"unrecorded-time": 0.6},
            holes=[
                {"next_name": "aten::lift_fresh", "last_name": "aten::mm", "holes": 15,
                 "idle_ns": 55 * MS, "share": 0.9, "shortest_ns": 13 * MS, "longest_ns": 49 * MS},
                {"next_name": "aten::add", "last_name": None, "holes": 2, "share": 0.1,
                 "shortest_ns": 1 * MS, "longest_ns": 2 * MS},
            ],
        ),
        bottleneck="unrecorded-time",
        says=[
            "15 of 17 stretches of a millisecond or more in which nothing was recorded while "
            "the GPU waited end with aten::lift_fresh, most of them after aten::mm: 13 ms to 49 ms "
            "each."
        ],
    ),
    "time in which nothing was recorded, at no place more than twice": Judged(
        evidence=evidence(
            **LATE, removed={"unrecorded-time": 0.6},
            holes=[
                {"next_name": "aten::lift_fresh", "last_name": None, "holes": 2, "share": 0.9,
                 "shortest_ns": 13 * MS, "longest_ns": 49 * MS},
            ],
        ),
        bottleneck="unrecorded-time", lacks=["aten::lift_fresh"],
    ),
    "a launch that takes more than all others": Judged(
        evidence=launching(longest_ms=41),
        begins="The host holds this run up: one call, hipLaunchKernel, takes 41 of 100 ms",
    ),
    "a launch that takes no more than others": Judged(
        evidence=launching(longest_ms=39),
        begins=f"The host holds this run up: {HOST_DOES['launch']}.",
    ),
    "a window that mostly happened once": Judged(
        evidence=happened_once(),
        begins="Start-up took 80 of 100 ms, mostly one cudaLaunchKernel call (80 ms).",
        notes=[f"In the other 20 ms, the host holds this run up: {HOST_DOES['python']}."],
    ),
    # Halving the device's work gains half of the wait.
    "a collective that waits for another rank": Judged(
        evidence=evidence(
            busy=0.5, host_gain=0.2, device_gain=0.22,
            gpu=gpu(busy_ns=50 * MS, comm_ns=42 * MS, idle_ns=50 * MS),
            removed={"communication": 0.42, "dispatch": 0.3}, rank_wait=waits_for_rank(ms=40),
        ),
        bottleneck="communication",
        begins="This rank waits 40 of 100 ms in one all-to-all, probably for a later rank.",
        notes=[f"Apart from that, the host holds this run up: {HOST_DOES['dispatch']}."],
    ),
    "a collective that waits for another rank, and advice on the host's waits": Judged(
        evidence=evidence(
            busy=0.5, host_gain=0.3, gpu=gpu(busy_ns=50 * MS, comm_ns=30 * MS, idle_ns=50 * MS),
            removed={"dispatch": 0.3}, advised="sync", advised_share=0.4,
            rank_wait=waits_for_rank(ms=20),
        ),
        bottleneck="sync",
        notes=[f"Apart from that, the host holds this run up: {HOST_DOES['sync']}."],
    ),
    "a collective whose wait for a rank is a smaller part": Judged(
        evidence=evidence(
            busy=0.3, host_gain=0.35, gpu=gpu(busy_ns=30 * MS, comm_ns=15 * MS, idle_ns=70 * MS),
            removed={"dispatch": 0.6, "communication": 0.15}, rank_wait=waits_for_rank(ms=12),
        ),
        bottleneck="dispatch",
        begins=f"The host holds this run up: {HOST_DOES['dispatch']}.",
        notes=["This rank waits 12 of 100 ms in one all-to-all, probably for a later rank."],
    ),
    "collectives that hardly wait": Judged(
        evidence=evidence(
            **LATE,
            rank_wait=RankWait(type="", count=9, wait_ns=9 * MS),
        ),
        begins="The host holds this run up",
    ),
    **{
        f"shapes that {profiler} did not record": Judged(
            evidence=evidence(
                busy=1, device_gain=0.5, removed={"math-or-memory": 0.5}, profiler=profiler
            ),
            says=[switch], lacks=["{"],
        )
        for profiler, switch in SWITCHES.items()
    },
    "a span that starts late, which another sentence says": Judged(
        evidence=evidence(
            busy=1, device_gain=0.5, removed={"math": 0.5}, health=["started_late"],
            windows=[period(LONG, "unknown")],
        ),
        lacks=["Not judged"],
    ),
    "a span that starts with its first launch": Judged(
        evidence=evidence(
            busy=1, device_gain=0.5, removed={"math": 0.5}, windows=[period(LONG, "unknown")],
        ),
        says=["Not judged"],
    ),
    "work in less than half of the trace": Judged(
        evidence=evidence(**PYTHON, windows=[period(LONG, "overhead-bound")]),
        says=[
            "Not judged: 150 ms before the first GPU op and 200 ms after the last GPU op, in a "
            "trace of",
        ],
    ),
}  # fmt: skip
