"""Verdicts are about the steady state: one-offs are found, priced and left out."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.atoms import (
    MS,
    US,
    BlockingCopy,
    Call,
    Fetch,
    Launch,
    Op,
    Slice,
    Sync,
    Work,
    line,
    operator,
    step,
)
from tests.kit.planted import is_right, planted
from tests.kit.sampling import sample
from tests.kit.simulated import Programs
from tests.kit.traces import Together, slice_event
from tracekit.replay.prices import Speed
from tracekit.reporters import console
from tracekit.thresholds import Thresholds
from tracekit.verdict.once import once_share
from tracekit.verdict.regime import slower_sides

SEEDS = sample("random programs with planted one-offs", range(1000), range(2))
TRACES = Programs()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(SEEDS), 20))
def test_the_regime_is_that_of_the_part_that_repeats(first, tmp_path):
    programs, together = [planted(seed) for seed in SEEDS[first : first + 20]], Together()
    for program in programs:
        together.add(program.write)
    wrong = []
    for program, analysis in zip(programs, together.analyses(tmp_path).values(), strict=True):
        verdict = analysis.verdict
        if verdict.confidence != "low" and not is_right(program, verdict.regime):
            wrong.append((program.seed, sorted(program.plants), verdict.regime, verdict.confidence))
    assert not wrong


# -- programs in which something happens once ------------------------------------------------------


def loop(steps=6, once=(), marked=True, kernel_ns=400 * US):
    """A compute-bound loop with an atom that only its fourth step has."""
    atoms = []
    for number in range(steps):
        body = [
            atom
            for _ in range(10)
            for atom in (
                operator("aten::mm", 20 * US, Launch(6 * US, (("math", kernel_ns),))),
                Work(5 * US),
            )
        ]
        body[6:6] = once if number == 3 else []
        atoms += [step(number, *body)] if marked else body
    return [*atoms, Sync(2 * US)]


def ranged(times):
    op = operator("aten::mm", 40 * US, Launch(6 * US, (("math", 20 * US),)))
    return Slice("evaluate", "user_annotation", (op,) * times)


def ending(frames):
    work = [operator("aten::mm", 20 * US, Launch(6 * US, (("math", 40 * US),))), Work(5 * US)]
    open_ = line("<built-in method wait_for of X>", *work, Work(400 * MS))
    for number in range(frames):
        open_ = line(f"train.py({number}): call", Work(US), open_, Work(US))
    return [*work * 60, Sync(2 * US), open_]


def copying(place, kernel_ns):
    direction = "HtoD (Pageable -> Device)" if place == "before" else "DtoH (Device -> Pageable)"
    copied = BlockingCopy(2 * MS, 3 * MS, name=f"Memcpy {direction}")
    copies = [operator("aten::copy_", 3 * US, copied)] * 30
    once, first = ((), copies) if place == "before" else (copies, [])
    return [*first, *loop(once=once, marked=False, kernel_ns=kernel_ns)]


LONG_CALL = operator("aten::mm", 20 * US, Launch(200 * MS, (("math", 400 * US),)))
FREE = [Sync(2 * US), Call("cudaFree", 200 * MS, "allocation")]
SAVED = BlockingCopy(2 * US, 5 * MS, name="Memcpy DtoH (Device -> Pageable)")
INPUT = BlockingCopy(2 * US, 3 * MS, name="Memcpy HtoD (Pageable -> Device)")
INPUTS = [operator("aten::copy_", 3 * US, INPUT)] * 12
VARIANTS = [
    operator("aten::conv2d", 20 * US, Launch(6 * US, (Op("math", 3 * MS, f"variant_{n}"),)))
    for n in range(20)
]
FIRST = step(0, *(each for _ in range(40) for each in (Work(2 * MS), *loop(1)[0].atoms[:2])))
COPIES = {("copies", "host", "copy"): 60, ("copies", "device", "copy"): 90}
LATE, BUSY = "overhead-bound", "compute-bound"
# In most steps, another call takes milliseconds: the thread is kept from running.
KEPT = [
    step(
        number,
        *loop(1)[0].atoms,
        *[operator(f"aten::{chr(97 + number)}", 9 * US, Work(200 * MS, "dispatch"))]
        * (number % 3 > 0),
    )
    for number in range(12)
]
# By title: a program, its regime, and the ms beyond the usual of what happens once, by its kind,
# side and cause.
ONCE = {
    "a long stretch in a step":
        (loop(once=[Work(200 * MS)]), BUSY, {("stretch", "host", "unrecorded-time"): 200}),
    "a long stretch early in the run":
        (loop(9, [Work(200 * MS)]), BUSY, {("stretch", "host", "unrecorded-time"): 200}),
    "a long stretch without steps":
        (loop(once=[Work(200 * MS)], marked=False), BUSY,
         {("stretch", "host", "unrecorded-time"): 200}),
    "a long launch in a step": (loop(once=[LONG_CALL]), BUSY, {("stretch", "host", "launch"): 200}),
    "a long launch without steps":
        (loop(once=[LONG_CALL], marked=False), BUSY, {("stretch", "host", "launch"): 200}),
    # It may wait, but finds nothing to wait for.
    "a long free in a step": (loop(9, FREE), BUSY, {("allocation", "host", "allocation"): 200}),
    "a long free without steps":
        (loop(9, FREE, marked=False), BUSY, {("allocation", "host", "allocation"): 200}),
    # Before most launches, as one that a warm-up helps against.
    "a long call that the device works through":
        (loop(9, [line("<built-in function mkdir>", Work(90 * MS))], kernel_ns=5 * MS), BUSY,
         {("stretch", "host", "python"): 90}),
    "a checkpoint in a step":
        (loop(12, [operator("aten::copy_", 3 * US, SAVED)] * 30), BUSY,
         {("step", "device", "copy"): 150}),
    "copies before a late host": (copying("before", 5 * US), LATE, COPIES),
    "copies before a busy device": (copying("before", 400 * US), BUSY, COPIES),
    "copies within a late host's run": (copying("within", 5 * US), LATE, COPIES),
    "copies within a busy device's run": (copying("within", 400 * US), BUSY, COPIES),
    "kernels that are tried out in one step":
        (loop(once=VARIANTS, kernel_ns=5 * US), LATE,
         {("step", "device", "math-or-memory"): 60, ("step", "host", "dispatch"): 0.52}),
    "a slow first step":
        ([FIRST, *loop(6)[1:]], BUSY,
         {("step", "device", "math-or-memory"): 12, ("step", "host", "unrecorded-time"): 80.9}),
    # Recurring work is no one-off.
    "a range that holds most of the work, seventeen times as often":
        ([ranged(10), ranged(10), ranged(170), ranged(10), Sync(2 * US)], LATE, {}),
    "what every step does":
        ([*(step(n, Work(50 * MS), *loop(1)[:-1]) for n in range(6)), Sync(2 * US)], LATE, {}),
    "fetches that never find a batch, the first of them too":
        ([*(step(n, Fetch(60 * US, 20 * MS), *loop(1)[0].atoms) for n in range(5)), Sync(2 * US)],
         LATE, {}),
    "a thread that is kept from running in most steps": ([*KEPT, Sync(2 * US)], LATE, {}),
    "two models, one after the other": ([*loop(6, kernel_ns=900 * US)[:-1], *loop(6)], BUSY, {}),
    "a heavy step in three":
        ([*(loop(1, kernel_ns=(400 if n % 3 else 1_200) * US)[0] for n in range(12)), Sync(2 * US)],
         BUSY, {}),
    "inputs that are copied again": ([*INPUTS, *loop(3, marked=False)[:-1]] * 2, None, {}),
    "few inputs": ([*INPUTS[:3], *loop(marked=False)[:-1]], None, {}),
    # What ends with the recording.
    "an operator that is open at the end":
        ([*loop(marked=False), operator("aten::rpc", 400 * MS)], BUSY, {}),
    "a call that is open at the end":
        ([*loop(marked=False), Call("cudaStreamBeginCaptureToGraph", 400 * MS, "launch")], BUSY,
         {}),
    **{f"{n} open frames": (ending(n), BUSY, {}) for n in (0, 1, 4)},
}  # fmt: skip
# Those that a warm-up helps against: they happen early, or may wait for what is loaded, and the
# device does not work through them.
WARMED = ("a long free", "kernels that are tried out", "a slow first step")
TRACE = {title: TRACES.program(atoms) for title, (atoms, *_) in ONCE.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("title", ONCE)
def test_what_happens_once_is_named_and_left_out_and_what_recurs_is_not(title, analyses):
    _, regime, once_ms = ONCE[title]
    analysis, found = analyses[TRACE[title]], Counter()
    for each in analysis.one_offs:
        found[each.kind, each.side, each.cause] += each.excess_ns / MS
    assert found == pytest.approx(once_ms, rel=0.05)
    assert regime in (None, analysis.verdict.regime)
    assert analysis.verdict.bottleneck not in {c for kind, _, c in found if kind != "step"}
    assert any(each.once for each in analysis.advice) == title.startswith(WARMED)
    if not once_ms:
        assert once_share(analysis) == 0
    if "frames" in title:
        # They are no time of Python's either.
        assert {each.regime for each in analysis.windows} == {BUSY}
        assert not any("python" in why for why in analysis.verdict.why)


@pytest.mark.parametrize("what", ["stretch", "launch"])
def test_a_step_without_the_one_off_is_judged_or_the_rest_of_the_span(what, analyses):
    for title, is_told in (
        (f"a long {what} in a step", False),
        (f"a long {what} without steps", True),
    ):
        analysis = analyses[TRACE[title]]
        assert analysis.windows[0].gains.one_offs_ns > 150 * MS
        assert any("without one-offs" in why for why in analysis.verdict.why) == is_told


def test_the_gains_leave_out_what_one_offs_add(analyses):
    gains = analyses[TRACE["a checkpoint in a step"]].windows[0].gains
    assert gains.device_one_offs_ns == 150 * MS
    assert gains.window_ns == pytest.approx(12 * 4 * MS, rel=0.05)
    assert gains.removed["copy"] < 0.01
    assert analyses[TRACE["a long free in a step"]].causal.gains.removed["allocation"] < 0.01


def test_a_slow_first_step_is_told_with_what_it_does_longer(analyses):
    why = analyses[TRACE["a slow first step"]].verdict.why
    sentence = next(each for each in why if "typical step" in each)
    assert "ProfilerStep#0" in sentence
    assert "more idle by untraced" in sentence


def slowed(number):
    """A loop whose host is the slower side, but in one step, kernels take far longer."""
    atoms = []
    for each in range(9):
        kernel = Launch(6 * US, (("math", (100 if each == number else 20) * US),))
        atoms.append(step(each, *[operator("aten::mm", 30 * US, kernel)] * 40))
    return TRACES.program([*atoms, Sync(2 * US)])


SLOWED = {number: slowed(number) for number in (0, 5)}


@pytest.mark.parametrize("number", SLOWED)
def test_a_step_that_finds_the_work_of_a_slow_one_waiting_is_not_judged(number, analyses):
    analysis = analyses[SLOWED[number]]
    verdict = analysis.verdict
    assert verdict.regime == LATE
    assert analysis.judged.idle.host_late_ns > 0.3 * verdict.window.span_ns
    # No warm-up helps against what comes after steps that show what is usual.
    assert any(each.remedy == "warm-up" for each in analysis.advice) == (number == 0)


def shaped(size):
    """A loop in which the second step's operator takes long, with inputs of this size."""
    kernel = Launch(6 * US, (("math", 400 * US),))
    usual, long = (
        operator("aten::conv2d", ns, kernel, shapes=[[8, 3, width, width]])
        for ns, width in ((20 * US, 64), (200 * MS, size))
    )
    return TRACES.program(
        [*(step(n, *[usual] * 10, *[long] * (n == 1)) for n in range(9)), Sync(2 * US)]
    )


