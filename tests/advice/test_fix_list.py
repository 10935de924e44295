"""The fix list as a whole: several faults at once, combinations, and the output for a user."""

import json
import random

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import tracekit
from tests.controls.host import LOADER, READ, SYNCHRONIZED, pinned
from tests.controls.planting import SYNC
from tests.kit.analyzed import Answering, advice, combination, fix_list
from tests.kit.atoms import US, BlockingCopy, Fetch, Launch, Slice, Work, line, operator, step
from tests.kit.processes import invoke
from tests.kit.sampling import sample
from tests.kit.simulated import Programs, write
from tests.kit.simulator import Simulation
from tracekit.advice.find import of_part
from tracekit.advice.model import misses
from tracekit.advice.once import advice_without_share
from tracekit.commands import cli
from tracekit.database.remedies import all_remedies
from tracekit.evidence.collect import reached
from tracekit.examine import examine
from tracekit.replay.changes import Remedies
from tracekit.replay.model import Price
from tracekit.reporters.advise import render, render_whatif
from tracekit.reporters.parts import ONCE, lists_of
from tracekit.text import duration, percent
from tracekit.thresholds import Thresholds
from tracekit.verdict.next_steps import bound_then

SMALL = 8_000_000
# For each remedy: a step's atoms with a fault, and the atoms without it.
FAULTS = {
    "dataloader-workers": (
        [Slice(LOADER, "user_annotation", (Work(1500 * US, "input"),))],
        [Fetch(100 * US, 500 * US, ahead=4)],
    ),
    "sync-by-line": (
        [READ], [operator("aten::item", US, operator("aten::_local_scalar_dense", 2 * US))],
    ),
    "explicit-synchronize": ([SYNCHRONIZED], []),
    "pinned-copies": (
        [operator("aten::copy_", 3 * US, BlockingCopy(400 * US, 900 * US, bytes=SMALL))],
        [operator("aten::copy_", 3 * US, pinned(SMALL, 320 * US))],
    ),
}  # fmt: skip
COPIES = ["pinned-copies", "dataloader-workers"]
SEEDS = sample("pairs and triples of planted faults", list(range(40)), [0, 4])


def program(seed, planted, kept):
    """Steps with operators before, between and after the planted faults; those in `kept` are
    present, the others are mended."""
    rng = random.Random(seed)
    host_us, op_us = rng.randint(10, 25), rng.randint(4, 30)

    def stretch():
        ops = (("math", op_us * US),)
        return [operator("aten::mm", host_us * US, Launch(5 * US, ops))] * rng.randint(15, 40)

    # Labels come from pinned memory, so the speed of such copies is known.
    atoms = [line("data.py(3): labels", operator("aten::copy_", 3 * US, pinned(SMALL, 320 * US)))]
    atoms += stretch()
    for name in planted:
        atoms += [line(f"train.py(7): {name}", *FAULTS[name][name not in kept]), *stretch()]
    return [step(n, *atoms, Work(10 * US)) for n in range(4)] + [SYNC]


def span(seed, planted, kept):
    simulation = Simulation(program(seed, planted, kept), seed=seed)
    list(simulation.events())
    return simulation.span_ns


WAITS = [
    line("train.py(7): log", *FAULTS["sync-by-line"][0]),
    line("train.py(9): time", *FAULTS["explicit-synchronize"][0]),
]
EVIL = "evil\x1b[2J.py(3): f[/bold]"


def products(count, host_us, op_us):
    return [operator("aten::mm", host_us * US, Launch(4 * US, (("math", op_us * US),)))] * count


def planted_in(seed):
    rng = random.Random(seed)
    return rng.sample(sorted(FAULTS), rng.choice([2, 3]))


