"""Judgement: the verdict on clear, close, doubtful and unexplained traces."""

import csv
import re
from importlib.resources import files

import pytest
from msgspec.structs import asdict, replace

from tests.kit.evidenced import MS, SPAN_NS, WINDOW, evidence, gpu, host_evidence, judge
from tracekit.causes import RECORDERS, words
from tracekit.errors import TracekitError
from tracekit.evidence.model import (
    Evidence,
    Finding,
    Idle,
    Launch,
    OneOffEvent,
    Period,
    RankWait,
    Repeating,
    Repetition,
    Window,
)
from tracekit.thresholds import FORMER, Thresholds
from tracekit.verdict.doubts import DOUBTS
from tracekit.verdict.once import longest_once, without_once
from tracekit.verdict.regime import bound_by, steady_busy_ns


@pytest.mark.parametrize(
    ("regime", "given", "beside", "causes"),
    [
        ("overhead-bound", {"busy": 0.1, "host_gain": 0.45}, "latency",
         "launch dispatch python sync input allocation compilation copy"),
        ("compute-bound", {"busy": 0.95, "device_gain": 0.45}, "python",
         "communication copy memory-bandwidth math math-or-memory latency sync"),
    ],
)  # fmt: skip
def test_a_run_that_gains_by_a_faster_side_is_blamed_on_that_sides_work(
    regime, given, beside, causes
):
    for cause in causes.split():
        verdict = judge(evidence(**given, removed={beside: 0.99, cause: 0.8}))
        assert (verdict.regime, verdict.bottleneck) == (regime, cause)
        assert verdict.confidence == "high"
        assert abs(verdict.margin) == pytest.approx(0.45)
        # A wait for a device costs at most its idle time, and what the host may have waited.
        most_ns = round(100 * min(given["busy"], 1 - given["busy"])) * MS if cause == "sync" else 0
        savings = {each.remove: each.saves_at_most_ns for each in verdict.savings}
        assert savings[cause] == (most_ns or 80 * MS)


def period(window, regime, cause=None, **known):
    """A window of the trace, judged."""
    absent = dict.fromkeys(("gpu", "idle", "host", "gains"))
    return Period(window=window, regime=regime, bottleneck=cause, **absent | known)


def gpu_active(regime):
    return period(Window("gpu_active", "gpu_active", 0, 50 * MS, 50 * MS), regime, "math")


def late_for(python_ms, device_ms=0, untraced_ms=0):
    """Idle time in which the host is late: what it does, and the time that nothing explains."""
    late = (python_ms + untraced_ms) * MS
    causes = {"python": python_ms * MS, "untraced": untraced_ms * MS}
    return Idle(late, device_ms * MS, 0, 0, 0, causes, late)


def linked_ops(count, gap_ms, busy=0.3, host_gain=0.4):
    gained = {"busy": busy, "host_gain": host_gain, "device_gain": 0.02}
    found = evidence(health=["unlinked_gpu_ops"], **gained, removed={"python": 0.6})
    idle = replace(found.idle, unlinked_ns=gap_ms * MS)
    return replace(found, gpu=replace(found.gpu, gpu_ops=50, linked=count), idle=idle)


def communicating(ms):
    device = gpu(1000, 45 * MS, ms * MS, idle_ns=55 * MS)
    return evidence(busy=0.45, host_gain=0.36, device_gain=0.06, gpu=device)


def happened_once():
    load = OneOffEvent(
        0, 90 * MS, 10 * MS, 80 * MS, "stretch", "host", "launch", "cudaLaunchKernel", None
    )
    found = evidence(**PYTHON, one_offs=[load])
    gains = replace(found.causal.gains, window_ns=20 * MS, one_offs_ns=80 * MS)
    return replace(found, causal=replace(found.causal, gains=gains))


def once_only(window):
    """A window of which nothing is left to judge."""
    found = evidence(window=window)
    gains = replace(found.causal.gains, window_ns=0)
    return replace(found, causal=replace(found.causal, gains=gains))


def launching(longest_ms):
    found = evidence(**LATE, removed={"launch": 0.8})
    link = {"cause": "launch", "name": "hipLaunchKernel", "dur_ns": longest_ms * MS}
    return replace(found, causal=replace(found.causal, links=[link]))


@pytest.mark.parametrize(("priced_ms", "left"), [(45, "dispatch"), (20, None), (90, None)])
def test_the_longest_wait_is_a_one_off_if_a_remedy_against_one_offs_prices_it(priced_ms, left):
    found = evidence(**LATE, removed={"launch": 0.65, "dispatch": 0.3})
    link = {"cause": "launch", "name": "hipLaunchKernel", "start_ns": 5, "dur_ns": 50 * MS}
    link |= dict.fromkeys(("event_id", "cpu_op", "module", "python_line"))
    causal = replace(found.causal, links=[link])
    known = {"gpu": found.gpu, "idle": found.idle, "gains": causal.gains}
    judged = period(found.window, "overhead-bound", "launch", **known)
    event = longest_once(judged, causal, priced_ms * MS, 0, Thresholds())
    assert (event is not None) == (left is not None)
    if event is not None:
        rest = without_once(causal, event)
        verdict = judge(replace(found, causal=rest, one_offs=[event]))
        assert verdict.bottleneck == left
        assert rest.gains.window_ns == 50 * MS
        assert verdict.savings[0].saves_at_most_ns == 30 * MS


def on_host(found, *health, **host_ns):
    return replace(found, host=replace(found.host, **host_ns), health=list(health))


