"""Nothing impossible is said: of programs that are captured, and of mutants of real traces. (The
answers to all other traces pass the guard where tests/answers.py compares them.)"""

from __future__ import annotations

import copy
import json
import re
import traceback
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import OWN_TRACES, SHARED_TRACES
from tests.kit import impossible
from tests.kit.answered import Answer, shown
from tests.kit.mutants import bases, mutant
from tests.kit.sampling import sample
from tests.kit.traces import Together, document, launched, operator, slice_event, step
from tracekit.reporters import console

REPOSITORY = Path(__file__).parents[2]


# -- the guard -------------------------------------------------------------------------------------


def with_json(change: Callable[[dict[str, Any]], object]) -> Callable[[Answer], Answer]:
    """A change of the answer's JSON."""

    def changed(answer: Answer) -> Answer:
        found = copy.deepcopy(answer.analysis)
        change(found)
        return replace(answer, analysis=found)

    return changed


def with_text(old: str, new: str) -> Callable[[Answer], Answer]:
    """A change of the first screen."""
    return lambda answer: replace(answer, screen=answer.screen.replace(old, new))


def few_shapes(found: dict[str, Any]) -> None:
    found["advice"][0]["remedy"] = "few-shapes"
    found["steps"] = found["steps"][:1]


def doubt(found: dict[str, Any]) -> None:
    found["verdict"].update(confidence="high", doubts=["The device's clock is late."])


def doubt_of_json(found: dict[str, Any]) -> None:
    doubt = {"code": "close_call", "sentence": "It is a close call.", "stated": False}
    found["verdict"]["lowered_by"].insert(0, doubt)


def another_cause(found: dict[str, Any]) -> None:
    """The first sentence names a short part of the host's time."""
    found["verdict"].update(
        regime="overhead-bound", bottleneck="launch", headline="It launches much.", notes=[]
    )


def once(found: dict[str, Any]) -> None:
    found["steps"] = found["steps"][:1]
    for each in found["top_kernels"]:
        each["count"] = 1


def with_stage(**parts: int) -> dict[str, Any]:
    """A run with a pipeline of two stages, of which one has other parts."""
    stage = {"work_ns": 9, "fill_ns": 1, "between_ns": 1, "drain_ns": 1, "rest_ns": 2}
    pipeline = {"idle_ns": 3, "least_idle_ns": 3, "ranks": [stage, stage | parts]}
    return {"bubble_ns": 0, "pipeline": pipeline}