# Steps of programs, and random programs by their seed.
STEPS = {
    "two waits for the same work": [*products(40, 6, 20), *WAITS, *products(20, 41, 3)],
    "one fault": [line("train.py(7): load", *FAULTS["dataloader-workers"][0]),
                  *products(40, 5, 30)],
    "sound": products(40, 5, 200),
    "one launch": products(1, 60, 2),
    "text that controls a terminal": [
        line(EVIL, *products(20, 12, 20), *FAULTS["sync-by-line"][0], *products(20, 12, 20))
    ],
}  # fmt: skip
PROGRAMS = {name: [*(step(n, *atoms) for n in range(4)), SYNC] for name, atoms in STEPS.items()}
PROGRAMS |= {seed: program(seed, planted_in(seed), planted_in(seed)) for seed in SEEDS}
PROGRAMS["copies and loads"] = program(1, COPIES, COPIES)
TRACES = Programs()
TRACE = {
    name: TRACES.program(atoms, seed=name if isinstance(name, int) else 1)
    for name, atoms in PROGRAMS.items()
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_faults_planted_together_are_all_found_and_priced_together(seed, loaded):
    planted = planted_in(seed)
    faulty_ns, fixed_ns = span(seed, planted, planted), span(seed, planted, [])
    fixes = loaded.advise(trace=TRACE[seed], window="gpu_active")
    changes = (f"remedy:{name}" for name in planted)
    together = loaded.whatif(*changes, trace=TRACE[seed], window="gpu_active")
    saved_ns = together.window_ns - together.predicted_ns
    assert saved_ns == pytest.approx(faulty_ns - fixed_ns, rel=0.05), planted
    # The list has each fault that costs something while the others are gone.
    costly = [
        name
        for name in planted
        if span(seed, planted, [name]) - fixed_ns > 0.015 * faulty_ns
        and faulty_ns - span(seed, planted, set(planted) - {name}) > 0.015 * faulty_ns
    ]
    assert set(costly) <= {each.remedy for each in fixes.advice}
    added = fixes.together.additions if fixes.together else []
    assert sum(each.adds_ns for each in added) == (fixes.together.saves_ns if added else 0)


def test_a_step_in_a_graph_takes_as_long_as_the_launch_of_the_graph(loaded):
    whole = loaded.whatif("cuda-graph", trace=TRACE["one launch"], window="gpu_active")
    floor_ns = Thresholds().launch_floor_ns
    assert 3 * floor_ns < whole.predicted_ns < whole.window_ns / 2


def test_a_change_misses_a_bottleneck_that_none_of_its_causes_is():
    names = ("cuda-graph", "tensor-cores", "warm-up", "waiting-for-a-rank")
    listed = [advice_without_share(all_remedies()[name], "python", None, 1, US) for name in names]
    listed = [replace(each, once=each.remedy == "warm-up") for each in listed]
    assert [misses(each, "launch") for each in listed] == [False, True, False, False]


def test_two_fixes_of_one_wait_do_not_add_up(loaded):
    trace = TRACE["two waits for the same work"]
    alone = {each.remedy: each.saves_ns for each in loaded.advise(trace=trace).advice}
    both = loaded.whatif("remedy:sync-by-line", "remedy:explicit-synchronize", trace=trace)
    # The second wait is for the same work as the first.
    assert sum(alone.get(name, 0) for name in ("sync-by-line", "explicit-synchronize")) < (
        both.window_ns - both.predicted_ns
    )


def test_one_change_is_the_best_combination_and_comes_with_the_new_bound(loaded, capsys):
    fixes = loaded.advise(trace=TRACE["one fault"])
    assert [each.remedy for each in fixes.together.additions] == ["dataloader-workers"]
    assert fixes.together.saves_ns == fixes.advice[0].saves_ns
    assert fixes.together.device_gain > fixes.together.host_gain
    assert sum(fixes.together.bound_by.values()) == pytest.approx(1)
    render(fixes)
    printed = capsys.readouterr().out
    assert "no other change adds enough to it" in printed
    assert "Then the run is compute-bound" in printed


@pytest.mark.parametrize(
    ("path", "device", "sentence"),
    [
        ({"math": 0.6, "latency": 0.4}, 0.3, "compute-bound (halving the device's work would gain"),
        ({"math": 0.6, "latency": 0.4}, 0.01, "neither side bounds the run"),
        ({"unknown": 0.9, "math": 0.1}, 0.01, "does not explain 90.0 % of its critical path"),
    ],
)
def test_the_bound_after_the_changes_is_shown_only_if_it_is_known(path, device, sentence):
    together = combination(bound_by=path, device_gain=device)
    assert sentence in bound_then(together, Thresholds())


def test_a_share_of_the_peak_is_not_shown_if_hardly_any_work_is_known():
    """Work near its roofs is said to be, if nearly all of it is known."""
    for counted, roofs, sentences in ((0.002, 0.7, 0), (0.7, 0.7, 1), (0.9, 0.5, 1), (0.9, 0.7, 2)):
        row = {"share_of_peak": 0.3, "share_counted": counted, "of_roofs": roofs}
        row |= {"matrix_share": 0.6, "matrix_of_peak": 0.5}
        assert len(reached(Answering(mfu=[row]), 1, Thresholds())) == sentences


def test_a_host_that_computes_is_not_called_overhead_bound_after_the_changes():
    together = combination(bound_by={"math": 0.9, "python": 0.1}, host_gain=0.5)
    assert bound_then(together, Thresholds()) == "Then 90.0 % of the run's critical path is math."


def test_a_share_over_the_peak_is_said_to_be_impossible():
    row = {"share_of_peak": 1.3, "share_counted": 1.0, "of_roofs": 1.0}
    row |= {"matrix_share": 1.0, "matrix_of_peak": 1.389}
    (sentence,) = reached(Answering(mfu=[row]), 1, Thresholds())
    assert "138.9 % of the device's peak. That cannot be" in sentence


def test_remedies_find_the_same_when_a_large_trace_saves_memory(shared_database, monkeypatch):
    database = shared_database("v100-dlrm-rank0.json.gz")
    names = ["torch-compile", "waiting-for-a-rank"]

    def found():
        remedies = Remedies(database, 1)
        remedies.ask(names)
        columns = [remedies.rows(name) for name in names]
        return [sorted(zip(*map(np.ma.getdata, each.values()), strict=True)) for each in columns]

    usual = found()
    monkeypatch.setitem(vars(database), "is_large", True)
    assert found() == usual
    assert usual[0]


def test_advice_on_a_sound_run_says_that_nothing_was_found(loaded):
    fixes = loaded.advise(trace=TRACE["sound"])
    assert fixes.advice == []
    assert any("No remedy" in note for note in fixes.notes)


def test_the_list_is_printed_and_is_json(loaded, tmp_path):
    atoms = PROGRAMS["copies and loads"]
    path = tmp_path / "run.duckdb"
    tracekit.load(write(tmp_path / "t.json", Simulation(atoms, seed=1)), path).close()
    fixes = loaded.advise(trace=TRACE["copies and loads"])
    printed = invoke("advise", path).stdout
    for said in ("What to change", "The best of them together", "train.py(7)"):
        assert said in printed
    found = json.loads(invoke("advise", path, "--json").stdout)
    assert found["schema"] == "tracekit/advice/1"
    assert [each["saves_ns"] for each in found["advice"]] == [e.saves_ns for e in fixes.advice]
    first = fixes.advice[0]
    assert first.share == pytest.approx(first.saves_ns / fixes.window_ns)
    predicted = loaded.whatif(first.change, "steady", trace=TRACE["copies and loads"])
    assert predicted.window_ns - predicted.predicted_ns == first.saves_ns


def test_one_off_events_have_their_own_list_and_recording_less_is_a_caveat(capsys):
    listed = [
        advice("cuda-graph", 0.3, saves_ns=300 * US),
        advice("profiler-cost", 0.9, saves_ns=900 * US, cause="python"),
        advice("capture-once", None, saves_ns=5_000 * US),
        advice("warm-up", None, saves_ns=2_000 * US),
    ]
    lists = dict(lists_of(listed, "What to change"))
    assert [[each.remedy for each in part] for part in lists.values()] == [
        ["cuda-graph"],
        ["capture-once", "warm-up"],
    ]
    assert next(iter(dict(lists_of(listed[2:], "What to change")))) == ONCE
    render(fix_list(*listed, window_ns=1_000 * US, bottleneck="launch"))
    recurring, once = capsys.readouterr().out.split("What happened once")
    once, caveats = once.split("Caveats")
    assert "5 ms" not in recurring and "%" not in once.split("Requirements and doubts")[0]
    assert "profiler-cost" in caveats and "profiler-cost" not in recurring + once


def test_how_to_apply_each_remedy_is_printed():
    for name, remedy in all_remedies().items():
        printed = CliRunner().invoke(cli, ["advise", "--how", name]).output
        assert remedy.title in printed
        assert all(source in printed for source in remedy.sources), name
    unknown = CliRunner().invoke(cli, ["advise", "--how", "nothing"])
    assert "there is no remedy named 'nothing'" in str(unknown.exception)


def test_bad_changes_of_remedies_are_refused(loaded):
    for change, said in (
        ("remedy:nothing", "there is no remedy named"),
        ("remedy:top-kernels", "there is no remedy named"),
        ("remedy:sync-by-line:elsewhere.py(1): f", "matches nothing"),
        ("remedy:", "is not a change"),
    ):
        with pytest.raises(tracekit.TracekitError, match=said):
            loaded.whatif(change, trace=TRACE["two waits for the same work"])


def test_text_from_a_trace_cannot_control_the_terminal(loaded, capsys):
    render(loaded.advise(trace=TRACE["text that controls a terminal"]))
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "[/bold]" in printed


def test_the_whole_list_on_a_database_of_several_traces_asks_for_one(loaded):
    with pytest.raises(tracekit.TracekitError, match="choose"):
        loaded.advise()
    assert loaded.advise(trace=2).advice == examine(loaded, 2).analysis.advice


# Loading takes the host most of a step, and recording ten times as long as the step without it.
LOADED = Slice(LOADER, "user_annotation", (Work(9_000 * US, "input"),))
DILATED = {"tracekit": {"profiled_step_ns": 10_000 * US, "unprofiled_step_ns": 1_000 * US}}
SLOWED = {
    "with a device": TRACES.program(
        [*(step(n, LOADED, *products(40, 5, 20)) for n in range(4)), SYNC], **DILATED
    ),
    "on a CPU": TRACES.program(
        [step(n, LOADED, *[operator("aten::mm", 25 * US)] * 40) for n in range(4)], **DILATED
    ),
}


@pytest.mark.parametrize("where", SLOWED)
def test_a_saving_and_its_length_are_of_one_run_where_recording_slows_it(where, loaded, capsys):
    analysis = loaded.verdict(trace=SLOWED[where])
    [best, *_] = analysis.advice
    whole = loaded.advise(trace=SLOWED[where])
    assert best.remedy == "dataloader-workers"
    assert 0 < best.saves_ns < analysis.priced_ns == whole.window_ns < 4_200 * US
    for each in analysis.advice:
        of_ns = each.saves_ns / each.share
        recorded_ns = loaded.whatif(each.change, trace=SLOWED[where]).saves_of_ns
        assert 0 < each.share <= 1
        assert of_ns == pytest.approx(recorded_ns, abs=1)
        assert (round(of_ns) == analysis.priced_ns) == (each.remedy != "profiler-cost")
    assert whole.together.share == whole.together.saves_ns / whole.window_ns <= 1
    render_whatif(loaded.whatif(best.change, trace=SLOWED[where]))
    left = f"{duration(whole.window_ns)} -> {duration(whole.window_ns - best.saves_ns)}"
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith(f"{percent(best.share)} shorter") and left in told


def test_a_price_in_a_part_is_never_longer_than_the_part():
    assert Price(saves_ns=310, of_ns=400).of_part(100) == Price(saves_ns=10, of_ns=100)
    assert Price(saves_ns=40, of_ns=400).of_part(100) == Price(saves_ns=40, of_ns=100)
    # It may save a part of the rest alone.
    assert Price(saves_ns=150, of_ns=400).of_part(100) == Price(saves_ns=0, of_ns=100)
    assert Price(saves_ns=0, of_ns=0).share == 0


def test_a_fix_list_of_a_part_keeps_what_recording_costs():
    recording, loading = (
        replace(
            advice_without_share(all_remedies()[name], "python", None, 1, 60), share=0.6, once=False
        )
        for name in ("profiler-cost", "dataloader-workers")
    )
    part = of_part(fix_list(recording, loading), 50)
    assert part.advice[0] == recording
    assert (part.advice[1].saves_ns, part.advice[1].share, part.window_ns) == (10, 0.2, 50)