UNRECORDED = host_evidence(30, dispatch=20, python=15, untraced=20, launches=420)
CUT = Finding("truncated", "error", "the end is missing: it stops inside an event", 1)
LATE = {"busy": 0.1, "host_gain": 0.45}
PYTHON = LATE | {"removed": {"python": 0.8}}
TIED = {"host_gain": 0.01, "device_gain": 0.02, "work": {"math": 60, "memory-bandwidth": 40}}
TURNS = {"busy": 0.47, "host_gain": 0.26, "device_gain": 0.23, "removed": {"input": 0.5}}
GAPS = {"busy": 0.45, "host_gain": 0.27}
RECORDED = {
    "busy": 0.83, "recorder_ns": 8 * MS, "work": {"memory-bandwidth": 50 * MS},
    "health": [Finding("recorder_cost", "info", "recording took about 8 % of it", 1, 8 * MS)],
}  # fmt: skip
SLOWED = {
    "recorder_ns": 20 * MS, "removed": {"dispatch": 0.6},
    "health": [Finding("recorder_cost", "info", "recording took about 20 % of it", 1, 20 * MS)],
}  # fmt: skip
STEP = Window("step", "ProfilerStep#1", 0, SPAN_NS, SPAN_NS)


def stepping(alike, other, longer):
    """Steps as the judged one, and one with another regime that is longer."""
    long = Window("step", "ProfilerStep#9", SPAN_NS, (1 + longer) * SPAN_NS, longer * SPAN_NS)
    return [
        *[period(STEP, "overhead-bound", "python")] * alike,
        period(long, other, "math"),
    ]