# A wrong answer for each rule.
WRONG: list[tuple[str, Callable[[Answer], Answer]]] = [
    ("nothing_is_negative", with_json(lambda f: f["judged"]["gains"].update(one_offs_ns=-931_500))),
    ("windows_end_after_they_start", with_json(lambda f: f["window"].update(span_ns=7))),
    ("windows_end_after_they_start", with_json(lambda f: f["one_offs"][0].update(start_ns=0))),
    ("parts_add_up", with_json(lambda f: f["gpu"].update(idle_ns=7))),
    ("parts_add_up", with_json(lambda f: f["judged"]["idle"]["causes"].update(input=7))),
    ("shares_add_up", with_json(lambda f: f["causal"]["path"].update(input=0.9))),
    ("shares_add_up", with_json(lambda f: f["top_kernels"][0].update(share_of_kernel_time=0.9))),
    (
        "nothing_saves_more_than_all",
        with_json(lambda f: f["advice"][0].update(saves_ns=10**9, share=7.433)),
    ),
    (
        "nothing_saves_more_than_all",
        lambda a: replace(
            a, whatif={"saves_ns": 5_120_000_000, "window_ns": 850_000_000, "predicted_ns": 1}
        ),
    ),
    (
        "nothing_is_faster_than_the_device",
        with_json(lambda f: f["units"][0].update(floor_ns=10**9)),
    ),
    (
        "nothing_is_faster_than_the_device",
        with_json(lambda f: f["units"][0].update(must_ns=f["units"][0]["median_ns"] - 1)),
    ),
    ("prices_have_one_base", with_json(lambda f: f["advice"][0].update(share=0.1))),
    ("listed_shares_are_of_one_length", with_text("62.9 %", "52.9 %")),
    ("no_share_is_over_100", with_text("46.1 %", "743.3 %")),
    (
        "no_share_is_over_100",
        with_json(lambda f: f["verdict"]["why"].append("It runs at 138.9 % of the peak.")),
    ),
    ("sentences_agree_with_the_json", with_json(lambda f: f["judged"]["gpu"].update(busy_ns=7))),
    (
        "the_first_sentence_is_one_clause",
        with_json(lambda f: f["verdict"].update(headline="It waits (1 of 2 ms).")),
    ),
    (
        "the_first_sentence_is_one_clause",
        with_json(lambda f: f["verdict"].update(headline="It waits. " * 9)),
    ),
    ("tables_agree", with_text("46.1 %", "36.1 %")),
    (
        "tables_agree",
        lambda a: replace(a, several="type  waited (of all waiting)\nrecv  60.0 %\nsend  60.0 %\n"),
    ),
    (
        "a_page_says_what_the_json_says",
        lambda a: replace(a, page='<data value="7" data-key="judged.gpu.busy_ns">'),
    ),
    (
        "a_verdict_is_the_same_everywhere",
        with_json(lambda f: f["verdict"].update(confidence="certain")),
    ),
    (
        "a_verdict_is_the_same_everywhere",
        with_json(lambda f: f["verdict"].update(headline="Nothing holds this run up.")),
    ),
    ("a_cause_is_the_longest_of_its_side", with_json(another_cause)),
    ("changes_are_the_same_everywhere", with_json(lambda f: f["advice"].reverse())),
    ("changes_are_the_same_everywhere", with_text("What to change", "What to do")),
    ("doubts_are_the_same_everywhere", with_json(doubt_of_json)),
    ("lines_fit_the_account", with_text("4.54 ms went", "3.54 ms went")),
    ("high_confidence_has_no_doubt", with_json(doubt)),
    ("high_confidence_has_repetition", with_json(once)),
    ("advice_fits_the_trace", with_json(few_shapes)),
    (
        "devices_have_their_name",
        with_json(lambda f: f["trace"].update(devices=["TPU v6 Lite"])),
    ),
    (
        "ranks_wait_no_longer_than_they_run",
        lambda a: replace(
            a,
            run={
                "bubble_ns": 0,
                "waiting": [{"rank": 1, "awaited_ns": 1, "waited_ns": 9, "length_ns": 8}],
            },
        ),
    ),
    (
        "ranks_wait_no_longer_than_they_run",
        lambda a: replace(
            a,
            run={
                "bubble_ns": 0,
                "waiting": [{"rank": 1, "awaited_ns": 8, "waited_ns": 8, "length_ns": 9}],
                "late_ranks": [{"rank": 0, "held_up_ns": 6, "in_pipeline": False}] * 2,
            },
        ),
    ),
    ("stages_add_up", lambda a: replace(a, run=with_stage(drain_ns=99))),
    ("stages_add_up", lambda a: replace(a, run=with_stage(fill_ns=-1, rest_ns=4))),
    (
        "tables_of_a_run_add_up",
        lambda a: replace(a, several="type  waited (of all waiting)\nrecv  60.0 %\nsend  30.0 %\n"),
    ),
    (
        "tables_of_a_run_add_up",
        lambda a: replace(a, several="Stages of the pipeline\nrank  works\n0  1 ms (90.0 %)\n"),
    ),
    (
        "what_differs_is_not_unchanged",
        lambda a: replace(
            a, history={"changes": [], "runs": [{"step_ns": 150}, {"step_ns": 16}]}
        ),
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def right() -> Answer:
    """The answer to a trace with steps, one-offs and priced changes."""
    with tracekit.load(OWN_TRACES / "simulated-program-23.json.gz") as run:
        return shown(run.verdict(window="ProfilerStep#1"))


def test_the_guard_passes_a_right_answer(right):
    impossible.require_possible(right)


@pytest.mark.parametrize(("rule", "change"), WRONG, ids=lambda each: each if each else "")
def test_the_guard_notices_what_is_impossible(rule, change, right):
    assert rule in {each.partition(":")[0] for each in impossible.impossible_claims(change(right))}


def test_each_rule_of_the_guard_has_a_wrong_answer():
    assert {each.__name__ for each in impossible.RULES} == {rule for rule, _ in WRONG}


# -- what no run writes ----------------------------------------------------------------------------


def program() -> list[dict[str, Any]]:
    """A step of launches, and waits in which another thread works."""
    other = slice_event("cpu_op", "aten::copy_", 0, 400, tid=7)
    calls = [
        launched([operator("aten::mm", at, 5)], at + 1, at + 3, 4, number)
        for number, at in enumerate(range(0, 400, 20), start=1)
    ]
    return [step(0, 0, 400), other, *chain.from_iterable(calls)]


TRACES = Together()
AT_ZERO = TRACES.events([each | {"ts": 1000, "dur": 0} for each in program()])
NAMELESS = TRACES.events([each | {"name": None} for each in program()])
EMPTY_KERNELS = TRACES.events(
    [each | ({"dur": 0} if each["cat"] == "kernel" else {}) for each in program()]
)


@pytest.mark.parametrize("trace", [AT_ZERO, NAMELESS, EMPTY_KERNELS])
def test_a_trace_without_times_or_names_gets_an_answer(trace, analyses):
    impossible.require_possible(analyses[trace])


def test_what_has_no_name_is_not_called_none(analyses):
    answer = shown(analyses[NAMELESS])
    assert "None" not in answer.screen + answer.full


def test_a_kernel_that_takes_no_time_has_no_share(analyses):
    assert analyses[EMPTY_KERNELS].top_kernels[0]["share_of_kernel_time"] is None
    (row,) = re.findall(r"^.* sgemm *$", shown(analyses[EMPTY_KERNELS]).full, re.MULTILINE)
    assert row.split()[0] == "-"


# -- captures --------------------------------------------------------------------------------------

PROGRAMS = {
    "train": ["examples/train.py"],
    "steps with stacks": ["examples.train:step", "--stacks"],
    "loop": ["examples.heads:loop"],
    "batched": ["examples.heads:batched"],
} | {
    name: [name, "--batch", "2", "--seq", "8", "--dim", "16", "--hidden", "32"]
    for name in ("mlp-eager", "attention-naive", "train-step", "input-bound", "sync-bound",
                 "python-bound", "copy-bound")
}  # fmt: skip


@pytest.mark.sampled(len(PROGRAMS))
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_impossible_is_said_of_a_captured_program(name, run, tmp_path):
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    device = [] if name == "train" else ["--device", "cpu"]
    done = run("capture", *PROGRAMS[name], *device, "-o", "t.json.gz")
    assert done.returncode == 0, done.stderr
    with tracekit.load(tmp_path / "t.json.gz") as loaded:
        answer = shown(loaded.verdict())
        fixes = json.loads(json.dumps(loaded.advise().as_dict()))
        events = document(tmp_path / "t.json.gz")["traceEvents"]
        impossible.require_possible(replace(answer, fixes=fixes, events=events))


# -- mutants ---------------------------------------------------------------------------------------

# Small traces of many kinds; of the shared ones, those that are there.
BASES = [
    OWN_TRACES / "simulated-compute-bound.json.gz",
    OWN_TRACES / "h100/mlp-cudagraph-small.json.gz",
    SHARED_TRACES / "forms/all-at-zero.json.gz",
    SHARED_TRACES / "a100-triton.json.gz",
    OWN_TRACES / "simulated-input-bound.json.gz",
    SHARED_TRACES / "cpu-only.json.gz",
    SHARED_TRACES / "a100-event-sync-multistream.json.gz",
    OWN_TRACES / "simulated-2-ranks-rank0.json.gz",
    SHARED_TRACES / "no-categories.json.gz",
    OWN_TRACES / "h100/linear-small.json.gz",
    OWN_TRACES / "h100/mlp-eager-small.json.gz",
    OWN_TRACES / "simulated-overhead-bound.json.gz",
    SHARED_TRACES / "forms/cold-start.json.gz",
    SHARED_TRACES / "mi250-minitoy.json.gz",
    SHARED_TRACES / "mi300x-triton-compiled.json.gz",
    SHARED_TRACES / "forms/fp32-unknown-device.json.gz",
    OWN_TRACES / "h100/python-bound.json.gz",
    OWN_TRACES / "h100/copy-bound.json.gz",
    OWN_TRACES / "h100/input-bound.json.gz",
    OWN_TRACES / "cpu-mlp-eager.json.gz",
    SHARED_TRACES / "a100-copies-only.json.gz",
    SHARED_TRACES / "forms/no-wait-events.json.gz",
]
# Mutants that are loaded and judged together, and how often a page of one is drawn.
TOGETHER, EACH_PAGE = 25, 50
MUTANTS = sample("mutants of real traces", 10_000, 8)
SEEDS = [range(at, at + TOGETHER) for at in range(0, MUTANTS, TOGETHER)]


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds[0]))
def test_nothing_impossible_is_said_of_a_mutant(seeds, tmp_path):
    known = bases([each for each in BASES if each.exists()])
    paths = []
    for seed in seeds:
        paths.append(tmp_path / f"{seed}.json")
        paths[-1].write_text(json.dumps(mutant(known[seed % len(known)], seed)))
    wrong: list[str] = []
    with (
        tracekit.load(paths, verdicts=False, on_bad=lambda error: None) as loaded,
        loaded.session.sharing(),
    ):
        for row in loaded.ask("overview"):
            seed = int(Path(row["path"]).stem)
            try:
                found = [*said_of(loaded, row["trace_id"], draws=seed % EACH_PAGE == 0)]
            except Exception:
                found = [traceback.format_exc()]
            wrong += [f"mutant {seed}: {each}" for each in found]
    assert not wrong, "\n".join(wrong)


def said_of(run: tracekit.Database, trace: int, *, draws: bool) -> Iterator[str]:
    """The impossible claims of the verdict on a trace, and of its page if it is drawn."""
    try:
        analysis = run.verdict(trace)
    except tracekit.TracekitError as error:
        assert "\n" not in str(error)
        return
    answer = shown(analysis)
    console.explain(analysis, every=True)
    if draws:
        pytest.importorskip("altair", reason="a page needs the extra report")
        answer = replace(answer, page=run.report(trace=trace).html)
    yield from impossible.impossible_claims(answer)
