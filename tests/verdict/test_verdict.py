"""Judgement: the verdict on clear, close, doubtful and unexplained traces."""

import csv
import re
from dataclasses import replace
from importlib.resources import files

import pytest

from tests.kit.evidenced import MS, SPAN_NS, WINDOW, evidence, host_evidence, judge
from tracekit.causes import RECORDERS, words
from tracekit.errors import TracekitError
from tracekit.evidence.model import (
    Evidence,
    Finding,
    Gpu,
    Idle,
    Launch,
    OneOffEvent,
    Period,
    Repetition,
    Window,
)
from tracekit.thresholds import Thresholds


@pytest.mark.parametrize(
    "cause",
    ["launch", "dispatch", "python", "sync", "input", "allocation", "compilation", "copy"],
)
def test_a_run_that_gains_by_a_faster_host_is_blamed_on_what_the_host_does(cause):
    verdict = judge(evidence(busy=0.1, host_gain=0.45, removed={"latency": 0.99, cause: 0.8}))
    assert (verdict.regime, verdict.bottleneck) == ("overhead-bound", cause)
    assert verdict.confidence == "high"
    assert verdict.margin == pytest.approx(-0.45)
    assert {each.remove: each.saves_at_most_ns for each in verdict.savings}[cause] == 80 * MS


@pytest.mark.parametrize(
    "cause",
    ["communication", "copy", "memory_bandwidth", "math", "math_or_memory", "latency", "sync"],
)
def test_a_run_that_gains_by_a_faster_device_is_bound_by_what_that_does(cause):
    verdict = judge(
        evidence(busy=0.95, device_gain=0.45, removed={"python": 0.9, cause.replace("_", "-"): 0.5})
    )
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", cause.replace("_", "-"))