SHAPED = {size: shaped(size) for size in (64, 96)}


@pytest.mark.parametrize(("size", "remedy"), [(64, "warm-up"), (96, "few-shapes")])
def test_a_new_shape_is_not_what_a_warm_up_helps_against(size, remedy, analyses):
    analysis = analyses[SHAPED[size]]
    assert [each.remedy for each in analysis.advice if each.once] == [remedy]
    assert [each.calls for each in analysis.one_offs] == [None if size == 64 else "a new shape"]


def started(cold):
    loading = [Call("cuModuleLoadData", 300 * US, "runtime")] * 12 if cold else []
    call_ns = 1_500 * US if cold else 6 * US
    work = [operator("aten::mm", 20 * US, Launch(call_ns, (("math", 40 * US),)))] * 40
    return TRACES.program([*loading, *work, Sync(2 * US)])


STARTED = {cold: started(cold) for cold in (True, False)}


@pytest.mark.parametrize("cold", STARTED)
def test_advice_on_a_cold_start_begins_with_recording_a_warm_run(cold, analyses):
    analysis = analyses[STARTED[cold]]
    first = analysis.advice[0].remedy if analysis.advice else None
    assert (first == "warm-up") == cold
    assert ("Record a warm run" in analysis.verdict.try_next[0]) == cold
    if cold:
        assert analysis.advice[0].saves_ns >= 40 * 1_500 * US


