"""Flame graphs for other tools: speedscope's file and folded stacks."""

import json
import re

import click
import pytest

import tracekit
from tests.kit import traces
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.reporters.stacks import stacks

HOSTILE = "a;b\nc\x1b[31m 7"
EVENTS = [
    traces.slice_event("user_annotation", "ProfilerStep#3", 0, 100),
    traces.slice_event("cpu_op", HOSTILE, 5, 20),
    traces.launch(10, 5, 1),
    traces.gpu_op(20, 40, 1, name="sgemm"),
    traces.slice_event("cpu_op", "aten::mm", 50, 20),
]


WAITING = traces.slice_event("cpu_op", "poll", 0, 500, tid=1)


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    made = {"traced": [WAITING, *EVENTS], "on the host": EVENTS[:2]}
    folder = tmp_path_factory.mktemp("stacks")
    for name, events in made.items():
        path = traces.write(folder / f"{name}.json", events)
        tracekit.load(path, folder / f"{name}.duckdb", verdicts=False).close()
    return folder


@pytest.fixture
def export(databases, tmp_path):
    """Exports a trace; returns what is written."""

    def write(name, *arguments):
        path = tmp_path / "out"
        given = [str(databases / f"{name}.duckdb"), *arguments, "-o", str(path)]
        cli.main(["export", *given], standalone_mode=False)
        return path.read_text()

    return write


def check_speedscope(file):
    """The rules of https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts."""
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(file) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    frames = file["shared"]["frames"]
    assert all(isinstance(each["name"], str) for each in frames)
    assert 0 <= file["activeProfileIndex"] < len(file["profiles"])
    for profile in file["profiles"]:
        assert set(profile) == {
            "type", "name", "unit", "startValue", "endValue", "samples", "weights",
        }  # fmt: skip
        assert (profile["type"], profile["unit"]) == ("sampled", "nanoseconds")
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(type(weight) is int and weight > 0 for weight in profile["weights"])
        assert all(0 <= each < len(frames) for sample in profile["samples"] for each in sample)
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])


def folded(text):
    lines = [re.fullmatch(r"(.*) (\d+)", line) for line in text.splitlines()]
    return {tuple(line[1].split(";")): int(line[2]) for line in lines}


@pytest.mark.parametrize(("weight", "whole"), [("host", 100_000), ("gpu", 40_000)])
def test_speedscope_gets_a_profile_for_each_thread(export, weight, whole):
    """The thread that launches comes up first."""
    file = json.loads(export("traced", "--format", "speedscope", "--weight", weight))
    check_speedscope(file)
    ends = [profile["endValue"] for profile in file["profiles"]]
    assert sorted(ends) == ([whole] if weight == "gpu" else [whole, 500_000])
    assert ends[file["activeProfileIndex"]] == whole
    names = "".join(frame["name"] for frame in file["shared"]["frames"])
    assert not set("\x1b\n") & set(names)


def test_folded_stacks_survive_hostile_names(export):
    found = folded(export("traced", "--format", "collapsed"))
    assert sum(found.values()) == 100_000 + 500_000
    assert {len(path) for path in found} == {2, 3, 4}
    # A number behind a last space would be a second count to flamegraph.pl.
    assert not any(re.search(r"\s[\d.]+$", frame) for path in found for frame in path)
    assert found[next(path for path in found if path[-1] == "aten::mm")] == 20_000


@pytest.mark.sampled(2, of=4)
@pytest.mark.parametrize("name", ["h100-bert-small.json.gz", "v100-compiled-ddp.json.gz"])
@pytest.mark.parametrize("weight", ["host", "gpu"])
def test_the_stacks_add_up_to_the_time_that_the_report_shows(name, weight, shared_ask):
    rows = shared_ask(name, "flame_graph")
    shown = sum(row[f"{weight}_ns"] for row in rows if row["depth"] == 0)
    found = stacks(rows, weight)
    assert sum(time for thread in found.values() for _, time in thread) == shown > 0
    assert all(time > 0 for thread in found.values() for _, time in thread)


def test_options_of_flame_graphs_are_refused_without_one(export):
    with pytest.raises(TracekitError, match="a flame graph needs GPU ops"):
        export("on the host", "--format", "speedscope", "--weight", "gpu")
    with pytest.raises(click.UsageError, match="--weight is for a flame graph"):
        export("traced", "--weight", "gpu")
