"""Runs of a lake are compared by their unit of work, with those that do the same work."""

import json

import pytest

from tests.kit.lakes import add
from tests.kit.processes import invoke
from tests.kit.traces import gpu_op, launch, slice_event, write
from tracekit.lake.comparing import history
from tracekit.lake.fleet import fleet
from tracekit.lake.reading import open_lake
from tracekit.lake.works import RunUnit, alike, works_of
from tracekit.thresholds import Thresholds

DECODE, PREFILL = "execute_context_0(0)_generation_32(32)", "execute_context_1(888)_generation_0(0)"


def served(folder, name, us, night, ranges=6, rank=0):
    """A server's rank with steps of this length."""
    folder.mkdir(parents=True, exist_ok=True)
    events = [
        each
        for n in range(ranges)
        for each in (
            slice_event("user_annotation", name, n * us, us - 1),
            launch(n * us + 1, 5, 2 * n + 1),
            gpu_op(n * us + 10, us // 2, 2 * n + 1, name="a"),
            launch(n * us + 7, 5, 2 * n + 2),
            gpu_op(n * us + 10 + us // 2, us // 2 - 20, 2 * n + 2, name="b"),
        )
    ]
    began = {"baseTimeNanoseconds": (1_700_000_000 + 86_400 * night) * 10**9}
    write(folder / f"rank{rank}.json", events, distributedInfo={"rank": rank}, **began)


@pytest.fixture(scope="module")
def decodes(tmp_path_factory):
    """A lake of eight nights of decodes, which take twice as long from the fifth on, on other
    ranks; every other night also ran prefills."""
    folder = tmp_path_factory.mktemp("nights")
    for night in range(8):
        for rank in (2 * night, 2 * night + 1):
            us = 1000 if night < 4 else 2000
            served(folder / "in" / f"d{night}", DECODE, us, night, rank=rank)
        if night % 2:
            served(folder / "in" / f"p{night}", PREFILL, 9000, night)
    assert not add(folder / "lake", folder / "in").failed
    return str(folder / "lake")


def test_a_change_is_that_of_runs_that_do_the_same_work(decodes):
    with open_lake(decodes) as lake:
        found, all_runs = history(lake), fleet(lake)
    for works, changes in ((found.works, found.changes), (all_runs.works, all_runs.changes)):
        assert [(each.unit, each.tokens, len(each.runs)) for each in works] == [
            ("decode", 32, 8), ("prefill", 888, 4),
        ]  # fmt: skip
        (change,) = changes
        assert (change.unit, change.last_before, change.run) == ("decode", "d3", "d4")
        assert change.ratio == pytest.approx(2, rel=0.01)
    lengths = {each.run: each.unit_ns for each in found.runs}
    assert [lengths[run] for run in all_runs.runs] == all_runs.step_ns
    by_name = {each.run: each for each in found.runs}
    assert by_name["d0"].tokens_per_s == pytest.approx(32e9 / lengths["d0"])
    assert by_name["p1"].tokens_per_s == pytest.approx(888e9 / lengths["p1"])
    told = " ".join(invoke("history", decodes).stdout.split())
    assert "12 runs. The runs do different work, so their lengths do not compare" in told
    assert "a prefill of 888 tokens takes 9 ms in 4 runs (98,667 tokens a second)" in told
    assert (
        "The decode became longer with run d4, from 1 ms to 2 ms (32,000 -> 16,000 tokens" in told
    )
    assert "a decode is 100.0 % longer since run d4" in " ".join(
        invoke("fleet", decodes).stdout.split()
    )


def test_runs_that_share_no_rank_are_compared_by_the_medians_over_their_ranks(decodes, monkeypatch):
    # Judging runs takes long, and 16 pairs of them are around the change.
    monkeypatch.setattr("tracekit.lake.comparing.compare_runs", None)
    told = " ".join(invoke("history", decodes).stdout.split())
    assert "Left out: run 'd3' and run 'd4' have no rank in common" in told
    assert "What changed from d3 (a) to d4 (b): medians over the ranks" in told
    found = json.loads(invoke("history", decodes, "--json").stdout)
    rows = {row["metric"]: (row["a"], row["b"]) for row in found["medians"]}
    assert found["diff"] is None
    assert rows["span_ns"][1] == pytest.approx(2 * rows["span_ns"][0], rel=0.01)
    assert rows["compute_ns"][0] < rows["span_ns"][0]


def test_the_last_run_is_gated_on_those_that_do_the_same_work(tmp_path, run):
    served(tmp_path / "in" / "a", DECODE, 1000, 0)
    served(tmp_path / "in" / "b", PREFILL, 9000, 1)
    served(tmp_path / "in" / "c", DECODE, 1010, 2)
    condition = ("--fail-if", "b.unit_ns > 1.05 * a.unit_ns")
    add(tmp_path / "two", tmp_path / "in" / "a", tmp_path / "in" / "b")
    done = run("history", "two", *condition)
    assert done.returncode == 2
    assert "no run before 'b' does the same work" in done.stderr
    add(tmp_path / "three", tmp_path / "in")
    assert run("history", "three", *condition).returncode == 0


def unit(run, kind="step", ns=100, tokens=None, samples=None):
    return RunUnit(run=run, unit=kind, unit_ns=ns, tokens=tokens, samples=samples)


@pytest.mark.parametrize(
    ("runs", "groups"),
    [
        ([unit("a"), unit("b", ns=900)], ["ab"]),
        ([unit("a"), unit("b", "decode"), unit("c")], ["ac", "b"]),
        ([unit("a", samples=8), unit("b", samples=16), unit("c", samples=16)], ["bc", "a"]),
        ([unit("a", tokens=32), unit("b", tokens=33)], ["ab"]),
        (
            [unit("a"), unit("b", tokens=32), unit("c", tokens=64), unit("d", tokens=64)],
            ["acd", "b"],
        ),
    ],
)  # fmt: skip
def test_runs_are_alike_in_kind_and_in_tokens_or_samples(runs, groups):
    found = alike(runs, Thresholds())
    assert ["".join(each.run for each in some) for some in found] == groups


def test_interleaved_runs_hide_no_change():
    levels = [(100, 900)] * 6 + [(150, 900)] * 6
    runs = [
        each
        for night, (decode, prefill) in enumerate(levels)
        for each in (unit(f"d{night}", "decode", decode), unit(f"p{night}", "prefill", prefill))
    ]
    works, (change,) = works_of(runs, Thresholds())
    assert (change.run, change.last_before) == ("d6", "d5")
    assert [each.spread is None for each in works] == [True, False]