METHOD = "<built-in method write of _io.BufferedWriter object at 0x7f2f4c0b3a80>"


@TRACES.running(loop(steps=9, once=[line(METHOD, Work(200 * MS))]))
def test_a_built_in_function_is_not_a_line_to_warm_up(trace, analyses):
    analysis = analyses[trace]
    assert [each.name for each in analysis.one_offs] == [METHOD]
    assert [each.name for each in analysis.happened.events] == ["<built-in method write>"]
    assert (analysis.advice[0].remedy, analysis.advice[0].where) == ("warm-up", None)


@pytest.mark.parametrize(
    ("trace", "setting"),
    [
        (TRACE["a checkpoint in a step"], "one_range_ratio=1000"),
        (TRACE["a long launch without steps"], "long_share=0.99"),
    ],
    ids=["a rule in Python", "a rule in SQL"],
)
def test_a_threshold_that_a_user_sets_reaches_the_rules_on_one_offs(
    trace, setting, loaded, analyses
):
    asked = Thresholds().updated([setting])
    assert analyses[trace].one_offs
    assert loaded.verdict(trace, thresholds=asked).one_offs == []
    steady = loaded.whatif("steady", trace=trace, thresholds=asked)
    assert steady.predicted_ns == steady.window_ns


WAITING = [
    slice_event("python_function", name, 1_000, 20_000) | {"pid": 4100, "tid": 77}
    for name in ("threading.py(359): wait", "<built-in method acquire of _thread.lock object>")
]
ALONE = TRACES.program(loop())
BESIDE = TRACES.program(loop(), lose=lambda events: [*events, *WAITING])


