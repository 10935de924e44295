"""The benchmark of diagnosis: its cases are well formed, and its scorer scores known answers."""

from dataclasses import replace

import pytest

from tests.answers import committed
from tests.bench.diagnosis import healthy, misleading
from tests.bench.diagnosis.pages import PAGE, page
from tests.bench.diagnosis.programs import mixed, twins
from tests.bench.diagnosis.score import (
    CAUSES,
    LEVELS,
    NOTHING,
    REGIMES,
    Answer,
    Case,
    labels,
    mark,
    row,
)
from tests.conftest import SHARED_TRACES
from tests.kit.sampling import sample
from tracekit.database.remedies import all_remedies, query_of

# Advice by experts that has no query yet.
OTHERS = {
    "batch_loop", "cpu_inference", "device_tensors", "speculative_decoding",
}  # fmt: skip
CASE = Case(
    "a case", "real", "", regime=("overhead-bound",), causes=("sync",), changes=("sync_by_line",),
    listed=("sync_by_line",), never=("cuda_graph", "python"), saves=(0.2, 0.3), confidence="medium",
)  # fmt: skip
RIGHT = Answer("overhead-bound", "sync", ("sync_by_line", "allocator"), 0.25, "medium")


@pytest.fixture(scope="module")
def programs():
    seeds = sample("mixed programs of the benchmark", range(1, 9), range(1, 2))
    mixes = [each for seed in seeds if (each := mixed(seed))]
    return [*twins(), *healthy.programs(), *misleading.programs(), *mixes]


@pytest.mark.thorough
def test_cases_name_only_things_that_exist(programs):
    remedies = {query_of(each.name) for each in all_remedies().values()} | OTHERS
    cases = [*labels(), *(each.case for each in programs)]
    assert len({each.name for each in cases}) == len(cases)
    for case in cases:
        assert case.why, case.name
        assert set(case.regime) <= set(REGIMES), case.name
        assert set(case.causes) <= set(CAUSES), case.name
        assert set(case.changes) <= remedies | {NOTHING}, case.name
        assert set(case.listed) | set(case.prices) <= remedies, case.name
        assert set(case.never) <= remedies | set(CAUSES) | set(REGIMES), case.name
        assert not set(case.never) & {*case.regime, *case.causes, *case.changes}, case.name
        assert case.confidence in LEVELS, case.name
        for least, most in [*([case.saves] if case.saves else []), *case.prices.values()]:
            assert 0 < least <= most < 1, case.name


@pytest.mark.skipif(not SHARED_TRACES.exists(), reason=f"no real traces at {SHARED_TRACES}")
def test_every_real_trace_has_a_label():
    traces = {path.name.removesuffix(".json.gz") for path in SHARED_TRACES.glob("*.json.gz")}
    assert {case.name for case in labels()} == traces


def test_a_program_gives_the_same_bytes_each_time(programs, tmp_path):
    made = [each.write(tmp_path / "t.json").read_bytes() for each in (programs[0], next(twins()))]
    assert made[0] == made[1]
    assert mixed(2) == mixed(2)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (RIGHT, []),
        (replace(RIGHT, regime="compute-bound"), ["regime"]),
        (replace(RIGHT, cause="input"), ["cause"]),
        (replace(RIGHT, cause="python"), ["cause", "false alarm"]),
        (replace(RIGHT, changes=("allocator", "sync_by_line")), ["first change"]),
        (replace(RIGHT, changes=("cuda_graph",)), ["first change", "list", "false alarm"]),
        (replace(RIGHT, changes=()), ["first change", "list"]),
        (replace(RIGHT, confidence="high"), ["too sure"]),
        (replace(RIGHT, saves=0.6), ["price +100%"]),
        (replace(RIGHT, saves=0.1), ["price -50%"]),
        (replace(RIGHT, saves=0.31), []),
        # One line with several changes is right by any of them; what is not said is never wrong.
        (Answer(changes=("larger_batch", "sync_by_line", "cuda_graph"), alternatives=2), []),
        (Answer(), []),
    ],
)
def test_errors_in_an_answer_are_listed(answer, wrong):
    marked = mark(CASE, answer)
    assert marked.failures == wrong
    if answer == RIGHT:
        assert (marked.regime, marked.cause, marked.change, marked.listed) == (True,) * 4
        assert (marked.price, marked.modest, marked.alarm) == (0.0, True, False)


def test_a_row_counts_the_answers():
    assert row("a tool", [mark(CASE, Answer())])[1:] == ["0 of 1", *["-"] * 12]
    marks = [mark(CASE, RIGHT), mark(CASE, replace(RIGHT, regime="compute-bound"))]
    assert row("a tool", marks)[-3:] == ["-", "1 of 2 (50%)", "-"]


def test_a_healthy_run_may_only_be_given_small_change():
    case = Case("healthy", "healthy", "", regime=("compute-bound",), changes=(NOTHING,))
    small = Answer("compute-bound", changes=("python_lines",), saves=0.01)
    assert mark(case, small).failures == []
    assert mark(case, Answer("compute-bound", changes=())).failures == []
    large = mark(case, replace(small, saves=0.1))
    assert large.failures == ["first change", "false alarm"]
    assert mark(case, replace(small, saves=None)).alarm


def test_math_or_memory_answers_where_both_are_accepted():
    answers = [
        mark(replace(CASE, causes=causes), replace(RIGHT, cause="math-or-memory")).cause
        for causes in (("math", "memory-bandwidth"), ("math", "copy"), ("sync",))
    ]
    assert answers == [True, None, False]


def test_the_page_is_what_the_answers_say():
    assert PAGE.read_text() == page(committed()), "make answers ACCEPT=1"
