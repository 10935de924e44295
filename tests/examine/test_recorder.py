"""Gaps and effects of the recorder are reported before any regime, with what to record instead.

A program runs in the simulator; its trace then loses what a recorder would lose.
"""

from __future__ import annotations

import json
import random

import pytest

from tests.kit.atoms import MS, US, BlockingCopy, Call, Launch, Sync, Work, line, operator, step
from tests.kit.simulated import Programs, write
from tests.kit.simulator import Machine, Simulation
from tests.kit.traces import gpu_op, launch
from tests.reporters.test_screens import screen
from tracekit.causes import in_switches_of, words
from tracekit.text import duration

TRACES = Programs()
recorded = TRACES.program
RECORD = {code: in_switches_of("kineto", text) for code, text in words("record").items()}
SMALL = Launch(6 * US, (("math", 4 * US),))
EAGER = [operator("aten::mm", 20 * US, SMALL), Work(5 * US)]
WAIT = Sync(2 * US)


def calls(events, name="cudaLaunchKernel"):
    return [each for each in events if each["name"] == name]


def without_ops_of(events, launches, keep=0):
    """The events without the GPU ops of some launches, except the first ones of each."""
    left = {each["args"]["correlation"]: keep for each in launches}
    kept = []
    for each in events:
        number = each["args"].get("correlation")
        if each["pid"] == 0 and number in left:
            left[number] -= 1
            if left[number] < 0:
                continue
        kept.append(each)
    return kept


def without_argument(name):
    """Takes an argument from all events that have it."""

    def lose(events):
        for each in events:
            each["args"].pop(name, None)
        return events

    return lose


def codes(analysis):
    return {each.code for each in analysis.trace.health}


def graph(kernels, us=70, cause="math", host_us=20):
    return Launch(host_us * US, ((cause, us * US),) * kernels, name="cudaGraphLaunch")


REPLAY = graph(50, 140)


def decoding(replays=100, replayed=REPLAY):
    return [atom for _ in range(replays) for atom in (Work(150 * US), replayed, WAIT)]


def overflow(events):
    """The recorder's buffer holds one replay."""
    return without_ops_of(events, calls(events, "cudaGraphLaunch")[1:])


def cut(events):
    """Every fourth replay loses most of its kernels."""
    for place, each in enumerate(calls(events, "cudaGraphLaunch")[::4]):
        events = without_ops_of(events, [each], keep=10 + place)
    return events


def dropped(first, last=None, each=1):
    def lose(events):
        return without_ops_of(events, calls(events)[first:last:each])

    return recorded([*EAGER * 200, WAIT], lose)


def later(ns):
    def move(events):
        return [
            each | {"ts": each["ts"] + ns / 1000} if each["pid"] == 0 else each for each in events
        ]

    return move


TWO_STEPS = [step(1, *EAGER * 20), step(2, *EAGER * 20), WAIT]


def sliced(events):
    """Recording began while the device ran what was launched before, and stopped amid its work."""
    launched = calls(events)
    return [each for each in without_ops_of(events, launched[45:]) if each not in launched[:15]]


@pytest.mark.parametrize(
    "trace",
    [
        # Recording stopped while the device still ran the second step.
        recorded(TWO_STEPS, lambda events: without_ops_of(events, calls(events)[30:])),
        recorded([*EAGER * 15, *TWO_STEPS], sliced),
    ],
)
def test_a_step_whose_last_kernels_are_missing_is_not_judged(trace, analyses):
    analysis = analyses[trace]
    assert any(each.code == "dropped_at_end" for each in analysis.trace.health)
    assert analysis.verdict.window.name == "ProfilerStep#1"