def test_a_thread_that_waits_changes_nothing(analyses):
    for one, other in zip(analyses[ALONE].windows, analyses[BESIDE].windows, strict=True):
        assert (one.regime, one.bottleneck) == (other.regime, other.bottleneck)
        assert other.gains.device > 0.3


def stopped(events):
    """The events of a recording that stopped while the device was at the third step of five."""
    kernels = [each for each in events if each.get("cat") == "kernel"]
    return [each for each in events if each not in kernels[23:]]


@TRACES.running(loop(5), lose=stopped)
def test_steps_whose_ops_were_not_recorded_are_not_what_is_usual(trace, analyses):
    assert [each for each in analyses[trace].one_offs if each.side == "device"] == []


@TRACES.running([
    *(operator("aten::mm", 20 * US, Launch(6 * US, ((cause, 400 * US),)))
      for cause in ("math", "memory-bandwidth", "latency") * 2),
    Sync(2 * US),
])  # fmt: skip
def test_a_run_in_which_nothing_repeats_is_reported(trace, analyses):
    verdict = analyses[trace].verdict
    assert any("nothing repeats" in why for why in verdict.why)
    assert verdict.confidence == "low"


def test_a_device_that_is_busy_all_the_time_is_not_waiting_for_the_host(shared_verdict, capsys):
    analysis = shared_verdict("mtia-inference.json.gz")
    console.explain(analysis, every=True)
    assert "+0.045 of the window: compute-bound" in " ".join(capsys.readouterr().out.split())
    # The map of other speeds agrees, though the replays alone say that a faster host gains more.
    gains = analysis.causal.gains
    now = Speed(
        host=1,
        device=1,
        network=1,
        window_ns=gains.window_ns,
        host_gain=gains.host,
        device_gain=gains.device,
        network_gain=0.0,
    )
    assert slower_sides([now], analysis) == ["device"]