PASSES = Repetition(1000, 1000, 1, 50, 0, 5)
WHOLE = Window("trace", "whole trace", -50 * MS, SPAN_NS, 150 * MS)
LONG = Window("trace", "whole trace", -150 * MS, SPAN_NS + 200 * MS, SPAN_NS + 350 * MS)
LED = {
    "busy": 0.95, "device_gain": 0.45,
    "windows": [period(WHOLE, "overhead-bound", "python")],
}  # fmt: skip
BARELY = replace(
    LED["windows"][0], gpu=gpu(1000, 90 * MS, idle_ns=60 * MS), idle=late_for(60),
    gains=replace(evidence(host_gain=0.10, device_gain=0.07).gains, window_ns=150 * MS),
)  # fmt: skip
SPLIT = {"communication": 0.13, "memory-bandwidth": 0.11, "math": 0.08}
NIL = evidence(**LATE, work={"dispatch": 60}, removed={"dispatch": 0.0})
UNLINKED = replace(
    evidence(busy=0.3, unknown=0.6),
    gpu=replace(gpu(1000, 30 * MS, idle_ns=70 * MS), linked=0),
    idle=Idle(0, 0, 0, 70 * MS, 0, {}, 0),
)
DOUBTED = (
    "shared_file", "unlinked_gpu_ops", "graph_without_kernels", "starts_before_launch",
)  # fmt: skip
SWITCHES = {
    "kineto": "record_shapes=True", "nsys": "--pytorch=autograd-shapes-nvtx",
    "rocprofv3": "rocprofv3 records none", "jax": "its profiler records none",
    "perfetto": "record_shapes=True",
}  # fmt: skip
# Cases by title: the evidence; the expected regime, bottleneck and confidence, as far as they
# matter; and words that the verdict has, begins with ("^ ...") or lacks ("not ...").
JUDGED = {
    # The host dispatches without a pause: faster kernels gain nothing.
    "a busy device does not make a run compute-bound": (
        evidence(busy=0.86, host_gain=0.2, device_gain=0.01, removed={"dispatch": 0.2}),
        "overhead-bound", "By time alone",
    ),
    "a busy device of which half the work gains nothing": (
        evidence(busy=0.86, host_gain=0.2, device_gain=0.0, removed={"dispatch": 0.2}),
        "overhead-bound", "not By time alone",
    ),
    "a close call": (
        evidence(host_gain=0.24, device_gain=0.20, removed={"python": 0.3}), "low", "close call",
    ),
    "a close call that the host loses": (
        evidence(host_gain=0.09, device_gain=0.04, removed={"python": 0.1}), "",
        "^ The host holds this run up, with the GPU close behind: it runs Python",
    ),
    "a close call that the device loses": (
        evidence(busy=0.9, host_gain=0.06, device_gain=0.09), "", "the host close behind",
    ),
    "one in which the host hardly gains": (
        evidence(busy=0.96, host_gain=0.3, device_gain=0.09), "", "not close behind",
    ),
    "no close call": (
        evidence(busy=0.1, host_gain=0.4, removed={"python": 0.4}), "", "not close behind",
    ),
    "the verdict flips at some speed": (
        evidence(busy=0.1, host_gain=0.4, flip=2.3), "", "2.3 times faster",
    ),
    "it flips beyond any meaning": (
        evidence(busy=0.1, host_gain=0.4, flip=47.0), "", "not times faster",
    ),
    **{
        f"a trace with {code}": (evidence(**LATE, health=[code]), "medium", "")
        for code in DOUBTED
        if code != "unlinked_gpu_ops"
    },
    "a span of which much is in no step": (
        evidence(**LATE, window=STEP, windows=[gpu_active("compute-bound")], steps=[
            period(Window("step", name, at * MS, (at + 15) * MS, 15 * MS), "overhead-bound")
            for name, at in (("a", 0), ("b", 20))]), "",
        "The GPU-active span alone would be compute-bound by math: 40.0 % of it is in no step.",
    ),
    "host events that are most of the trace and are not analysed": (
        evidence(**LATE, health=[Finding("begin_end_events", "error", "events mark", 9)]),
        "unknown", "^ Events mark.",
    ),
    "a few of them": (
        evidence(**LATE, health=[Finding("begin_end_events", "warning", "events mark", 9)]),
        "overhead-bound", "not Events mark",
    ),
    "such events beside a device that is busy": (
        evidence(busy=0.95, device_gain=0.45,
                 health=[Finding("begin_end_events", "error", "events mark", 9)]),
        "compute-bound",
    ),
    "many durations that are negative": (
        evidence(**LATE, health=[Finding("negative_duration", "warning", "events are wrong", 60)]),
        "low", "^ Events are wrong.",
    ),
    "a few of them in a thousand": (
        evidence(**LATE, health=[Finding("negative_duration", "warning", "events are wrong", 6)]),
        "high", "not Events are wrong.",
    ),
    "one long operator of a cause that gains nothing if it is removed": (
        replace(NIL, causal=replace(NIL.causal, links=[
            {"cause": "dispatch", "name": "CompiledFunction", "dur_ns": 8 * MS}])), "",
        "it dispatches operators", "not CompiledFunction",
    ),
    "GPU ops and calls without a correlation": (
        replace(UNLINKED, has_calls=True), "unknown", "no GPU op has the correlation",
    ),
    "GPU ops without calls": (
        replace(UNLINKED, has_calls=False), "unknown", "Record the host's calls, too",
    ),
    "operators and GPU ops without calls": (
        replace(UNLINKED, has_calls=False, causal=replace(UNLINKED.causal, gains=replace(
            UNLINKED.causal.gains, work_ns={"dispatch": MS}))), "unknown",
        "Record the runtime's calls, too", "not Record the host's calls",
    ),
    "an overhead that what a cut took away may deny": (
        evidence(**LATE, health=[CUT]), "low", "^ The end is missing",
    ),
    "a busy device in a file that was cut off": (
        evidence(busy=0.95, device_gain=0.45, health=[CUT]), "medium",
    ),
    "waits that end while the device idles for other reasons": (
        evidence(busy=0.07, host_gain=0.45, removed={"sync": 0.9, "python": 0.5}),
        "python", "sync 7.0 %",
    ),
    "prompts between decoding steps": (
        evidence(**LATE, window=STEP, steps=stepping(3, "compute-bound", 6)), "low",
        "1 of the 4 steps, 66.7 % of their time, is compute-bound by math.",
    ),
    "long steps with the same regime and another bottleneck": (
        evidence(**PYTHON, window=STEP, steps=stepping(3, "overhead-bound", 6)), "",
        "1 of the 4 steps, 66.7 % of their time, is bound by math.",
    ),
    "a short step of another kind": (
        evidence(**LATE, window=STEP, steps=stepping(3, "compute-bound", 2)), "",
        "not of their time",
    ),
    "a long step that happened once": (
        evidence(**LATE, window=STEP, steps=stepping(3, "compute-bound", 6), one_offs=[
            OneOffEvent(0, MS, 0, MS, "step", "host", "python", "ProfilerStep#9", None)]), "",
        "not of their time",
    ),
    "a step that is long only by what happened once in it": (
        evidence(**PYTHON, window=STEP, steps=[
            *stepping(3, "overhead-bound", 2)[:3],
            replace(stepping(3, "overhead-bound", 6)[3], gains=replace(
                evidence().causal.gains, one_offs_ns=5 * SPAN_NS))]), "",
        "not of their time",
    ),
    "a device that may be busy, as recording often costs more than is sure": (
        evidence(**SLOWED | {"busy": 0.38}, host_gain=0.45), "medium",
        "Recording made the GPU-active span at least 20 ms longer, and often costs 2.5 times this "
        "least: without it, the GPU may be busy most of the time.",
    ),
    "a device that is not busy even so": (
        evidence(**SLOWED | {"busy": 0.2}, host_gain=0.45), "high", "not may be busy",
    ),
    "no doubt": (evidence(**LATE), "high", "not Without the profiler's cost"),
    "a mended clock": (
        evidence(**LATE, shift_ns=3_000), "medium", "3 us were added to the device's times",
    ),
    "dilation matters to overhead": (evidence(**LATE, health=["profiler_dilation"]), "medium"),
    "work that is faster than the device can be": (
        evidence(busy=0.95, health=["over_peak"], device_gain=0.45), "medium",
        "Work would run faster than the device can",
    ),
    "and to nothing else": (
        evidence(busy=0.95, health=["profiler_dilation"], device_gain=0.45), "high",
    ),
    "a device that would bound the run as recorded, too": (
        evidence(**RECORDED, host_gain=0.04, device_gain=0.4), "high",
    ),
    "a device that bounds the run only without the recorder": (
        evidence(**RECORDED, host_gain=0.04, device_gain=0.1), "low",
    ),
    "a host that waits longer where nothing was recorded": (
        evidence(busy=0.5, host_gain=0.25, removed={"dispatch": 0.4, "python": 0.45},
                 idle=late_for(0, 0, 45)),
        "dispatch",
        "^ The host holds this run up: it dispatches operators while the GPU waits; where nothing "
        "was recorded, the GPU waits at least as long.",
    ),
    **{
        f"a host of which nothing was recorded between its {calls}": (
            evidence(busy=0.5, host_gain=0.25, removed={"python": 0.45}, idle=late_for(0, 0, 45),
                     work={"dispatch": ns}),
            "python",
            "^ The host holds this run up: where nothing was recorded, it probably runs "
            f"{what} while the GPU waits.",
        )
        for calls, ns, what in (
            ("operators", 9 * MS, "Python"), ("launches", 0, "Python and operators"),
        )
    },
    "a long call that is a small part of a run": (
        evidence(busy=0.5, host_gain=0.05, removed={"dispatch": 0.06}, flip=1.3, causal=replace(
            evidence(busy=0.5, host_gain=0.05, removed={"dispatch": 0.06}).causal,
            links=[{"cause": "dispatch", "dur_ns": 4 * MS, "name": "aten::mm"}],
        )),
        "dispatch", "^ The host holds this run up, with the GPU close behind: it "
        "dispatches",
    ),
    "a device that is busier than the window is long without the recorder": (
        evidence(**RECORDED | {"busy": 0.95}, host_gain=0.2, device_gain=0.4), "", "not streams",
    ),
    "few ops are an anecdote": (evidence(busy=0.9, ops=3, device_gain=0.45), "low"),
    "few ops, and a host of which nothing was recorded": (
        evidence(**LATE, ops=3, removed={"unrecorded-time": 0.8}), "unknown none",
        "holds this run up: only 3 GPU ops were recorded, too few to represent a run.",
    ),
    "few ops, and a trace that is far longer": (
        evidence(**PYTHON, ops=3, windows=[period(LONG, "unknown")]),
        "unknown", "only 3 GPU ops were recorded, too few to represent a run.",
    ),
    "few ops that repeat in each step": (
        evidence(**LATE, ops=3, removed={"unrecorded-time": 0.8},
                 repetition=replace(PASSES, steps=3)),
        "overhead-bound medium", "not too few",
    ),
    "a busy side whose halving gains nothing": (
        evidence(busy=0.95, host_gain=0.03, work={"math": 90, "python": 50},
                 removed={"python": 0.02}),
        "overhead-bound python low",
        "Half the host's work",
    ),
    "a gain below nothing is none": (
        evidence(busy=0.1, host_gain=0.4, device_gain=-0.03, removed={"python": 0.4}), "",
        "half the device's, no shorter",
    ),
    # Copies are on the critical path by chance; the device spends its time on math.
    "a cause that gains next to nothing": (
        evidence(busy=0.95, host_gain=0.01, device_gain=0.02, removed={"copy": 0.001},
                 work={"math": 90 * MS, "copy": 1 * MS}),
        "compute-bound math",
    ),
    "a faster host gains no more than the idle time": (
        evidence(busy=0.97, host_gain=0.3, device_gain=0.1, removed={"math": 0.2, "python": 0.4}),
        "compute-bound", "idle for only 3.0 %",
    ),
    "what limits kernels is one part against communication": (
        evidence(busy=0.98, device_gain=0.4, removed=SPLIT), "memory-bandwidth",
    ),
    "causes of which none leads": (
        evidence(busy=0.98, device_gain=0.4, removed=SPLIT), "",
        "^ The GPU holds this run up: communication and memory limit it alike.",
    ),
    "small kernels without gaps, and another cause": (
        evidence(busy=0.98, device_gain=0.4, removed={"latency": 0.12, "memory-bandwidth": 0.11}),
        "", "^ The GPU holds this run up: small kernels and memory limit it alike.",
    ),
    "four causes of which none leads": (
        evidence(busy=0.98, device_gain=0.4, removed={
            "latency": 0.12, "memory-bandwidth": 0.12, "communication": 0.12, "copy": 0.12}), "",
        "^ The GPU holds this run up, and no single cause leads: communication, copies, memory, "
        "small kernels.",
    ),
    "causes that gain the same because the host comes next": (
        evidence(busy=0.95, device_gain=0.2, flip=1.3,
                 removed={"math": 0.2, "memory-bandwidth": 0.2},
                 work={"math": 30 * MS, "memory-bandwidth": 60 * MS}),
        "memory-bandwidth",
        "^ The GPU holds this run up: its kernels wait for memory; the host comes next, once the "
        "GPU is 1.3 times faster.",
    ),
    "kernels of unknown limit": (
        evidence(busy=0.98, device_gain=0.4, removed={"math-or-memory": 0.4},
                 dominant="matrix products take 66.0 % of kernel time"), "",
        "^ The GPU holds this run up: matrix products take 66.0 % of kernel time; the trace does",
    ),
    "more communication": (
        evidence(busy=0.98, device_gain=0.4, removed=SPLIT | {"communication": 0.3}),
        "communication",
    ),
    "operators without a device": (host_evidence(90, untraced=10), "compute-bound"),
    "dispatch without a device": (
        host_evidence(20, dispatch=50, python=30), "overhead-bound dispatch",
    ),
    "nothing recorded": (host_evidence(0, untraced=100), "unknown"),
    "a device that was not recorded": (host_evidence(90, untraced=10, launches=5), "unknown"),
    "a device that was done with the last launch, and was not recorded": (
        on_host(UNRECORDED, last_wait_ns=MS // 2), "overhead-bound dispatch low",
        "so the host is late",
        "The GPU's work was not recorded, but the host's last wait for it takes only 500 us of "
        "100 ms.",
    ),
    "a device that had not finished its work": (
        on_host(UNRECORDED, last_wait_ns=40 * MS), "unknown",
    ),
    "work beside other ranks": (
        on_host(host_evidence(30), communication_ns=60 * MS, remote_ns=0),
        "high", "not micro-batch",
    ),
    # Work may hide beside their calls.
    "collectives on a thread that does nothing else": (
        on_host(host_evidence(0, untraced=40), communication_ns=60 * MS), "unknown",
        "only collectives were recorded on the busiest thread (60.0 %)",
    ),
    "work beside other workers": (
        on_host(host_evidence(30), communication_ns=60 * MS, remote_ns=60 * MS),
        "medium", "micro-batch",
    ),
    # The last wait that was read need not have been the last one.
    "nor is that known of a file that is cut": (
        on_host(UNRECORDED, CUT, last_wait_ns=MS // 2), "unknown",
    ),
    "a cut file": (
        on_host(host_evidence(90, 5), CUT), "low", "^ The end is missing", "Get the whole file",
    ),
    "a cut file of a job with a GPU": (
        on_host(host_evidence(90, 5), CUT, device_evidence="a listed device"),
        "unknown", "^ The end is missing", "Get the whole file",
    ),
    "a host that reads a device of which nothing was recorded": (
        on_host(host_evidence(90, 5), device_evidence="backend nccl", device_read_ns=9 * MS),
        "unknown", "^ The trace does not tell what holds this run up: this job uses",
    ),
    "a run that cannot be replayed": (
        evidence(causal=None, no_replay="a file: b; c"), "unknown none",
        "^ The trace does not tell what holds this run up: the run cannot be replayed.",
        "The run cannot be replayed: a file: b; c.",
    ),
    "a step whose name looks like the end of a reason": (
        once_only(replace(WINDOW, kind="range", name="load: a; b")), "unknown none",
        "^ The trace does not tell what holds this run up: the GPU was busy for 50.0 % of load: a; "
        "b (50 ms of 100 ms).",
    ),
    "nothing at all": (Evidence(window=WINDOW), "unknown"),
    "events of a form that is not analysed": (
        Evidence(window=WINDOW, health=[Finding("begin_end_events", "warning", "B and E", 9)]),
        "unknown", "^ B and E", "complete event",
    ),
    "a busy device where neither half gains": (
        evidence(busy=0.99, **TIED), "compute-bound math low", "no slack",
    ),
    "an idle one": (evidence(busy=0.2, **TIED), "overhead-bound"),
    "waits that could turn the verdict": (
        evidence(host_gain=0.1, device_gain=0.05, unknown=0.5), "unknown",
    ),
    "a part of such a run that repeats": (
        evidence(host_gain=0.1, device_gain=0.05, unknown=0.5,
                 repeating=Repeating(50, MS, 50 * MS, gpu(500, 40 * MS, 35 * MS, idle_ns=10 * MS))),
        "unknown",
        "In the 50 ms in which its work repeats, 50 times, 1 ms each in the median: 70.0 % "
        "communication that nothing covers, 20.0 % idle, 10.0 % compute.",
    ),
    # Even if the host caused them, the device's work outweighs them.
    "waits that could not": (
        evidence(busy=0.7, host_gain=0.02, device_gain=0.35, unknown=0.25),
        "compute-bound", "does not explain",
    ),
    "ops of which most have a launch": (linked_ops(40, 9), "medium"),
    "ops of which most have none": (linked_ops(20, 9), "low"),
    "the same, for which the device hardly waits": (linked_ops(20, 1), "", "not Some GPU ops"),
    "the same, while neither side gains": (
        linked_ops(20, 21, 0.7, 0.01), "unknown", "gaps before ops of unknown launch",
    ),
    "ops of which most have one, meanwhile": (linked_ops(40, 21, 0.7, 0.01), "compute-bound"),
    "ops of which most have one, while the device waits longest for the others": (
        replace(linked_ops(40, 70, 0.3, 0.01), idle=UNLINKED.idle), "unknown",
        "gaps before ops of unknown launch",
    ),
    "two sides that take turns": (
        evidence(**TURNS), "overhead-bound low",
        "take turns (53.0 % and 47.0 % of the time): input is prepared", "save at most 47.0 %",
    ),
    # The cause that the first piece of advice is against gives the reason.
    "turns, with advice": (
        evidence(**TURNS, advised="sync", advised_share=0.2), "sync", "the host waits for the GPU",
    ),
    "turns, with advice on the device": (
        evidence(**TURNS, advised="math", advised_share=0.2), "input", "input is prepared",
    ),
    "windows that agree": (
        evidence(**PYTHON, window=STEP, windows=[gpu_active("overhead-bound")]), "high",
    ),
    "windows that disagree": (
        evidence(**PYTHON, window=STEP, windows=[gpu_active("compute-bound")]),
        "low", "The GPU-active span alone would be compute-bound by math",
    ),
    "windows that disagree, of one cause": (
        evidence(**TURNS | {"removed": {"communication": 0.5}}, window=STEP, windows=[
            replace(gpu_active("compute-bound"), bottleneck="communication")]),
        "communication",
        "The GPU-active span alone would be compute-bound.",
    ),
    "kernels that are too small, and a host that is late": (
        evidence(busy=0.8, device_gain=0.4, removed={"latency": 0.6}), "latency",
        "^ The GPU holds this run up: its kernels are too small for it", "not idle_gaps",
    ),
    "long kernels of few blocks, and a remedy for them": (
        replace(evidence(busy=0.98, device_gain=0.4, removed={"latency": 0.6}, advised="latency",
                         advised_share=0.5), advised_remedy="fill-the-device"), "",
        "^ The GPU holds this run up: kernels of few blocks leave most of it idle.",
    ),
    "Python that nobody recorded": (
        evidence(**PYTHON, idle=late_for(20, untraced_ms=70)), "medium",
        "70 ms of it nothing was recorded",
    ),
    "time in which nothing was recorded, and Python": (
        evidence(**LATE, removed={"unrecorded-time": 0.6, "python": 0.3}), "unrecorded-time medium",
        "^ The host holds this run up: nothing was recorded on it while the GPU waited for 60 ms.",
    ),
    "the same, of which short stretches count as Python": (
        evidence(**LATE, removed={"unrecorded-time": 0.5, "python": 0.3},
                 idle=late_for(10, untraced_ms=60)),
        "unrecorded-time", "while the GPU waited for 60 ms.",
    ),
    "the same, in which other threads recorded something": (
        evidence(**LATE, removed={"unrecorded-time": 0.6, "python": 0.3}, meanwhile=[
            {"name": "api.py(3): block", "activity": "python", "share": 0.6},
            {"name": "execute", "activity": "dispatch", "share": 0.5},
            {"name": "allocations", "activity": "allocation", "share": 0.35},
        ]), "unrecorded-time",
        "^ The host holds this run up: nothing was recorded on it while the GPU waited for 60 ms, "
        "in allocations (35.0 % of that) and block (60.0 % of that).",
    ),
    "time in which nothing was recorded, and hardly less dispatch": (
        evidence(**LATE, removed={"unrecorded-time": 0.5, "dispatch": 0.45}), "dispatch high",
    ),
    "waits whose removal saves more than that of the work between them": (
        evidence(**LATE, removed={"dispatch": 0.5, "sync": 0.01}, advised="sync",
                 advised_share=0.6),
        "sync",
        "^ The host holds this run up: it waits for the GPU",
        "Removing sync would save at most 60.0 %",
    ),
    "waits whose removal saves less than that": (
        evidence(**LATE, removed={"dispatch": 0.5, "sync": 0.01}, advised="sync",
                 advised_share=0.4),
        "dispatch", "Removing other causes: sync 40.0 %",
    ),
    "waits that cost more than half of the host's work": (
        evidence(**LATE, removed={"dispatch": 0.6, "sync": 0.5}, advised="sync", advised_share=0.5),
        "sync", "^ The host holds this run up: it waits for the GPU",
    ),
    "a launch that takes more than all others": (
        launching(41), "", "^ The host holds this run up: one call, hipLaunchKernel, takes 41 ms",
    ),
    "a launch that takes no more than others": (
        launching(39), "", "^ The host holds this run up: it launches work call by call",
    ),
    "a window that mostly happened once": (
        happened_once(), "",
        "^ 80.0 % of the GPU-active span happened once, led by cudaLaunchKernel of 80 ms. In the "
        "other 20 ms, the host holds this run up",
    ),
    "long gaps that nothing explains": (
        evidence(**GAPS, ops=100, idle=late_for(25, 30)), "unknown",
        "30.0 % of the window goes to gaps on the device, which the trace does not explain",
    ),
    "the same of many ops": (evidence(**GAPS, ops=4_000, idle=late_for(25, 30)), "overhead-bound"),
    "a host that is late only while it is recorded": (
        evidence(**RECORDED, host_gain=0.03, device_gain=0.09), "compute-bound low",
        "^ The GPU holds this run up: its kernels wait", "Recording took about 8 % of it",
        "Without the profiler's cost, half the host's work makes the GPU-active span 3.0 % shorter",
    ),
    "a host and a device that are even once they are not recorded": (
        evidence(
            **RECORDED | {"busy": 0.8}, host_gain=0.03, device_gain=0.01,
            removed={"dispatch": 0.11, "math": 0.02},
        ),
        "overhead-bound dispatch low",
        "^ Host and GPU are about even: without the profiler, halving the host's work would gain "
        "3.0 %, halving the GPU's 1.0 %.",
    ),
    **{
        f"a busy device whose host is {factor} times as slow while it is recorded": (
            evidence(busy=0.6, host_gain=0.15, recorder_ns=(100 - left) * MS, flip=1.3,
                     removed={"dispatch": 0.15}),
            "overhead-bound dispatch", said,
        )
        for factor, left, said in (
            (1.43, 70, "^ The host holds this run up while it is recorded; without the profiler, "
             "the GPU is busy for about 85.7 % of 70 ms: the host can give back at most 10 ms."),
            (1.25, 80, "^ The host holds this run up: it dispatches"),
        )
    },
    # Halving the device's work gains half of the wait.
    "a collective that waits for another rank": (
        evidence(busy=0.5, host_gain=0.2, device_gain=0.22, gpu=gpu(1000, 50 * MS, 42 * MS,
                 idle_ns=50 * MS), removed={"communication": 0.42, "dispatch": 0.3},
                 rank_wait=RankWait("alltoall", 1, 40 * MS, "alltoall", 40 * MS)),
        "communication",
        "^ This rank waits 40 ms of 100 ms in one all-to-all, probably for a later rank; apart "
        "from that, the host holds this run up: it dispatches operators",
    ),
    "such a collective beside a host that the first advice lets wait less": (
        evidence(busy=0.5, host_gain=0.3, gpu=gpu(1000, 50 * MS, 30 * MS, idle_ns=50 * MS),
                 removed={"dispatch": 0.3}, advised="sync", advised_share=0.4,
                 rank_wait=RankWait("alltoall", 1, 20 * MS, "alltoall", 20 * MS)),
        "sync", "apart from that, the host holds this run up: it waits for the GPU",
    ),
    "a wait for a rank that is a smaller part": (
        evidence(busy=0.3, host_gain=0.35, gpu=gpu(1000, 30 * MS, 15 * MS, idle_ns=70 * MS),
                 removed={"dispatch": 0.6, "communication": 0.15},
                 rank_wait=RankWait("alltoall", 1, 12 * MS, "alltoall", 12 * MS)),
        "dispatch",
        "^ The host holds this run up: it dispatches operators while the GPU waits. This rank "
        "waits 12 ms of 100 ms in one all-to-all, probably for a later rank.",
    ),
    "collectives that hardly wait": (
        evidence(**LATE, rank_wait=RankWait("", 9, 9 * MS, "allgather", 8 * MS)), "",
        "^ The host holds this run up",
    ),
    "communication that may be waiting, beyond the margin": (communicating(38), "low"),
    "little of it": (communicating(5), "high"),
    "one marked step": (
        evidence(**LATE, window=STEP, repetition=PASSES), "medium",
        "One step is marked, with 5 passes",
    ),
    "several": (evidence(**LATE, window=STEP, repetition=replace(PASSES, steps=3)), "high"),
    "one marked step of a host without a device": (
        replace(host_evidence(5, dispatch=90), repetition=PASSES), "medium",
        "One step is marked, with 5 passes",
    ),
    "several of such a host": (
        replace(host_evidence(5, dispatch=90), repetition=replace(PASSES, steps=3)), "high",
    ),
    **{
        f"shapes that {profiler} did not record": (
            evidence(busy=1, device_gain=0.5, removed={"math-or-memory": 0.5}, profiler=profiler),
            "", switch, "not {",
        )
        for profiler, switch in SWITCHES.items()
    },
    **{
        f"passes of {took} ms": (
            evidence(**PYTHON, repetition=replace(PASSES, pass_lengths=[ms * MS for ms in took])),
            "", said,
        )
        for *took, said in (
            (118, 116, 1_015, 1_068, "The passes are not alike: 2 take"),
            (237, 238, 242, 245, "not The passes are not alike"),
            # One long pass is a start, or an event that happened once.
            (900, 120, 118, 116, "not The passes are not alike"),
        )
    },
    "several passes in each marked step": (
        evidence(**PYTHON, repetition=replace(
            PASSES, steps=2, pass_lengths=[118 * MS, 116 * MS, 1_015 * MS, 1_068 * MS])),
        "", "not The passes are not alike",
    ),
    "passes of a host that runs ahead of its device": (
        evidence(
            busy=1, device_gain=0.5, removed={"math": 0.5},
            launch=Launch(1000, 0, 0, 9 * MS, 5000, 90, None),
            repetition=replace(PASSES, pass_lengths=[13 * MS, 14 * MS, 140 * MS, 145 * MS]),
        ),
        "compute-bound", "not The passes are not alike",
    ),
    **{
        f"a step of {ops} ops with {busy} ms of compute": (
            evidence(busy=0.9, device_gain=0.5, removed={"math": 0.5}, window=STEP, steps=[
                period(STEP, "", gpu=gpu(ops, busy * MS, idle_ns=5 * MS))]),
            "", said,
        )
        for ops, busy, said in (
            (1000, 40, "computes 50 ms less in as many GPU ops"),
            (1000, 80, "not for as many GPU ops"),
            (500, 40, "not for as many GPU ops"),
        )
    },
    "a single pass with work before its first op": (
        evidence(**LED, repetition=Repetition(100, 0, 0, 100, 100)), "low",
        "With the 50 ms before the first GPU op, the run would be overhead-bound by python.",
    ),
    "such work that hardly turns the verdict": (
        evidence(**LED | {"windows": [BARELY]}, repetition=Repetition(100, 0, 0, 100, 100)), "low",
        "the run would be overhead-bound by python, if only just.",
    ),
    "a span that starts late, as another sentence says": (
        evidence(busy=1, device_gain=0.5, removed={"math": 0.5}, health=["started_late"],
                 windows=[period(LONG, "unknown")]),
        "", "not That is without",
    ),
    "one that starts with its launch": (
        evidence(busy=1, device_gain=0.5, removed={"math": 0.5}, windows=[period(LONG, "unknown")]),
        "", "That is without",
    ),
    "many passes with such work": (
        evidence(**LED, repetition=Repetition(1000, 1000, 0, 50, 0, 20)), "",
        "not With the 50 ms before", "not That is without",
    ),
    "a few ops in less than half of the trace": (
        evidence(busy=1, ops=1, device_gain=0.5, removed={"math": 0.5},
                 windows=[period(LONG, "unknown")]),
        "unknown", "only 1 GPU op was recorded",
    ),
    "work in less than half of the trace": (
        evidence(**PYTHON, windows=[period(LONG, "overhead-bound")]), "",
        "without 150 ms before the first GPU op and 200 ms after the last GPU op, in a trace of",
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", JUDGED)
def test_the_verdict_on(title):
    found, expected, *words_said = JUDGED[title]
    verdict = judge(found)
    assert {*expected.split()} <= {verdict.regime, verdict.bottleneck, verdict.confidence}
    said = " ".join([verdict.headline, *verdict.why, *verdict.doubts, *verdict.try_next])
    for each in words_said:
        if each.startswith("^ "):
            assert verdict.headline.startswith(each.removeprefix("^ "))
        else:
            assert (each.removeprefix("not ") in said) != each.startswith("not ")


def test_a_verdict_that_is_not_sure_says_by_code_what_lowers_it():
    for title, (found, *_) in JUDGED.items():
        verdict = judge(found)
        codes = [each.code for each in verdict.lowered_by]
        assert len(codes) == len({*codes}), title
        assert codes or verdict.confidence in ("high", "none"), title
        listed = [each.sentence for each in verdict.lowered_by]
        assert [each for each in listed if each in verdict.doubts] == verdict.doubts, title


@pytest.mark.parametrize(
    ("title", "code", "is_stated"),
    [
        ("windows that disagree", "other_windows", True),
        ("prompts between decoding steps", "other_steps", True),
        ("a device that was done with the last launch, and was not recorded",
         "unrecorded_device", True),
        ("an overhead that what a cut took away may deny", "truncated", True),
        ("a busy side whose halving gains nothing", "close_call", False),
    ],
)  # fmt: skip
def test_what_the_first_sentence_says_is_no_doubt_beside_it(title, code, is_stated):
    verdict = judge(JUDGED[title][0])
    first = verdict.lowered_by[0]
    assert (first.code, first.stated) == (code, is_stated)
    assert (first.sentence in verdict.headline) == is_stated


def test_a_fault_of_the_recorder_says_what_to_record_instead():
    faults = {each.code for each in DOUBTS if each.of_recorder and not each.stated}
    assert faults == words("record").keys()


def test_a_doubt_gives_way_only_to_doubts_before_it():
    for number, each in enumerate(DOUBTS):
        assert {*each.unless} <= {before.code for before in DOUBTS[:number]}, each.code


def test_thresholds_can_be_set_and_nothing_else():
    close = evidence(busy=0.1, host_gain=0.24, device_gain=0.20, removed={"python": 0.3})
    strict = Thresholds().updated(["close_margin=0.01", "plain_margin=0.02"])
    assert judge(close, strict).confidence == "high"
    with pytest.raises(TracekitError, match="no threshold is named 'small'"):
        Thresholds().updated(["small=1"])
    with pytest.raises(TracekitError, match="wait_ns is an integer"):
        Thresholds().updated(["wait_ns=much"])


def test_a_threshold_can_be_set_by_its_former_name():
    known = asdict(Thresholds())
    for former, name in FORMER.items():
        assert former not in known
        assert getattr(Thresholds().updated([f"{former}=0.7"]), name) == 0.7


@pytest.mark.parametrize(
    ("delay_us", "call_us", "depth", "said"),
    [
        (6, 5, 1, "median delay 6 us (floor: up to 8 us): the device waits when work arrives"),
        (8, 5, 3, "median delay 8 us (floor: up to 8 us): the device waits when work arrives"),
        (15, 9, 1, "median delay 15 us with an empty queue, 9 us of it in the call: the device"),
        (200, 900, 1, "median delay 200 us with an empty queue, all of it in the call."),
        (15, 9, 4, "median delay 15 us: work queues up before it runs (3 ahead)"),
        (900, 9, 1, "median delay 900 us with an empty queue, 9 us of it in the call."),
        (900, 9, 200, "median delay 900 us: work queues up before it runs (199 ahead)"),
        (-95, 9, 1, "median delay -95 us: device and host clocks differ"),
    ],
)
def test_a_launch_delay_is_near_the_floor_or_a_queue_only_where_it_is(
    delay_us, call_us, depth, said
):
    launch = Launch(1000, 0, 0, 1000 * delay_us, 1000 * call_us, depth, None)
    found = evidence(busy=0.1, host_gain=0.45, launch=launch)
    assert any(said in each for each in judge(found).why)
    slow = judge(found, Thresholds().updated(["launch_floor_ns=1000000"])).why
    assert any("(floor: up to 1 ms)" in each for each in slow) == (delay_us > 0)


def test_the_first_doubt_about_few_ops_is_how_few_they_are():
    slowed = Finding("profiler_dilation", "warning", "profiling made a step twice as long", 1, MS)
    given = {"busy": 0.5, "host_gain": 0.25, "device_gain": 0.2, "recorder_ns": 20 * MS}
    few, many = (judge(evidence(**given, ops=ops, health=[slowed])).doubts for ops in (3, 1000))
    assert few[0].startswith("Only 3 ops were recorded")
    assert many[0] == f"{slowed.message.capitalize()}." and many[0] in few


def test_only_what_lowers_the_confidence_is_a_doubt():
    late = Finding("started_late", "warning", "the device starts 1 ms after its first launch", 1)
    verdict = judge(evidence(busy=0.95, device_gain=0.45, removed={"math": 0.8}, health=[late]))
    assert verdict.headline.startswith("The device starts 1 ms after its first launch.")
    assert (verdict.confidence, verdict.doubts) == ("high", [])


def test_no_gain_in_a_part_of_a_window_is_more_than_all_of_it():
    gains = evidence(
        host_gain=0.3, device_gain=-0.1, removed={"math": 0.3, "sync": 0.1}
    ).causal.gains
    part = replace(gains, removed_at_most={"math": 0.4}).without(80 * MS)
    assert part.removed == pytest.approx({"math": 1.0, "sync": 0.5})
    assert (part.window_ns, part.host, part.cuda_graph, part.removed_at_most) == (
        20 * MS, 1.0, 1.0, {"math": 1.0}
    )  # fmt: skip
    assert part.device == pytest.approx(-0.5)


def test_one_offs_add_at_most_what_was_recorded():
    gains = replace(evidence().causal.gains, one_offs_ns=30 * MS, device_one_offs_ns=20 * MS)
    assert gains.within(100 * MS) == gains
    shorter = gains.within(10 * MS)
    assert (shorter.one_offs_ns, shorter.device_one_offs_ns) == (10 * MS, 10 * MS)


def test_the_busy_time_without_one_offs_is_at_most_what_is_left_without_them():
    found = evidence(busy=0.9)
    gains = replace(found.causal.gains, window_ns=20 * MS, one_offs_ns=80 * MS)
    for once_ns, busy_ns in ((0, 20 * MS), (75 * MS, 15 * MS), (95 * MS, 0)):
        left = replace(gains, device_one_offs_ns=once_ns)
        assert steady_busy_ns(found.gpu, left) == busy_ns


def test_with_unknown_limits_a_saving_is_at_least_as_much():
    found = evidence(busy=0.95, device_gain=0.45, removed={"math": 0.4, "memory-bandwidth": 0.2})
    most = {"math": 0.3, "memory-bandwidth": 0.5}
    gains = replace(found.causal.gains, removed_at_most=most)
    verdict = judge(replace(found, causal=replace(found.causal, gains=gains)))
    limits = {each.remove: each.with_unknown_limits_ns for each in verdict.savings}
    assert limits == {"math": 40 * MS, "memory-bandwidth": 50 * MS}


def test_at_most_six_reasons_are_given_and_no_doubt_hides_the_bottleneck():
    found = evidence(
        busy=0.05,
        host_gain=0.24,
        device_gain=0.2,
        unknown=0.06,
        shift_ns=1000,
        removed={"python": 0.3},
        health=["truncated", "unlinked_gpu_ops", "starts_before_launch", "rejected_events"],
    )
    why = judge(found).why
    assert len(why) == 6
    assert any("Removing python" in each for each in why)
    assert any("close call" in each for each in why)


def test_every_placeholder_of_words_has_a_switch_of_every_profiler():
    lines = csv.reader((files("tracekit.queries") / "words.csv").read_text().splitlines())
    used = {each for *_, text in lines for each in re.findall(r"\{(\w+)\}", text)} | {"no_stacks"}
    for profiler in RECORDERS:
        assert used <= words(f"switch {profiler}").keys()


@pytest.mark.parametrize(
    ("busy", "host", "device", "regime", "margin"),
    [
        (50, 0.3, 0.1, "overhead-bound", -0.2),
        (50, 0.1, 0.3, "compute-bound", 0.2),
        # The idle 3 % cap the host's gain.
        (97, 0.3, 0.1, "compute-bound", 0.07),
        # Neither gains enough: time decides, whichever gains more.
        (96, 0.3, 0.01, "compute-bound", 0.03),
        (99, 0.04, 0.01, "compute-bound", 0.0),
        (20, 0.01, 0.04, "overhead-bound", -0.03),
        # A faster device makes the window begin earlier by more than it ends.
        (98, 0.005, -0.3, "compute-bound", 0.005),
    ],
)
def test_the_margin_has_the_sign_of_the_regime(busy, host, device, regime, margin):
    verdict = judge(evidence(busy=busy / 100, host_gain=host, device_gain=device))
    assert (verdict.regime, verdict.margin) == (regime, pytest.approx(margin))


@pytest.mark.parametrize(
    ("regime", "cause", "label"),
    [
        ("overhead-bound", "sync", "overhead-bound by sync"),
        ("overhead-bound", "communication", "bound by communication"),
        ("compute-bound", "math", "compute-bound by math"),
        ("compute-bound", "sync", "bound by sync"),
        ("compute-bound", "memory-bandwidth", "compute-bound by memory-bandwidth"),
        ("compute-bound", "python", "bound by python"),
        ("unknown", None, "unknown"),
    ],
)
def test_a_label_names_a_regime_only_with_a_cause_that_its_word_fits(regime, cause, label):
    assert bound_by(regime, cause) == label
