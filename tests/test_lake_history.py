"""The history of a lake's runs: when the step changed, and what changed."""

import json
import random

import pytest

from tests.lakes import add
from tests.traces import launched, step, write
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