def cut_off(ops):
    """A trace of 200 launches whose file ends after so many of their ops."""

    def make(path, baseTimeNanoseconds):
        # Recorders write the device's events after those of the host.
        write(path, Simulation([*EAGER * 200, WAIT]))
        events = json.loads(path.read_text())["traceEvents"]
        on_host, on_device = ([e for e in events if (e["pid"] == 0) == is_op] for is_op in (0, 1))
        text = ",\n".join(map(json.dumps, [*on_host, *on_device[:ops]]))
        begin = f'{{"baseTimeNanoseconds": {baseTimeNanoseconds}, "traceEvents": ['
        path.write_text(begin + text + ', {"ph": "X", "na')

    return TRACES.add(make)


CUT_OFF = {ops: cut_off(ops) for ops in (80, 150, 199)}


@pytest.mark.parametrize(("ops", "confidence"), [(80, "none"), (150, "low"), (199, "low")])
def test_a_file_that_was_cut_off_says_how_many_launches_lack_their_kernel(
    ops, confidence, analyses
):
    analysis = analyses[CUT_OFF[ops]]
    assert analysis.verdict.confidence == confidence
    said = f"{200 - ops} of 200 launches have no kernels in what is left of the file"
    assert (said in [each.message for each in analysis.trace.health]) == (ops < 199)


UPDATE = operator("aten::add_", 20 * US, Launch(6 * US, (("memory-bandwidth", 4 * US),)))


@TRACES.running([step(1, *EAGER * 20, UPDATE), step(2, *EAGER * 5), WAIT])
def test_a_step_amid_which_recording_stopped_is_not_judged(trace, analyses):
    assert analyses[trace].verdict.window.name == "ProfilerStep#1"


def thinned(every):
    def lose(events):
        operators = (each for each in events if each.get("cat") == "cpu_op")
        for number, each in enumerate(operators, 1):
            each["args"] = {"External id": number}
        chance = random.Random(1)
        return [each for each in events if chance.random() < 1 / every]

    return lose


