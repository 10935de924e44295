"""Verdicts are about the steady state: one-offs are found, priced and left out."""

from __future__ import annotations

import pytest

from tests.kit.atoms import (
    MS,
    US,
    BlockingCopy,
    Call,
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
from tracekit.verdict.regime import slower_sides

SEEDS = sample("random programs with planted one-offs", range(1000), range(4))


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


LONG_CALL = operator("aten::mm", 20 * US, Launch(200 * MS, (("math", 400 * US),)))


ONCE = {
    (cause, marked): TRACES.program(loop(once=[once], marked=marked))
    for cause, once in (("unrecorded-time", Work(200 * MS)), ("launch", LONG_CALL))
    for marked in (True, False)
}


@pytest.mark.parametrize(("cause", "marked"), ONCE)
def test_one_long_event_does_not_decide(cause, marked, analyses):
    analysis = analyses[ONCE[cause, marked]]
    assert analysis.verdict.regime == "compute-bound"
    (event,) = analysis.one_offs
    assert event.excess_ns == pytest.approx(200 * MS, rel=0.01)
    assert event.cause == cause
    assert analysis.windows[0].gains.one_offs_ns > 150 * MS
    # The step of median length has no part of it.
    assert any("without one-offs" in why for why in analysis.verdict.why) != marked


def ranged(times):
    op = operator("aten::mm", 40 * US, Launch(6 * US, (("math", 20 * US),)))
    return Slice("evaluate", "user_annotation", (op,) * times)


# Programs in which nothing happens once, and their regimes.
STEADY = {
    "a range that holds most of the work, seventeen times as often": (
        TRACES.program([ranged(10), ranged(10), ranged(170), ranged(10), Sync(2 * US)]),
        "overhead-bound",
    ),
    "what every step does": (
        TRACES.program(
            [*(step(number, Work(50 * MS), *loop(1)[:-1]) for number in range(6)), Sync(2 * US)]
        ),
        "overhead-bound",
    ),
}


@pytest.mark.parametrize("title", STEADY)
def test_recurring_events_are_not_one_offs(title, analyses):
    trace, regime = STEADY[title]
    assert analyses[trace].one_offs == []
    assert analyses[trace].verdict.regime == regime


FREED = {
    marked: TRACES.program(
        loop(steps=9, once=[Sync(2 * US), Call("cudaFree", 200 * MS, "allocation")], marked=marked)
    )
    for marked in (True, False)
}


@pytest.mark.parametrize("marked", FREED)
def test_a_long_call_that_may_wait_but_finds_nothing_to_wait_for_is_a_one_off(marked, analyses):
    analysis = analyses[FREED[marked]]
    assert analysis.verdict.regime == "compute-bound"
    (event,) = analysis.one_offs
    assert (event.name, event.cause) == ("cudaFree", "allocation")
    assert event.excess_ns == pytest.approx(200 * MS, rel=0.01)
    assert analysis.causal.gains.removed["allocation"] < 0.01
    # It takes longer than all the rest: the first advice is to warm up.
    assert [each.once for each in analysis.advice][:1] == [True]


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


def ending(frames):
    work = [operator("aten::mm", 20 * US, Launch(6 * US, (("math", 40 * US),))), Work(5 * US)]
    open_ = line("<built-in method wait_for of X>", *work, Work(400 * MS))
    for number in range(frames):
        open_ = line(f"train.py({number}): call", Work(US), open_, Work(US))
    return TRACES.program([*work * 60, Sync(2 * US), open_])


@pytest.mark.parametrize("trace", [ending(0), ending(1), ending(4)])
def test_frames_that_end_with_the_recording_are_neither_python_time_nor_a_one_off(trace, analyses):
    analysis = analyses[trace]
    assert analysis.one_offs == []
    assert "warm-up" not in {each.remedy for each in analysis.advice}
    assert {each.regime for each in analysis.windows} == {"compute-bound"}
    assert not any("python" in why for why in analysis.verdict.why)


BUILT_IN = TRACES.program(loop(steps=9, once=[line("<built-in function mkdir>", Work(200 * MS))]))


def test_no_warm_up_is_advised_against_an_event_of_the_second_half(analyses):
    analysis = analyses[ONCE["unrecorded-time", True]]
    assert len(analysis.one_offs) == 1
    assert not any(each.once for each in analysis.advice)


def test_a_built_in_function_is_not_a_line_to_warm_up(analyses):
    analysis = analyses[BUILT_IN]
    assert [each.name for each in analysis.one_offs] == ["<built-in function mkdir>"]
    assert (analysis.advice[0].remedy, analysis.advice[0].where) == ("warm-up", None)


SAVED = BlockingCopy(2 * US, 5 * MS, name="Memcpy DtoH (Device -> Pageable)")
SAVING = TRACES.program(loop(steps=12, once=[operator("aten::copy_", 3 * US, SAVED)] * 30))


def test_a_checkpoint_in_one_of_the_steps_does_not_decide(analyses):
    analysis = analyses[SAVING]
    assert (analysis.verdict.regime, analysis.verdict.bottleneck) == (
        "compute-bound", "math-or-memory",
    )  # fmt: skip
    (event,) = analysis.one_offs
    assert (event.kind, event.side, event.cause) == ("step", "device", "copy")
    assert (event.name, event.excess_ns) == ("ProfilerStep#3", 150 * MS)
    gains = analysis.windows[0].gains
    assert gains.device_one_offs_ns == 150 * MS
    assert gains.window_ns == pytest.approx(12 * 4 * MS, rel=0.05)
    assert gains.removed.get("copy", 0) < 0.01


@pytest.mark.parametrize(
    ("trace", "setting"),
    [(SAVING, "one_range_ratio=1000"), (ONCE["launch", False], "long_share=0.99")],
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


def copying(place, kernel_ns):
    direction = "HtoD (Pageable -> Device)" if place == "before" else "DtoH (Device -> Pageable)"
    copied = BlockingCopy(2 * MS, 3 * MS, name=f"Memcpy {direction}")
    copies = [operator("aten::copy_", 3 * US, copied)] * 30
    once, first = ((), copies) if place == "before" else (copies, [])
    return TRACES.program([*first, *loop(once=once, marked=False, kernel_ns=kernel_ns)])


@pytest.mark.parametrize(("trace", "regime"), [
    (copying("before", 5 * US), "overhead-bound"), (copying("before", 400 * US), "compute-bound"),
    (copying("within", 5 * US), "overhead-bound"), (copying("within", 400 * US), "compute-bound"),
])  # fmt: skip
def test_copies_in_a_row_do_not_decide(trace, regime, analyses):
    analysis = analyses[trace]
    assert analysis.verdict.regime == regime
    assert analysis.verdict.bottleneck != "copy"
    assert [(each.kind, each.side) for each in analysis.one_offs] == [
        ("copies", "host"), ("copies", "device"),
    ]  # fmt: skip
    assert analysis.one_offs[1].excess_ns == 90 * MS
    assert not any(each.once for each in analysis.advice)


INPUT = BlockingCopy(2 * US, 3 * MS, name="Memcpy HtoD (Pageable -> Device)")
INPUTS = [operator("aten::copy_", 3 * US, INPUT)] * 12
RECURRING = [
    TRACES.program([*atoms, Sync(2 * US)])
    for atoms in (
        [*INPUTS, *loop(3, marked=False)[:-1]] * 2, [*INPUTS[:3], *loop(marked=False)[:-1]]
    )
]  # fmt: skip


@pytest.mark.parametrize("trace", RECURRING)
def test_recurring_copies_are_not_one_offs(trace, analyses):
    assert not [each for each in analyses[trace].one_offs if each.kind == "copies"]


VARIANTS = [
    operator("aten::conv2d", 20 * US, Launch(6 * US, (Op("math", 3 * MS, f"variant_{n}"),)))
    for n in range(20)
]
TRIED = TRACES.program(loop(once=VARIANTS, kernel_ns=5 * US))


def test_kernels_that_are_tried_out_in_one_step_do_not_hide_a_late_host(analyses):
    analysis = analyses[TRIED]
    assert analysis.verdict.regime == "overhead-bound"
    assert {(each.kind, each.side) for each in analysis.one_offs} == {
        ("step", "device"), ("step", "host"),
    }  # fmt: skip
    assert analysis.gpu.busy_ns > 0.9 * analysis.window.span_ns


FIRST = step(0, *(each for _ in range(40) for each in (Work(2 * MS), *loop(1)[0].atoms[:2])))
SLOW_FIRST = TRACES.program([FIRST, *loop(6)[1:]])


def test_a_slow_first_step_is_named_and_left_out(analyses):
    analysis = analyses[SLOW_FIRST]
    assert analysis.verdict.regime == "compute-bound"
    assert {each.name for each in analysis.one_offs} == {"ProfilerStep#0"}
    sentence = next(why for why in analysis.verdict.why if "typical step" in why)
    assert "ProfilerStep#0" in sentence
    assert "more idle by untraced" in sentence


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


SINGLE = TRACES.program([
    *(operator("aten::mm", 20 * US, Launch(6 * US, ((cause, 400 * US),)))
      for cause in ("math", "memory-bandwidth", "latency") * 2),
    Sync(2 * US),
])  # fmt: skip


def test_a_run_in_which_nothing_repeats_is_reported(analyses):
    verdict = analyses[SINGLE].verdict
    assert any("nothing repeats" in why for why in verdict.why)
    assert verdict.confidence == "low"


def test_a_device_that_is_busy_all_the_time_is_not_waiting_for_the_host(shared_verdict, capsys):
    analysis = shared_verdict("mtia-inference.json.gz")
    console.explain(analysis, Thresholds())
    assert "+0.045 of the window: compute-bound" in " ".join(capsys.readouterr().out.split())
    # The map of other speeds agrees, though the replays alone say that a faster host gains more.
    gains = analysis.causal.gains
    now = Speed(1, 1, 1, gains.window_ns, gains.host, gains.device, 0.0)
    assert slower_sides([now], analysis) == ["device"]
    assert min(min(each.host_gain, each.device_gain) for each in analysis.phases) > -0.1


SLOW = [operator("aten::mm", 300 * US, Launch(6 * US, (("math", 400 * US),))), Work(5 * US)]
SLOW_START = TRACES.program([*SLOW * 10, *loop(10, marked=False)])


def test_a_slow_start_of_a_run_without_steps_is_left_out(analyses):
    analysis = analyses[SLOW_START]
    assert analysis.verdict.regime == "compute-bound"
    assert {each.kind for each in analysis.one_offs} == {"start"}
    assert 1.5 * MS < sum(each.excess_ns for each in analysis.one_offs) < 3 * MS


def test_windows_that_say_the_same_have_one_row(shared_verdict, capsys):
    def shown(name):
        console.render(shared_verdict(f"{name}.json.gz"))
        return capsys.readouterr().out

    # The first trace is hardly longer than the span; in the last, one step covers all steps.
    assert "Window by window" not in shown("a100-vit-recapture")
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