def test_windows_that_say_the_same_have_one_row(shared_verdict, capsys):
    def shown(name):
        console.render(shared_verdict(f"{name}.json.gz"))
        return capsys.readouterr().out

    # The first trace is hardly longer than the span; in the last, one step covers all steps.
    assert "Window by window" not in shown("mtia-inference")
    assert "whole trace" in shown("h100-bert-small")
    of_steps = shown("cpu-only")
    assert "\nwhole trace " in of_steps and "\nProfilerStep#551 " not in of_steps


def first_launch(loads_ms, steps):
    first = operator("aten::mm", 20 * US, Launch(loads_ms * MS + 6 * US, (("math", 90 * US),)))
    other = operator("aten::add", 20 * US, Launch(6 * US, (("memory-bandwidth", 40 * US),)))
    atoms = [step(0, first, *[other] * 30), *(step(n, *[other] * 30) for n in range(1, steps))]
    return TRACES.program([*atoms, Sync(2 * US)])


@pytest.mark.parametrize(("trace", "steps", "is_cold"), [
    (first_launch(6, 2), 2, True), (first_launch(0, 2), 2, False), (first_launch(6, 4), 4, False),
])  # fmt: skip
def test_a_first_launch_that_takes_much_of_two_steps_loads_its_code(
    trace, steps, is_cold, analyses
):
    analysis = analyses[trace]
    codes = {each.code for each in analysis.trace.health}
    assert ("cold_start" in codes) == is_cold
    if steps == 2:
        assert any(each.remedy == "warm-up" for each in analysis.advice[:1]) == is_cold


# -- captures of CUDA graphs -----------------------------------------------------------------------

SMALL = operator("aten::add", 9 * US, Launch(6 * US, (("memory-bandwidth", 9 * US),)))


def captured():
    ops = [operator("aten::mm", 3 * US, Call("cudaLaunchKernel", 5 * US, "launch"))] * 20
    return (
        Work(MS, "dispatch"), Call("cudaStreamBeginCapture", 9 * US, "launch"), *ops,
        Call("cudaStreamEndCapture", 9 * US, "launch"),
        Call("cudaGraphInstantiateWithFlags", MS, "compilation"),
    )  # fmt: skip


def replayed(size=8):
    gemms = (Op("math", 50 * US, "gemm", {"grid": [size, 1, 1]}),) * 20
    return Launch(40 * US, gemms, name="cudaGraphLaunch")


def compiled(captures):
    return operator("CompiledFunction", 9 * US, *(captured() if captures else ()), replayed())


def passes(*each):
    return [atom for body in each for atom in (*[SMALL] * 3, *body, Sync(2 * US))]


SIZES = (64, 32, 16, 8)
LAYERS = [[compiled(True) for _ in range(12)]]
CAPTURES = {
    "every other pass": (passes(*([compiled(n % 2 == 0)] for n in range(10))), True),
    "every pass, by hand": (passes(*[[*captured(), replayed()]] * 8), True),
    "every step": ([step(n, SMALL, compiled(True)) for n in range(6)], True),
    "the first two passes": (passes(*([compiled(n < 2)] for n in range(10))), False),
    "one step of three": ([step(n, SMALL, compiled(n % 3 == 0)) for n in range(9)], False),
    "a server's start": (passes(*[captured()] * 4), False),
    "a server's start, each size run once": (
        passes(*([*captured(), replayed(size)] for size in SIZES)), False
    ),
    "layers that are the same": (passes(*LAYERS, *[[compiled(False)] * 12] * 2), False),
}  # fmt: skip
CAPTURING = {TRACES.program([*atoms, Sync(2 * US)]): recurs for atoms, recurs in CAPTURES.values()}


@pytest.mark.parametrize(("trace", "recurs"), CAPTURING.items(), ids=list(CAPTURES))
def test_captures_happen_once_unless_the_same_work_is_captured_again(trace, recurs, analyses):
    analysis = analyses[trace]
    assert any(each.kind == "capture" for each in analysis.one_offs) != recurs
    advised = {each.once for each in analysis.advice if each.remedy == "capture-once"}
    assert advised == {not recurs}