def in_blocks(events):
    """As many threads number three operators each, the first of a block."""
    operators = (each for each in events if each.get("cat") == "cpu_op")
    for number, each in enumerate(operators):
        each["args"] = {"External id": 1 + number // 3 * 512 + number % 3}
    return events


def twice(events):
    """A file of two recordings, the second with numbers far from those of the first."""
    operators = [each for each in events if each.get("cat") == "cpu_op"]
    for number, each in enumerate(operators, 1):
        jump = 100_000 if 2 * number > len(operators) else 0
        each["args"] = {"External id": number + jump}
    return events


def captured(launches):
    return [
        Call("cudaStreamBeginCapture", 9 * US, "launch"),
        *[Call("cudaLaunchKernel", 5 * US, "launch")] * launches,
        Call("cudaStreamEndCapture", 9 * US, "launch"),
        Call("cudaGraphInstantiateWithFlags", 2 * MS, "compilation"),
    ]


def ending(name, cause, calls=5):
    return [Call("cudaGetDeviceCount", 1 * US, "runtime"), *[Call(name, 3 * MS, cause)] * calls]


def stacked():
    call = line("<built-in method mylib.op>", operator("aten::mm", 10 * US, SMALL), Work(US))
    frame = line("train.py(12): train", Work(3 * US), call, Work(40 * US))
    return [*(step(number, *[frame] * 20) for number in range(8)), WAIT]


def open_at_the_stop(*names):
    """Kineto puts the end of a call that it missed where the recording stops."""

    def lose(events):
        end = max(each["ts"] + each["dur"] for each in events)
        for each in events:
            if each["name"].startswith(names):
                each["dur"] = round(end - each["ts"], 3)
        return events

    return lose


UNENDED, ENDED = recorded(stacked(), open_at_the_stop("<built-in")), recorded(stacked())


def test_python_calls_without_an_end_add_nothing_to_pythons_time(analyses):
    # The time that they cover already belonged to Python or to an operator.
    verdict, whole = analyses[UNENDED].verdict, analyses[ENDED].verdict
    assert analyses[UNENDED].one_offs == []
    assert verdict.savings == whole.savings
    assert whole.confidence == "high" and "unended_calls" not in codes(analyses[ENDED])


def reduced(ns):
    return operator("nccl:all_reduce", 10 * US, Launch(6 * US, (("communication", ns),)))


def reducing(first_ns, steps=0):
    product = operator("aten::mm", 15 * US, Launch(6 * US, (("math", 300 * US),)))
    work = [[reduced(14_300 if n else first_ns), *[product] * 10] for n in range(64)]
    if not steps:
        return [*(atom for each in work for atom in each), WAIT]
    size = 64 // steps
    parts = [work[size * n : size * (n + 1)] for n in range(steps)]
    return [*(step(n, *(a for each in part for a in each)) for n, part in enumerate(parts)), WAIT]


LATE = {steps: recorded(reducing(17_456 * MS, steps)) for steps in (0, 1, 2, 8)}


@pytest.mark.parametrize("steps", LATE)
def test_ranks_that_meet_late_in_the_first_collective_are_a_one_off(steps, analyses):
    analysis = analyses[LATE[steps]]
    verdict = analysis.verdict
    assert verdict.bottleneck == "math-or-memory"
    assert [each.excess_ns for each in analysis.one_offs] == [17_456 * MS - 14_300]
    assert max(each.saves_at_most_ns for each in verdict.savings) < 200 * MS
    assert not any("is exposed communication" in why for why in verdict.why)
    # If there is a later step or pass, it is judged: the first collective is not in it.
    is_inside = steps == 1
    first = "The first collective takes 17.5 s, the other 63 take 14.3 us at the median"
    assert verdict.why[0].startswith(first) == is_inside
    assert (verdict.confidence == "low") == is_inside
    assert (verdict.try_next[0] == RECORD["arrival_skew"]) == is_inside


def waiting_at_first(begins_us):
    """A call that blocks until the device goes on; then kernels of 100 us, launched far ahead."""
    after = begins_us + 20_000
    events = [
        launch(0, 2, 1),
        gpu_op(3, 2, 1),
        launch(begins_us, 20_000, 2, "cudaMemcpy"),
        gpu_op(after - 6, 5, 2, category="gpu_memcpy", name="Memcpy DtoH"),
    ]
    for i in range(200):
        events += [launch(after + 5 * i, 3, 10 + i), gpu_op(after + 20 + 100 * i, 99, 10 + i)]
    return TRACES.events(events)


BLOCKED = waiting_at_first(10)


def test_a_call_that_blocks_from_the_start_waits_for_unrecorded_work(analyses, capsys, monkeypatch):
    verdict = analyses[BLOCKED].verdict
    assert (verdict.regime, verdict.bottleneck) == ("compute-bound", "math-or-memory")
    assert verdict.confidence == "medium"
    assert verdict.try_next[0] == RECORD["queued_before"]
    lines = screen(analyses[BLOCKED], capsys, monkeypatch)
    said = "For the first 20 ms the device probably ran work from before the"
    assert verdict.notes[0].startswith(said)
    assert any(each.startswith(said) for each in lines)
    (part,) = [each for each in lines if each.startswith("held up, not recorded")]
    assert "20 ms  50.0 %" in part


def starting_at(first_us):
    """Kernels of 100 us, launched far ahead, of which the first starts late."""
    events = []
    for i in range(200):
        events += [launch(5 * i, 3, 10 + i), gpu_op(first_us + 100 * i, 99, 10 + i)]
    return TRACES.events(events)


LATE_START = starting_at(8_000)


def test_a_device_that_starts_long_after_its_launch_was_held_up_by_what_nobody_recorded(analyses):
    verdict = analyses[LATE_START].verdict
    assert verdict.notes[0].startswith("The device starts 8 ms after its first launch: until then")
    assert (verdict.regime, verdict.confidence) == ("compute-bound", "high")


def gaps(least_ns, most_ns, us=24):
    machine = Machine(gap_ns=(least_ns, most_ns))
    return recorded(decoding(20, graph(200, us, "memory-bandwidth")), machine=machine)


EQUAL = gaps(4_900, 5_200, 14)


def test_equal_gaps_in_replays_may_be_the_recorders_and_cost_nothing(analyses):
    verdict = analyses[EQUAL].verdict
    assert not any("latency" in why for why in verdict.why)
    saved = {each.remove: each.saves_at_most_ns for each in verdict.savings}
    assert saved.get("latency", 0) < 1 * MS


# -- the recorder's own cost -----------------------------------------------------------------------

LINEAR = operator(
    "aten::linear", 900, operator("aten::mm", 900, Launch(1 * US, (("math", 3 * US),)))
)


def nested(kernel_ns, host_ns=200):
    work = Launch(1_200, (("math", kernel_ns),))
    called = [Work(host_ns), work]
    for number in range(4):
        called = [line(f"a.py({number}): f", *called)]
    op = operator("aten::mm", 500, operator("aten::view", 300), *called)
    return recorded([line("a.py(9): main", op)] * 320 + [WAIT])


NESTED = {
    "short kernels": nested(100),
    "long kernels": nested(30_000),
    "slow Python": nested(1_000, 9_000),
}


def test_a_verdict_that_recording_could_explain_says_what_to_record_less(analyses):
    (first, *_) = analyses[NESTED["short kernels"]].verdict.try_next
    assert "with_stack=False" in first and "record_shapes" in first


def test_the_screen_says_how_long_a_window_takes_without_the_recorder(
    analyses, capsys, monkeypatch
):
    slow, busy = (analyses[NESTED[each]] for each in ("slow Python", "long kernels"))
    (cost_ns,) = (h.time_ns for h in slow.trace.health if h.code == "recorder_cost")
    assert slow.judged.gains.recorder_ns == pytest.approx(cost_ns, rel=0.1)
    left_ns = slow.judged.window.span_ns - slow.judged.gains.recorder_ns
    screens = (" ".join(screen(each, capsys, monkeypatch)) for each in (slow, busy))
    assert f", at most {duration(left_ns)} without the profiler" in next(screens)
    assert "without the profiler" not in next(screens)


def test_a_verdict_on_the_devices_time_does_not_rest_on_what_recording_costs(analyses):
    analysis = analyses[NESTED["long kernels"]]
    assert "recorder_cost" in codes(analysis)
    assert analysis.verdict.regime == "compute-bound"
    assert not any("Recording took" in why for why in analysis.verdict.why)


# -- what is said first ----------------------------------------------------------------------------

# Traces, the first reason, the regime and its confidence, and what to record instead.
FOUND = {
    "replays without kernels": (
        recorded(decoding(), overflow),
        "99 of 100 graph replays have no kernels in this trace; the host waits 7.05 ms of each "
        "7.22 ms in calls that synchronize, so the device is likely the limit.",
        "unknown", "none", "graph_without_kernels",
    ),
    "replays without kernels, and a host that does not wait": (
        recorded(decoding(replayed=graph(10, 5)), overflow),
        "99 of 100 graph replays have no kernels in this trace: what",
        "unknown", "none", "graph_without_kernels",
    ),
    "replays with far fewer kernels than the others": (
        recorded(decoding(40), cut),
        "10 of 40 graph replays have at most half of the kernels of the others; the host waits",
        "compute-bound", "low", "graph_without_kernels",
    ),
    "the same without the graph's id": (
        recorded(decoding(40), lambda events: cut(without_argument("graph id")(events))),
        "10 of 40 graph replays have at most half of the kernels of the others; the host waits",
        "compute-bound", "low", "graph_without_kernels",
    ),
    "some kernels dropped at the start of a session": (
        dropped(0, 60), "The first 60 of 200 launches have no kernels",
        "overhead-bound", "low", "dropped_at_start",
    ),
    "most kernels dropped": (
        dropped(0, 120), "The first 120 of 200 launches have no kernels",
        "unknown", "none", "dropped_at_start",
    ),
    "most kernels dropped at its end": (
        dropped(60), "The last 140 of 200 launches have no kernels",
        "unknown", "none", "dropped_at_end",
    ),
    "a device whose clock is far from the host's": (
        recorded([*EAGER * 200, WAIT], later(-5 * MS)),
        "Most GPU ops start before their launch call began, by up to 4.99 ms: device and host",
        "unknown", "none", "starts_before_launch",
    ),
    "kernels that are missing all through the trace, though copies are not": (
        recorded([*[*EAGER * 20, BlockingCopy(5 * US, 9 * US)] * 10],
                 lambda events: [each for each in events if each.get("cat") != "kernel"]),
        "200 of 200 launches have no kernels in this trace",
        "unknown", "none", "lost_kernels",
    ),
    "a capture in place of the replays": (
        recorded([*EAGER * 3, *captured(400), WAIT]),
        "400 of 403 launches were captured into graphs",
        "unknown", "none", "captured_only",
    ),
    "the end of a capture in place of the replays": (
        recorded([*captured(400)[1:], *EAGER * 3, WAIT]),
        "400 of 403 launches were captured into graphs",
        "unknown", "none", "captured_only",
    ),
    "one event in fifty": (
        recorded([*EAGER * 1999, WAIT], thinned(50)),
        "Only 2.7 % of the operators that were recorded are in this file (45 of",
        "unknown", "none", "thinned_file",
    ),
    **{
        name: (
            recorded(ending(name, cause)),
            f"No work of a model was recorded: 5 calls of 15 ms in all {what}, most of it in "
            f"{name}.",
            "unknown", "none", "no_work_recorded",
        )
        for name, cause, what in (
            ("cudaMalloc", "allocation", "make memory, code and graphs ready"),
            ("cudaFree", "allocation", "free memory and end the run"),
            ("cudaDeviceSynchronize", "sync", "wait for the device"),
        )
    },
    "a single wait": (
        recorded(ending("cudaDeviceSynchronize", "sync", 1)),
        "No work of a model was recorded: one call of 3 ms, cudaDeviceSynchronize, waits for the "
        "device.",
        "unknown", "none", "no_work_recorded",
    ),
    "launches alone": (
        TRACES.events([launch(5 * i, 3, 10 + i) for i in range(40)]),
        "40 launches and copies were recorded, but neither what they ran nor operators.",
        "unknown", "none", "launches_alone",
    ),
    "Python calls without an end": (
        UNENDED, "160 Python calls have no end in this trace",
        "overhead-bound", "low", "unended_calls",
    ),
    "the first collective": (
        LATE[1], "The first collective takes 17.5 s, the other 63 take 14.3 us at the median",
        "compute-bound", "low", "arrival_skew",
    ),
    "equal gaps in replays": (
        EQUAL, "Equal gaps between the kernels of graph replays (5.05 us at the median) take",
        "compute-bound", "medium", "recorder_gaps",
    ),
    "what recording cost": (
        NESTED["short kernels"],
        "Recording took at least 88.1 % of the host's main thread: 640 operators, 321 calls of the "
        "GPU's runtime and 1,600 Python frames (with_stack).",
        "overhead-bound", "low", None,
    ),
    "the measured cost of recording": (
        recorded(
            [*(step(number, *[LINEAR] * 40) for number in range(8)), Sync(US)],
            machine=Machine(overhead_ns=2_000),
            tracekit={"profiled_step_ns": 305_000, "unprofiled_step_ns": 120_000},
        ),
        "Profiling made steps 2.54 times as long as the 120 us that they take without it: the host "
        "looks slower than it is.",
        "compute-bound", "low", "profiler_dilation",
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", FOUND)
def test_effects_of_the_recorder_come_first(title, analyses, capsys, monkeypatch):
    trace, reason, regime, confidence, advice = FOUND[title]
    verdict = analyses[trace].verdict
    assert verdict.why[0].startswith(reason)
    assert (verdict.regime, verdict.confidence) == (regime, confidence)
    # Its programs have no stacks that could be switched off.
    asked = RECORD[advice].replace("with_stack=False, ", "") if advice else None
    assert asked in (None, verdict.try_next[0])
    if regime == "unknown":
        assert (verdict.bottleneck, verdict.savings, len(verdict.try_next)) == (None, [], 1)
    lines = screen(analyses[trace], capsys, monkeypatch)
    # What recording cost is a doubt on the sentence; other effects stand beside it, or are it.
    said = (verdict.headline.rstrip("."), *verdict.notes)
    is_cost = not any(each.startswith(reason) or reason.startswith(each) for each in said)
    assert is_cost == ("cost" in title)
    shown = f"Doubtful: {reason}" if is_cost else reason
    assert any(each[:40] == shown[:40] for each in lines)


# -- whole recordings ------------------------------------------------------------------------------


def main(atoms, count=4):
    for number in range(count):
        atoms = [line(f"main.py({number}): main", *atoms)]
    return atoms


# profiler.step() ends the range of its step.
STEPPING = step(1, *EAGER * 20, line("profiler.py(811): step", Work(US)))
SEVERAL = [graph(10, host_us=9), graph(40, host_us=9), graph(40, host_us=9), WAIT]

# Traces, and what is not found in them.
WHOLE = {
    "replays whose kernels have lost their launch":
        (recorded(decoding(20), without_argument("correlation")), "graph_without_kernels"),
    "whole replays of several graphs":
        (recorded(SEVERAL * 20, without_argument("graph id")), "graph_without_kernels"),
    "launches without kernels here and there": (dropped(1, None, 3), "dropped_at_start"),
    "launches without kernels at the end": (dropped(150), "dropped_at_start"),
    "replays after their capture":
        (recorded([*captured(100), *decoding(20)]), "captured_only dropped_at_start"),
    "work after memory was made ready":
        (recorded([*ending("cudaMalloc", "allocation"), *EAGER]), "no_work_recorded"),
    "work before memory is freed":
        (recorded([*ending("cudaFree", "allocation"), *EAGER]), "no_work_recorded"),
    "work and a wait":
        (recorded([*ending("cudaDeviceSynchronize", "sync"), *EAGER]), "no_work_recorded"),
    "frames that are open when the recording stops": (recorded(main(stacked())), "unended_calls"),
    "a call that outlives the range around it": (
        recorded(
            [line("main.py(1): main", *[STEPPING] * 4), Work(9 * US), *EAGER],
            open_at_the_stop("main.py(1): main", "profiler.py(811): step"),
        ),
        "unended_calls",
    ),
    "a first collective like the others": (recorded(reducing(200 * US)), "arrival_skew"),
    "a first collective that each step repeats": (
        recorded([step(n, reduced(10_700 * US), *[reduced(14_300)] * 6) for n in range(6)]),
        "arrival_skew",
    ),
    "a call that blocks later": (waiting_at_first(9_000), "queued_before"),
    "a device that starts with its launch": (starting_at(40), "started_late"),
    "one event in two": (recorded([*EAGER * 999, WAIT], thinned(2)), "thinned_file"),
    "operators of many short threads": (recorded([*EAGER * 99, WAIT], in_blocks), "thinned_file"),
    "two recordings in a file": (recorded([*EAGER * 99, WAIT], twice), "thinned_file"),
    "small gaps": (gaps(500, 900), "recorder_gaps"),
    "unequal gaps": (gaps(1_000, 40_000), "recorder_gaps"),
}  # fmt: skip


@pytest.mark.parametrize("title", WHOLE)
def test_a_whole_recording_has_no_finding(title, analyses):
    trace, findings = WHOLE[title]
    assert codes(analyses[trace]).isdisjoint(findings.split())
