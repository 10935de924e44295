"""The history of a lake's runs: when the step changed, and what changed."""

import json
import random
import shutil

import pytest

import tracekit
from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.lakes import add, rank_events
from tests.kit.processes import invoke
from tests.kit.ranks_simulated import LOGGING, Job
from tests.kit.sampling import sample
from tests.kit.traces import gpu_op, launch, step, write
from tracekit.commands.diff import open_pair
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.comparing import history, runs_in_order
from tracekit.lake.fleet import fleet
from tracekit.lake.shifts import shifts, spread
from tracekit.reporters.history import render_history
from tracekit.run import open_lake
from tracekit.thresholds import Thresholds


def series(*parts, seed):
    rng = random.Random(seed)
    values = [level * (1 + rng.gauss(0, 0.02)) for level, count in parts for _ in range(count)]
    return [(str(place), value) for place, value in enumerate(values)]


def test_changes_are_found_where_they_are_and_noise_or_one_slow_run_is_none():
    for seed in range(20):
        alike = series((100, 30), seed=seed)
        assert shifts(alike, Thresholds(), "step") == []
        alike[9] = ("slow", 300.0)
        assert shifts(alike, Thresholds(), "step") == []
        two = shifts(series((100, 12), (120, 9), (90, 10), seed=seed), Thresholds(), "step")
        assert [each.run for each in two] == ["12", "21"]


def test_two_runs_are_enough_for_a_change():
    (change,) = shifts([("a", 100.0), ("b", 110.0)], Thresholds(), "step")
    assert (change.last_before, change.run) == ("a", "b")
    assert shifts([("a", 100.0), ("b", 104.0)], Thresholds(), "step") == []


@pytest.mark.parametrize(
    ("steps", "means"),
    [
        ([150, 126, 16], "too_few_runs"),
        ([100, 104], "alike"),
        ([100, 103, 104, 101, 102, 100], "alike"),
        ([100, 160, 90, 170, 95, 165, 100, 150], "noise"),
    ],
)
def test_steps_that_did_not_change_for_sure_say_how_far_apart_they_are(steps, means):
    named = [(str(place), float(each)) for place, each in enumerate(steps)]
    assert shifts(named, Thresholds(), "step") == []
    found = spread(named, Thresholds())
    assert (found.least_ns, found.most_ns, found.means) == (min(steps), max(steps), means)
    assert steps[int(found.slowest)] == max(steps)


@pytest.fixture
def three_runs(tmp_path):
    """A lake of three runs, whose steps take 150, 126 and 16 ms."""
    for number, ms in enumerate((150, 126, 16)):
        us, folder = 1000 * ms, tmp_path / "in" / f"night{number}"
        folder.mkdir(parents=True)
        events = [
            each
            for n in range(3)
            for each in (
                step(n, n * us, us),
                launch(n * us, 5, n + 1),
                gpu_op(n * us + 10, us - 20, n + 1),
            )
        ]
        began_ns = 1_700_000_000 * 10**9 + number
        write(folder / "rank0.json", events, baseTimeNanoseconds=began_ns)
    assert not add(tmp_path / "lake", tmp_path / "in").failed
    return str(tmp_path / "lake")


def test_three_runs_that_differ_are_neither_unchanged_nor_slow(three_runs, tmp_path):
    said = (
        "a step takes 16 ms in run night2 and 150 ms in run night0, 9.38 times as long: "
        "too few runs to tell a change from noise"
    )
    for command in ("history", "fleet"):
        told = " ".join(invoke(command, three_runs).stdout.split())
        assert said in told
        assert not any(each in told for each in ("did not change", "stays as it is", "slow run"))
        found = json.loads(invoke(command, three_runs, "--json").stdout)
        assert found["spread"]["means"] == "too_few_runs"
    assert invoke("report", three_runs, "-o", tmp_path / "page.html").exit_code == 0
    title = (tmp_path / "page.html").read_text().partition("</title>")[0].partition("<title>")[2]
    assert title.startswith("3 runs: a step takes 16 ms and 150 ms, 9.38 times as long: too few")


@pytest.mark.thorough
def test_runs_are_in_order_of_time_or_of_name_if_one_has_no_time(tmp_path):
    times = {"a": 3 * 10**18, "b": 2 * 10**18, "c": 0}
    for name, began_ns in times.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name / "rank0.json", rank_events(0), baseTimeNanoseconds=began_ns)
    add(tmp_path / "lake", *(tmp_path / name for name in times))
    for given, expected in (("ab", ("time", ["b", "a"])), ("abc", ("name", ["a", "b", "c"]))):
        with open_lake([f"{tmp_path}/lake/run={name}" for name in given]) as lake:
            order, runs = runs_in_order(lake)
        assert (order, [each.run for each in runs]) == expected
        assert runs[0].started_ns in (None, times[runs[0].run])


@pytest.fixture
def apart(tmp_path):
    """A lake of four runs, of which the third, with which the step becomes longer, has no rank in
    common with the others."""
    runs = [("a", (0,), 1), ("b", (0,), 1), ("c", (2, 3), 3), ("d", (0,), 3)]
    for number, (name, ranks, times) in enumerate(runs, 1):
        (tmp_path / name).mkdir()
        for rank in ranks:
            events = [
                each | {"ts": each["ts"] * times, "dur": each["dur"] * times}
                for each in rank_events(rank)
            ]
            path, told = tmp_path / name / f"rank{rank}.json", {"rank": rank, "world_size": 4}
            write(path, events, baseTimeNanoseconds=number * 10**18, distributedInfo=told)
    add(tmp_path / "lake", *(tmp_path / name for name in "abcd"))
    return tmp_path / "lake"


