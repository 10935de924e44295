"""The history of a lake's runs: when the step changed, and what changed."""

import json
import random

import pytest
from click.testing import CliRunner

from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.lakes import add
from tests.kit.ranks_simulated import LOGGING, Job
from tests.kit.traces import launched, step, write
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.lake.comparing import history, last_fails, shifts
from tracekit.run import open_lake
from tracekit.thresholds import Thresholds

NIGHT_NS = 86_400 * 10**9
BEGAN_NS = 1_700_000_000 * 10**9


def night(folder, number, kernel_us, kernel="sgemm", run=None):
    """A run of one rank with three steps, in which one kernel takes `kernel_us`."""
    name = run or f"night{number}"
    (folder / name).mkdir(parents=True)
    events = []
    for number_of_step in range(3):
        at = (kernel_us + 50) * number_of_step
        events += [
            step(number_of_step, at, kernel_us + 50),
            *launched([], at + 1, at + 10, kernel_us, number_of_step + 1, name=kernel),
        ]
    write(
        folder / name / "rank0.json", events, distributedInfo={"rank": 0, "world_size": 1},
        baseTimeNanoseconds=BEGAN_NS + number * NIGHT_NS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Seven nights; from the fifth on, another kernel takes 1.5 times as long."""
    folder = tmp_path_factory.mktemp("nights")
    for number, kernel_us in enumerate([100, 101, 99, 100, 151, 150, 149]):
        name = "sgemm" if number < 4 else "slower_gemm"
        # Names do not sort as the nights do.
        night(folder / "in", number, kernel_us, name, run=f"{'zyxwvut'[number]}-night")
    assert not add(folder / "lake", folder / "in").failed
    return folder / "lake"


@pytest.mark.thorough
def test_the_change_and_what_changed_are_named(nights):
    with open_lake(str(nights)) as lake:
        found = history(lake)
        assert found.order == "time"
        assert [each.run[0] for each in found.runs] == list("zyxwvut")
        assert [each.ranks for each in found.runs] == [1] * 7
        (change,) = found.changes
        assert (change.last_before, change.run) == ("w-night", "v-night")
        assert (change.before_ns, change.after_ns) == (150_000, 200_000)
        assert found.compared == ("w-night", "v-night")
        changed = {row["kernel"]: row["change"] for row in found.diff.kernels}
    assert changed == {"sgemm": "removed", "slower_gemm": "added"}


def test_the_command_tells_it_and_gates_on_the_last_run(nights, run):
    done = run("history", str(nights), "--fail-if", "b.span_ns > 1.05 * a.span_ns")
    assert done.returncode == 1
    assert "the step became longer with run v-night, from 150 us to 200 us." in done.stdout
    assert "failed: b.span_ns > 1.05 * a.span_ns" in done.stderr
    done = run("history", str(nights), "--json", "--fail-if", "b.span_ns > 2 * a.span_ns")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["schema"] == "tracekit/history/1"
    assert [each["run"] for each in told["changes"]] == ["v-night"]


@pytest.mark.thorough
def test_a_gate_compares_with_the_usual_run_not_with_the_slowest(tmp_path):
    for number, kernel_us in enumerate([100, 300, 100, 100, 120]):
        night(tmp_path / "in", number, kernel_us)
    add(tmp_path / "lake", tmp_path / "in")
    with open_lake(str(tmp_path / "lake")) as lake:
        assert last_fails(lake, "b.span_ns > 1.05 * a.span_ns")
        assert not last_fails(lake, "b.span_ns > 1.2 * a.span_ns")
        # One slow night is no change.
        assert history(lake).changes == []


def test_one_run_has_no_history(nights):
    with (
        open_lake(f"{nights}/run=v-night") as lake,
        pytest.raises(TracekitError, match="needs two runs"),
    ):
        history(lake)


def series(*parts, noise, seed=0):
    rng = random.Random(seed)
    values = [level * (1 + rng.gauss(0, noise)) for level, count in parts for _ in range(count)]
    return [(str(place), value) for place, value in enumerate(values)]


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_found_where_they_are_and_noise_is_none(seed):
    none = shifts(series((100, 30), noise=0.02, seed=seed), Thresholds())
    assert none == []
    two = shifts(series((100, 12), (120, 9), (90, 10), noise=0.02, seed=seed), Thresholds())
    assert [each.run for each in two] == ["12", "21"]


def test_two_runs_are_enough_for_a_change():
    (change,) = shifts([("a", 100.0), ("b", 110.0)], Thresholds())
    assert (change.last_before, change.run) == ("a", "b")
    assert shifts([("a", 100.0), ("b", 104.0)], Thresholds()) == []


@pytest.fixture(scope="module")
def late_rank(tmp_path_factory):
    """Six nights of two ranks; from the fourth on, rank 1 spends 9 ms more a step in Python."""
    folder = tmp_path_factory.mktemp("late")
    for number in range(6):
        (folder / f"night{number + 1}").mkdir()
        late = {1: 9 * MS} if number >= 3 else {}
        ranks_simulated.write(
            folder / f"night{number + 1}", Job(data=2, steps=3, late=late, seed=9 * number)
        )
    assert not add(folder / "lake", *folder.glob("night*"), judges=True).failed
    return folder / "lake"


@pytest.fixture(scope="module")
def compared(late_rank):
    """The comparison of the runs before and after the change."""
    nights = [f"{late_rank}/run={night}" for night in ("night3", "night4")]
    return json.loads(CliRunner().invoke(cli, ["diff", *nights, "--json"]).stdout)


def test_the_rank_that_made_the_runs_slower_is_named_with_its_place(late_rank, compared, run):
    told = json.loads(run("history", str(late_rank), "--json").stdout)
    assert told["compared"] == ["night3", "night4"]
    runs = told["diff"]["runs"]
    assert (runs["a"], runs["b"], runs["rank"]) == ("night3", "night4", 1)
    assert runs["verdict_a"]["pace_rank"] is None
    late = runs["verdict_b"]["late_ranks"][0]
    assert (late["rank"], late["cause"], late["place"]) == (1, "python", LOGGING)
    assert late["excess_ns"] == 9 * MS
    told = run("history", str(late_rank)).stdout
    assert "rank 1 spends 9 ms more on python in each step than its peers" in told
    assert compared["runs"] == runs
    assert compared["a"].endswith("night3/rank1.json")
    most = max(
        (row for row in compared["waterfall"] if row["change_ns"]), key=lambda row: row["change_ns"]
    )
    assert "python" in most["part"].lower()


def test_two_folders_of_ranks_are_compared_as_the_runs_of_a_lake_are(
    late_rank, compared, run, tmp_path
):
    folder = late_rank.parent
    a, b = (str(folder / night) for night in ("night3", "night4"))
    done = run("diff", a, b, "--json")
    assert f"compares rank=1 of run {a!r}, which has 2, with rank=1 of run {b!r}" in done.stderr
    found = json.loads(done.stdout.replace(a, "night3").replace(b, "night4"))
    assert found["runs"]["why"] == compared["runs"]["why"]
    assert found["waterfall"] == compared["waterfall"]
    # Of a database, ranks are no files that could be read alone.
    assert run("load", a, "-o", "a.duckdb").returncode == 0
    found = json.loads(run("diff", "a.duckdb", b, "--json").stdout)
    assert (found["waterfall"], found["runs"]["rank"]) == (compared["waterfall"], 1)
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        for rank in range(2):
            (tmp_path / name / f"{name}{rank}.json").write_text('{"traceEvents": [{"ph": "i"}]}')
    refused = run("diff", "x", "y")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'x' and run 'y' have no rank in common: choose one of each" in refused.stderr


def test_the_page_of_two_runs_is_of_that_rank(late_rank, run, tmp_path):
    done = run("report", f"{late_rank}/run=night3", f"{late_rank}/run=night4", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    assert "rank1.json" in (tmp_path / "page.html").read_text()


def test_several_runs_are_not_judged_together_and_that_is_said(late_rank, run):
    done = run("analyze", f"{late_rank}")
    assert "No verdict on all together: these are several runs" in " ".join(done.stdout.split())


def test_a_late_rank_that_may_be_missing_is_in_the_headline(tmp_path, run):
    (tmp_path / "in").mkdir()
    ranks_simulated.write(tmp_path / "in", Job(data=4, steps=3, late={3: 9 * MS}))
    (tmp_path / "in" / "rank3.json").unlink()
    told = " ".join(run("analyze", "in").stdout.split())
    assert told.startswith("3 of 4 ranks: none of these holds up the others, but a missing one may")
    assert "If one of the 1 that are missing comes late" in told


def test_a_rank_that_becomes_late_is_a_change_and_no_slow_host(late_rank, run):
    told = json.loads(run("fleet", str(late_rank), "--json").stdout)
    assert told["slow_hosts"] == []
    (change,) = told["changes"]
    assert (change["run"], change["rank"], change["cause"]) == ("night4", 1, "python")
    assert change["place"] == LOGGING


def test_a_rank_that_is_always_late_is_told_without_hosts(late_rank, run, tmp_path):
    for night in ("night4", "night5", "night6"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / night).symlink_to(late_rank.parent / night)
    assert not add(tmp_path / "lake", *(tmp_path / "in").iterdir(), judges=True).failed
    told = json.loads(run("fleet", str(tmp_path / "lake"), "--json").stdout)
    (slow,) = told["slow_hosts"]
    assert (slow["host"], slow["late_runs"], slow["cause"]) == ("rank=1", 3, "python")
    assert (told["changes"], told["hosts"]) == ([], 0)
