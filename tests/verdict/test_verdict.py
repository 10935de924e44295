"""Judgment, step by step: regimes, savings, reasons, doubts and thresholds, without a trace."""

import csv
import re
from importlib.resources import files

import pytest
from msgspec.structs import replace

from tests.kit.evidenced import (
    LATE,
    MS,
    causal_of,
    evidence,
    finding,
    judge,
    launch,
    with_gains,
    with_links,
    with_period,
)
from tracekit.causes import RECORDERS, words
from tracekit.errors import TracekitError
from tracekit.thresholds import Thresholds
from tracekit.verdict.doubts import DOUBTS
from tracekit.verdict.once import longest_once, without_once
from tracekit.verdict.regime import bound_by, steady_busy_ns


@pytest.mark.parametrize(
    ("regime", "gains", "other", "causes"),
    [
        ("overhead-bound", {"busy": 0.1, "host_gain": 0.45}, "latency",
         "launch dispatch python sync input allocation compilation copy"),
        ("compute-bound", {"busy": 0.95, "device_gain": 0.45}, "python",
         "communication copy memory-bandwidth math math-or-memory latency sync"),
    ],
)  # fmt: skip
def test_a_run_that_gains_by_a_faster_side_is_blamed_on_that_sides_work(
    regime, gains, other, causes
):
    for cause in causes.split():
        verdict = judge(evidence(**gains, removed={other: 0.99, cause: 0.8}))
        assert (verdict.regime, verdict.bottleneck) == (regime, cause)
        assert verdict.confidence == "high"
        assert abs(verdict.margin) == pytest.approx(0.45)
        # A wait for a device costs at most its idle time, and what the host may have waited.
        most_ns = round(100 * min(gains["busy"], 1 - gains["busy"])) * MS if cause == "sync" else 0
        savings = {each.remove: each.saves_at_most_ns for each in verdict.savings}
        assert savings[cause] == (most_ns or 80 * MS)


@pytest.mark.parametrize(("priced_ms", "left"), [(45, "dispatch"), (20, None), (90, None)])
def test_the_longest_wait_is_a_one_off_if_a_remedy_against_one_offs_prices_it(priced_ms, left):
    link = {"cause": "launch", "name": "hipLaunchKernel", "start_ns": 5, "dur_ns": 50 * MS}
    link |= dict.fromkeys(("event_id", "cpu_op", "module", "python_line"))
    late = with_links(evidence(**LATE, removed={"launch": 0.65, "dispatch": 0.3}), link)
    judged = replace(late.period, regime="overhead-bound", bottleneck="launch")
    event = longest_once(judged, causal_of(late), priced_ms * MS, 0, Thresholds())
    assert (event is not None) == (left is not None)
    if event is not None:
        rest = without_once(causal_of(late), event)
        left_over = with_period(late, gains=rest.gains)
        verdict = judge(replace(left_over, flip=rest.flip, one_offs=[event]))
        assert verdict.bottleneck == left
        assert rest.gains.window_ns == 50 * MS
        assert verdict.savings[0].saves_at_most_ns == 30 * MS


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
    with pytest.raises(TracekitError, match="there is no threshold 'small'"):
        Thresholds().updated(["small=1"])
    with pytest.raises(TracekitError, match="wait_ns is an integer"):
        Thresholds().updated(["wait_ns=much"])


@pytest.mark.parametrize(
    ("delay_us", "call_us", "depth", "reason"),
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
    delay_us, call_us, depth, reason
):
    delayed = launch(delay_ns=1000 * delay_us, call_ns=1000 * call_us, queue_depth=depth)
    late = evidence(busy=0.1, host_gain=0.45, launch=delayed)
    assert any(reason in each for each in judge(late).why)
    slow = judge(late, Thresholds().updated(["launch_floor_ns=1000000"])).why
    assert any("(floor: up to 1 ms)" in each for each in slow) == (delay_us > 0)


def test_the_first_doubt_about_few_ops_is_how_few_they_are():
    slowed = finding("profiler_dilation", "profiling made a step twice as long", time_ns=MS)
    gains = {"busy": 0.5, "host_gain": 0.25, "device_gain": 0.2, "recorder_ns": 20 * MS}
    few, many = (judge(evidence(**gains, ops=ops, health=[slowed])).doubts for ops in (3, 1000))
    assert few[0].startswith("Only 3 ops were recorded")
    assert many[0] == f"{slowed.message.capitalize()}." and many[0] in few


def test_only_what_lowers_the_confidence_is_a_doubt():
    late = finding("started_late", "the device starts 1 ms after its first launch")
    verdict = judge(evidence(busy=0.95, device_gain=0.45, removed={"math": 0.8}, health=[late]))
    assert verdict.notes == ["The device starts 1 ms after its first launch."]
    assert (verdict.confidence, verdict.doubts) == ("high", [])


def test_no_gain_in_a_part_of_a_window_is_more_than_all_of_it():
    gains = evidence(
        host_gain=0.3, device_gain=-0.1, removed={"math": 0.3, "sync": 0.1}
    ).period.gains
    part = replace(gains, removed_at_most={"math": 0.4}).without(80 * MS)
    assert part.removed == pytest.approx({"math": 1.0, "sync": 0.5})
    assert (part.window_ns, part.host, part.cuda_graph, part.removed_at_most) == (
        20 * MS, 1.0, 1.0, {"math": 1.0}
    )  # fmt: skip
    assert part.device == pytest.approx(-0.5)


def test_one_offs_add_at_most_what_was_recorded():
    gains = replace(evidence().period.gains, one_offs_ns=30 * MS, device_one_offs_ns=20 * MS)
    assert gains.within(100 * MS) == gains
    shorter = gains.within(10 * MS)
    assert (shorter.one_offs_ns, shorter.device_one_offs_ns) == (10 * MS, 10 * MS)


def test_the_busy_time_without_one_offs_is_at_most_what_is_left_without_them():
    busy = evidence(busy=0.9)
    gains = replace(busy.period.gains, window_ns=20 * MS, one_offs_ns=80 * MS)
    for once_ns, busy_ns in ((0, 20 * MS), (75 * MS, 15 * MS), (95 * MS, 0)):
        left = replace(gains, device_one_offs_ns=once_ns)
        assert steady_busy_ns(busy.period.gpu, left) == busy_ns


def test_with_unknown_limits_a_saving_is_at_least_as_much():
    busy = evidence(busy=0.95, device_gain=0.45, removed={"math": 0.4, "memory-bandwidth": 0.2})
    most = {"math": 0.3, "memory-bandwidth": 0.5}
    verdict = judge(with_gains(busy, removed_at_most=most))
    limits = {each.remove: each.with_unknown_limits_ns for each in verdict.savings}
    assert limits == {"math": 40 * MS, "memory-bandwidth": 50 * MS}


def test_at_most_six_reasons_are_given_and_no_doubt_hides_the_bottleneck():
    doubtful = evidence(
        busy=0.05,
        host_gain=0.24,
        device_gain=0.2,
        unknown=0.06,
        shift_ns=1000,
        removed={"python": 0.3},
        health=["truncated", "unlinked_gpu_ops", "starts_before_launch", "rejected_events"],
    )
    why = judge(doubtful).why
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
        # A faster device moves the window's begin earlier by more than its end.
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