@pytest.mark.thorough
def test_runs_that_share_no_rank_are_left_out_of_the_comparison_alone(apart, capsys):
    with open_lake(str(apart)) as lake:
        found = history(lake)
    assert [each.run for each in found.changes] == ["c"]
    assert found.compared == ("b", "d") and found.diff is not None
    render_history(found)
    told = " ".join(capsys.readouterr().out.split())
    assert "Left out: run 'b' and run 'c' have no rank in common" in told
    assert "What changed from b (a) to d (b)" in told


@pytest.mark.thorough
def test_two_runs_that_share_no_rank_are_not_compared(apart):
    for name in "ad":
        shutil.rmtree(apart / "manifests" / name)
    done = invoke("history", apart)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Left out: run 'b' and run 'c' have no rank in common" in " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A lake of five nights of two ranks; from the third on, rank 1 spends 9 ms more a step in
    Python. The first late night is judged."""
    folder = tmp_path_factory.mktemp("nights")
    for number in range(1, 6):
        (folder / f"night{number}").mkdir()
        late = {1: 9 * MS} if number >= 3 else {}
        job = Job(data=2, steps=2, late=late, seed=9 * number)
        ranks_simulated.write(folder / f"night{number}", job)
    assert not add(folder / "lake", *folder.glob("night[1245]")).failed
    assert not add(folder / "lake", folder / "night3", judges=True).failed
    return folder / "lake"


def test_history_gates_on_the_last_run(three_runs, run):
    # 16 ms is more than that of the usual step before, 126 ms, and less than that of 150 ms.
    done = run("history", three_runs, "--fail-if", "b.span_ns > 0.12 * a.span_ns")
    assert (done.returncode, done.stderr) == (1, "tracekit: failed: b.span_ns > 0.12 * a.span_ns\n")


@pytest.mark.thorough
def test_history_compares_the_runs_of_the_change(nights):
    told = " ".join(invoke("history", nights).stdout.split())
    assert "the step became longer with run night3, from " in told
    assert "What changed from night2 (a) to night3 (b), then on rank 1" in told
    assert "night3: 2 ranks: rank 1 sets the pace" in told
    assert "rank 1 spends 9 ms more on python in the average step than its peers" in told


def test_one_run_has_no_history(nights):
    with (
        open_lake(f"{nights}/run=night3") as lake,
        pytest.raises(TracekitError, match="needs two runs"),
    ):
        history(lake)


@pytest.mark.thorough
def test_runs_folders_and_databases_are_compared_by_the_rank_that_sets_the_pace(
    nights, refused, tmp_path
):
    a, b = (str(nights.parent / night) for night in ("night2", "night3"))
    database, gone = str(tmp_path / "a.duckdb"), shutil.copytree(a, tmp_path / "gone")
    tracekit.load(gone, database, verdicts=False).close()
    # Ranks of a database are not files that could be read alone.
    shutil.rmtree(gone)
    parts = f"{nights}/run=night2", f"{nights}/run=night3"
    pairs = [parts, (database, b), (a, b)]
    for first, second in sample("pairs of runs of a lake, folders and databases", pairs, pairs[:2]):
        pair = open_pair((first, second), (1, 2), None, Resources())
        names = ("night2", "night3") if first == parts[0] else (first, second)
        assert (pair.runs.a, pair.runs.b, pair.runs.rank) == (*names, 1)
        assert pair.note.startswith(
            f"compares rank=1 of run {names[0]!r}, which has 2 traces, with rank=1"
        )
        with pair.database as both:
            paths = dict(both.fetch("SELECT trace_id, path FROM trace")[1])
        folder = gone if first == database else a
        assert [paths[pair.a], paths[pair.b]] == [f"{folder}/rank1.json", f"{b}/rank1.json"]
        assert pair.runs.verdict_a.pace_rank is None
        late = pair.runs.verdict_b.late_ranks[0]
        assert (late.rank, late.cause, late.place) == (1, "python", LOGGING)
        assert late.excess_ns == 9 * MS
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        for rank in range(2):
            (tmp_path / name / f"{name}{rank}.json").write_text('{"traceEvents": [{"ph": "i"}]}')
    said = refused("diff", "x", "y")
    assert "'x' and run 'y' have no rank in common: choose one of each" in said


def test_several_runs_are_not_compared_with_one(nights, refused):
    assert "holds several runs" in refused("diff", f"{nights}", f"{nights}/run=night1")


def test_a_late_rank_that_may_be_missing_is_in_the_headline(tmp_path, run):
    (tmp_path / "in").mkdir()
    ranks_simulated.write(tmp_path / "in", Job(data=4, steps=3, late={3: 9 * MS}))
    (tmp_path / "in" / "rank3.json").unlink()
    told = " ".join(run("analyze", "in").stdout.split())
    assert told.startswith("3 of 4 ranks: none of these holds up the others, but a missing one may")
    assert "If one of the 1 that are missing comes late" in told


def test_a_rank_that_becomes_late_is_a_change_and_one_that_always_is_a_slow_host(nights):
    with open_lake(str(nights)) as lake:
        found = fleet(lake)
    assert found.slow_hosts == []
    (change,) = found.changes
    assert (change.run, change.rank, change.cause) == ("night3", 1, "python")
    assert change.place == LOGGING
    with open_lake([f"{nights}/run=night{number}" for number in (3, 4, 5)]) as lake:
        found = fleet(lake)
    (slow,) = found.slow_hosts
    assert (slow.host, slow.late_runs, slow.cause) == ("rank=1", 3, "python")
    assert (found.changes, found.hosts) == ([], 0)