LATE = {"busy": 0.1, "host_gain": 0.45}
SPLIT = {"communication": 0.13, "memory-bandwidth": 0.11, "math": 0.08}
DOUBTED = (
    "truncated", "shared_file", "unlinked_gpu_ops", "graph_without_kernels", "starts_before_launch",
)  # fmt: skip
# By title: the evidence, what the verdict is, and words that it says, or does not say ("not ...").
JUDGED = {
    # The host dispatches without a pause: faster kernels gain nothing.
    "a busy device does not make a run compute-bound": (
        evidence(busy=0.86, host_gain=0.2, device_gain=0.0, removed={"dispatch": 0.2}),
        {"regime": "overhead-bound"},
        "By time alone",
    ),
    "a close call": (
        evidence(host_gain=0.24, device_gain=0.20, removed={"python": 0.3}),
        {"confidence": "low"},
        "close call",
    ),
    "the verdict flips at some speed": (
        evidence(busy=0.1, host_gain=0.4, flip=2.3), {}, "2.3 times faster",
    ),
    "it flips at none": (evidence(busy=0.1, host_gain=0.4, flip=None), {}, "not times faster"),
    "it flips beyond any meaning": (
        evidence(busy=0.1, host_gain=0.4, flip=47.0), {}, "not times faster",
    ),
    **{
        f"a trace with {code}": (evidence(**LATE, health=[code]), {"confidence": "medium"}, "")
        for code in DOUBTED
    },
    "no doubt": (evidence(**LATE), {"confidence": "high"}, "not Without the profiler's cost"),
    "a mended clock": (
        evidence(**LATE, shift_ns=3_000), {"confidence": "medium"},
        "3 us were added to the device's times",
    ),
    "dilation matters to overhead": (
        evidence(**LATE, health=["profiler_dilation"]), {"confidence": "medium"}, "",
    ),
    "and to nothing else": (
        evidence(busy=0.95, health=["profiler_dilation"], device_gain=0.45),
        {"confidence": "high"}, "",
    ),
    "without the profiler the run is compute-bound": (
        evidence(**LATE, undilated=(0.1, 0.4)), {}, "Without the profiler's cost",
    ),
    "without the profiler neither side gains": (
        evidence(**LATE, undilated=(0.01, 0.0)), {}, "Without the profiler's cost",
    ),
    "without the profiler the run is the same": (
        evidence(**LATE, undilated=(0.4, 0.1)), {}, "not Without the profiler's cost",
    ),
    "few ops are an anecdote": (
        evidence(busy=0.9, ops=3, device_gain=0.45), {"confidence": "low"}, "",
    ),
    "a busy side whose halving gains nothing": (
        evidence(busy=0.95, host_gain=0.03, work={"math": 90, "python": 50},
                 removed={"python": 0.02}),
        {"regime": "overhead-bound", "bottleneck": "python", "confidence": "low"},
        "Half the host's work",
    ),
    "a gain below nothing is none": (
        evidence(busy=0.1, host_gain=0.4, device_gain=-0.03, removed={"python": 0.4}), {},
        "half the device's, no shorter",
    ),
    # Copies are on the critical path by chance; the device spends its time on math.
    "a cause that gains next to nothing": (
        evidence(busy=0.95, host_gain=0.01, device_gain=0.02, removed={"copy": 0.001},
                 work={"math": 90 * MS, "copy": 1 * MS}),
        {"regime": "compute-bound", "bottleneck": "math"}, "",
    ),
    "a faster host gains no more than the idle time": (
        evidence(busy=0.97, host_gain=0.3, device_gain=0.1, removed={"math": 0.2, "python": 0.4}),
        {"regime": "compute-bound"}, "idle for only 3.0 %",
    ),
    "input": (
        evidence(**LATE, removed={"input": 0.8}),
        {"headline": "The host holds this run up: it loads and prepares input while the GPU "
                     "waits."}, "not turns",
    ),
    "copies": (
        evidence(busy=0.95, device_gain=0.45, removed={"copy": 0.8}),
        {"headline": "Copies hold this run up."}, "",
    ),
    "sides far apart": (evidence(busy=0.4, host_gain=0.3, device_gain=0.15), {}, "not turns"),
    "sides of which neither gains": (
        evidence(busy=0.4, host_gain=0.04, device_gain=0.03), {}, "not turns",
    ),
    "what limits kernels is one part against communication": (
        evidence(busy=0.98, device_gain=0.4, removed=SPLIT), {"bottleneck": "memory-bandwidth"}, "",
    ),
    "more communication": (
        evidence(busy=0.98, device_gain=0.4, removed=SPLIT | {"communication": 0.3}),
        {"bottleneck": "communication"}, "",
    ),
    "operators without a device": (
        host_evidence(90, untraced=10), {"regime": "compute-bound"}, "",
    ),
    "dispatch without a device": (
        host_evidence(20, dispatch=50, python=30),
        {"regime": "overhead-bound", "bottleneck": "dispatch"}, "",
    ),
    "nothing recorded": (host_evidence(0, untraced=100), {"regime": "unknown"}, ""),
    "a device that was not recorded": (
        host_evidence(90, untraced=10, launches=5), {"regime": "unknown"}, "",
    ),
    "nothing at all": (Evidence(window=WINDOW), {"regime": "unknown"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("title", JUDGED)
def test_the_verdict_on(title):
    found, expected, words_said = JUDGED[title]
    verdict = judge(found)
    assert {name: getattr(verdict, name) for name in expected} == expected
    said = " ".join([verdict.headline, *verdict.why, *verdict.doubts])
    if words_said.startswith("not "):
        assert words_said.removeprefix("not ") not in said
    else:
        assert words_said in said


def test_where_neither_half_gains_the_accounting_decides_and_the_host_has_no_slack():
    tied = {"host_gain": 0.01, "device_gain": 0.02, "work": {"math": 60, "memory-bandwidth": 40}}
    verdict = judge(evidence(busy=0.99, **tied))
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", "math")
    assert any("no slack" in why for why in verdict.why)
    assert verdict.confidence != "high"
    assert judge(evidence(busy=0.2, **tied)).regime == "overhead-bound"


def test_waits_that_could_turn_the_verdict_leave_it_open():
    assert judge(evidence(host_gain=0.1, device_gain=0.05, unknown=0.5)).regime == "unknown"
    # The waits could not turn it: even if the host caused them, the device's work outweighs them.
    sure = judge(evidence(busy=0.7, host_gain=0.02, device_gain=0.35, unknown=0.25))
    assert sure.regime == "compute-bound"
    assert any("does not explain" in why for why in sure.why)


def test_thresholds_can_be_set_and_nothing_else():
    close = evidence(busy=0.1, host_gain=0.24, device_gain=0.20, removed={"python": 0.3})
    strict = Thresholds().updated(["close_margin=0.01", "plain_margin=0.02"])
    assert judge(close, strict).confidence == "high"
    with pytest.raises(TracekitError, match="no threshold is named 'small'"):
        Thresholds().updated(["small=1"])
    with pytest.raises(TracekitError, match="wait_ns is an integer"):
        Thresholds().updated(["wait_ns=much"])


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
    why = judge(evidence(busy=0.1, host_gain=0.45, launch=launch)).why
    assert any(said in each for each in why)


def test_the_floor_that_a_launch_delay_is_held_against_is_the_one_that_judges():
    slow = Thresholds().updated(["launch_floor_ns=20000"])
    launch = Launch(1000, 0, 0, 15_000, 9_000, 1, None)
    why = judge(evidence(busy=0.1, host_gain=0.45, launch=launch), slow).why
    assert any("(floor: up to 20 us)" in each for each in why)


def test_at_most_six_reasons_are_told_and_no_doubt_hides_the_bottleneck():
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


@pytest.mark.parametrize(("linked", "confidence"), [(40, "high"), (20, "low")])
def test_confidence_is_low_where_most_ops_have_no_launch(linked, confidence):
    found = evidence(busy=0.3, host_gain=0.4, device_gain=0.02, removed={"python": 0.6})
    unlinked = replace(found.gpu, gpu_ops=50, linked=linked)
    assert judge(replace(found, gpu=unlinked)).confidence == confidence


@pytest.mark.parametrize(
    ("profiler", "switch"),
    [
        ("kineto", "record_shapes=True"),
        ("nsys", "--pytorch=autograd-shapes-nvtx"),
        ("rocprofv3", "rocprofv3 records none"),
        ("jax", "its profiler records none"),
        ("perfetto", "record_shapes=True"),
    ],
)
def test_what_to_record_is_told_in_the_switches_of_the_profiler(profiler, switch):
    found = evidence(busy=1.0, device_gain=0.5, removed={"math-or-memory": 0.5}, profiler=profiler)
    said = " ".join(judge(found).try_next)
    assert switch in said
    assert "{" not in said


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
    ],
)
def test_the_margin_has_the_sign_of_the_regime(busy, host, device, regime, margin):
    verdict = judge(evidence(busy=busy / 100, host_gain=host, device_gain=device))
    assert (verdict.regime, verdict.margin) == (regime, pytest.approx(margin))


def test_a_device_that_was_done_with_the_last_launch_was_not_recorded_but_the_host_is_late():
    found = host_evidence(30, dispatch=20, python=15, untraced=20, launches=420)

    def waited(ms):
        return judge(replace(found, host=replace(found.host, last_wait_ns=round(ms * MS))))

    late = waited(0.5)
    assert (late.regime, late.bottleneck, late.confidence) == ("overhead-bound", "dispatch", "low")
    assert any("so the host is late" in each for each in late.why)
    assert waited(40).regime == "unknown"


# -- the first sentence ----------------------------------------------------------------------------


def period(kind, regime, span_ns=50 * MS):
    """Another window of the trace, judged."""
    window = Window(kind, kind, 0, span_ns, span_ns)
    return Period(window, None, None, None, None, regime, "math")


def test_two_sides_that_take_turns_are_said_to_and_what_overlap_would_save():
    found = evidence(busy=0.47, host_gain=0.26, device_gain=0.23, removed={"input": 0.5})
    verdict = judge(found)
    assert (verdict.regime, verdict.confidence) == ("overhead-bound", "low")
    assert "take turns (53.0 % and 47.0 % of the time): input is prepared" in verdict.headline
    assert "save at most 47.0 %" in verdict.headline
    # The cause that the first piece of advice is against gives the reason.
    advised = judge(replace(found, advised="sync"))
    assert "the host waits for the GPU" in advised.headline


def test_windows_that_disagree_are_said_first_and_nothing_is_sure():
    step = replace(WINDOW, kind="step", name="ProfilerStep#3")
    found = evidence(busy=0.1, host_gain=0.45, removed={"python": 0.8}, window=step)
    assert judge(replace(found, windows=[period("gpu_active", "overhead-bound")])).confidence == (
        "high"
    )
    verdict = judge(replace(found, windows=[period("gpu_active", "compute-bound")]))
    assert verdict.confidence == "low"
    assert "The GPU-active span alone would be compute-bound, by math" in verdict.headline


def test_python_that_nobody_recorded_is_a_guess():
    idle = Idle(90 * MS, 0, 0, 0, 0, {"python": 20 * MS, "untraced": 70 * MS}, 90 * MS)
    found = evidence(busy=0.1, host_gain=0.45, removed={"python": 0.8})
    sure, guessed = judge(found), judge(replace(found, idle=idle))
    assert (sure.confidence, guessed.confidence) == ("high", "medium")
    assert any("70 ms of it nothing was recorded" in each for each in guessed.doubts)


def test_work_may_hide_beside_calls_of_other_workers():
    found = host_evidence(compute=30)
    ranks, workers = (
        judge(replace(found, host=replace(found.host, communication_ns=60 * MS, remote_ns=ns)))
        for ns in (0, 60 * MS)
    )
    assert (ranks.confidence, workers.confidence) == ("high", "medium")
    assert "micro-batch" in workers.try_next[0] and "micro-batch" not in ranks.try_next[0]


def test_a_window_that_mostly_happened_once_says_so_before_the_rest_is_judged():
    load = OneOffEvent(
        0, 90 * MS, 10 * MS, 80 * MS, "stretch", "host", "launch", "cudaLaunchKernel", None
    )
    found = evidence(busy=0.1, host_gain=0.45, removed={"python": 0.8}, one_offs=[load])
    gains = replace(found.causal.gains, window_ns=20 * MS, one_offs_ns=80 * MS)
    said = judge(replace(found, causal=replace(found.causal, gains=gains))).headline
    assert said.startswith(
        "80.0 % of the GPU-active span happened once, led by cudaLaunchKernel of 80 ms. "
        "In the other 20 ms, the host holds this run up"
    )


@pytest.mark.parametrize(("gaps_ms", "ops", "regime"), [
    (30, 100, "unknown"), (10, 100, "overhead-bound"), (30, 4_000, "overhead-bound"),
])  # fmt: skip
def test_long_gaps_that_nothing_explains_leave_open_what_only_the_replay_says(gaps_ms, ops, regime):
    late = (55 - gaps_ms) * MS
    idle = Idle(late, gaps_ms * MS, 0, 0, 0, {"python": late}, late)
    verdict = judge(evidence(busy=0.45, ops=ops, host_gain=0.27, idle=idle))
    assert verdict.regime == regime
    assert ("waiting that the trace does not explain" in verdict.headline) == (regime == "unknown")


@pytest.mark.parametrize(("undilated", "regime"), [
    ((0.03, 0.01), "compute-bound"), ((0.12, 0.01), "overhead-bound"), (None, "overhead-bound"),
])  # fmt: skip
def test_a_host_that_is_late_only_while_it_is_recorded_does_not_bound_the_run(undilated, regime):
    cost = Finding("recorder_cost", "info", "recording took about 8 % of it", 1, 8 * MS)
    given = evidence(
        busy=0.83, host_gain=0.11, device_gain=0.01, undilated=undilated, health=[cost],
        work={"memory-bandwidth": 50 * MS},
    )  # fmt: skip
    verdict = judge(given)
    assert verdict.regime == regime
    if regime == "compute-bound":
        assert verdict.confidence == "low"
        assert verdict.headline.startswith("Recording took about 8 % of it")
        assert any("halving its work would gain only 3.0 %" in why for why in verdict.why)


def test_communication_that_may_be_waiting_and_exceeds_the_margin_leaves_little_confidence():
    def rank(communication):
        gpu = Gpu(0, 1000, 1000, 1000, 45 * MS, (45 - communication) * MS, communication * MS, 0,
                  55 * MS)  # fmt: skip
        return judge(evidence(busy=0.45, host_gain=0.36, device_gain=0.06, gpu=gpu)).confidence

    assert (rank(38), rank(20), rank(5)) == ("low", "medium", "high")


def test_one_marked_step_is_never_judged_with_high_confidence():
    step = Window("step", "ProfilerStep#1", 0, SPAN_NS, SPAN_NS)
    repeated = Repetition(1000, 1000, 1, 50, 0, 5)
    verdict = judge(evidence(busy=0.1, host_gain=0.45, window=step, repetition=repeated))
    assert verdict.confidence == "medium"
    assert "One step is marked, with 5 passes" in verdict.doubts[0]
    several = replace(repeated, steps=3)
    assert judge(
        evidence(busy=0.1, host_gain=0.45, window=step, repetition=several)
    ).confidence == ("high")


def test_a_cut_file_is_said_first_and_is_to_be_got_whole():
    cut = Finding("truncated", "error", "the end is missing: it stops inside an event", 1)
    host = replace(host_evidence(90, 5), health=[cut])
    verdict = judge(host)
    assert verdict.headline.startswith("The end is missing")
    assert verdict.confidence == "low"
    assert verdict.try_next[0].startswith("Get the whole file")
    # The last wait that was read need not have been the last one.
    late = host_evidence(50, 5, launches=100)
    assert late.host is not None
    waited = replace(late, host=replace(late.host, last_wait_ns=1))
    assert judge(waited).regime == "overhead-bound"
    assert judge(replace(waited, health=[cut])).regime == "unknown"


def test_the_whole_trace_counts_where_a_single_pass_has_work_before_its_first_op():
    whole = Window("trace", "whole trace", -50 * MS, SPAN_NS, 150 * MS)
    led = Period(whole, None, None, None, None, "overhead-bound", "python")
    once = Repetition(100, 0, 0, 100, 100)
    given = {"busy": 0.95, "device_gain": 0.45, "windows": [led]}
    verdict = judge(evidence(**given, repetition=once))
    assert verdict.confidence == "low"
    assert verdict.headline.endswith(
        "With the 50 ms before the first GPU op, the run would be overhead-bound, by python."
    )
    again = Repetition(1000, 1000, 0, 50, 0, 20)
    assert "before the first GPU op" not in judge(evidence(**given, repetition=again)).headline
