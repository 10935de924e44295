"""Flame graphs for other tools: speedscope's file and folded stacks."""

import json
import re

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tracekit.reporters.stacks import stacks

HOSTILE = "a;b\nc\x1b[31m 7"
EVENTS = [
    traces.slice_event("user_annotation", "ProfilerStep#3", 0, 100),
    traces.slice_event("cpu_op", HOSTILE, 5, 20),
    traces.launch(10, 5, 1),
    traces.gpu_op(20, 40, 1, name="sgemm"),
    traces.slice_event("cpu_op", "aten::mm", 50, 20),
]


@pytest.fixture
def trace(tmp_path):
    return traces.write(tmp_path / "t.json", EVENTS)


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
def test_speedscope_gets_a_profile_for_each_thread(run, trace, tmp_path, weight, whole):
    done = run("export", "t.json", "--format", "speedscope", "--weight", weight, "-o", "s.json")
    assert done.returncode == 0, done.stderr
    file = json.loads((tmp_path / "s.json").read_text())
    check_speedscope(file)
    assert [profile["endValue"] for profile in file["profiles"]] == [whole]
    assert "\x1b" not in str(file) and "\n" not in "".join(
        frame["name"] for frame in file["shared"]["frames"]
    )


def test_the_thread_that_launches_comes_up_first(run, tmp_path):
    waiting = traces.slice_event("cpu_op", "poll", 0, 500, tid=1)
    traces.write(tmp_path / "t.json", [waiting, *EVENTS])
    assert run("export", "t.json", "--format", "speedscope", "-o", "s.json").returncode == 0
    file = json.loads((tmp_path / "s.json").read_text())
    check_speedscope(file)
    assert len(file["profiles"]) == 2
    active = file["profiles"][file["activeProfileIndex"]]
    assert active["endValue"] == 100_000


def test_folded_stacks_survive_hostile_names(run, trace):
    done = run("export", "t.json", "--format", "collapsed", "-o", "-")
    found = folded(done.stdout)
    assert sum(found.values()) == 100_000
    assert {len(path) for path in found} == {2, 3, 4}
    # A number behind a last space would be a second count to flamegraph.pl.
    assert not any(re.search(r"\s[\d.]+$", frame) for path in found for frame in path)
    assert found[next(path for path in found if path[-1] == "aten::mm")] == 20_000


@pytest.mark.sampled(2, of=4)
@pytest.mark.parametrize("name", ["v100-compiled-ddp.json.gz", "h100-bert-small.json.gz"])
@pytest.mark.parametrize("weight", ["host", "gpu"])
def test_the_stacks_add_up_to_the_time_that_the_report_shows(name, weight, shared_ask):
    trace_file(name)
    rows = shared_ask(name, "flame_graph")
    shown = sum(row[f"{weight}_ns"] for row in rows if row["depth"] == 0)
    found = stacks(rows, weight)
    assert sum(time for thread in found.values() for _, time in thread) == shown > 0
    assert all(time > 0 for thread in found.values() for _, time in thread)


def test_a_trace_without_such_time_gets_no_empty_flame_graph(run, tmp_path):
    traces.write(tmp_path / "t.json", EVENTS[:2])
    done = run("export", "t.json", "--format", "speedscope", "--weight", "gpu", "-o", "s.json")
    assert done.returncode == 2
    assert "a flame graph needs GPU ops" in done.stderr
    assert not (tmp_path / "s.json").exists()


def test_a_weight_is_only_for_a_flame_graph(run, trace):
    done = run("export", "t.json", "--weight", "gpu", "-o", "again.json")
    assert done.returncode == 2
    assert "--weight is for a flame graph" in done.stderr


@pytest.mark.parametrize("nodes", [1, 300_000])
def test_an_execution_trace_is_named(run, tmp_path, nodes):
    node = {"id": 1, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1}
    file = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "start_ts": 2, "nodes": [node] * nodes}
    (tmp_path / "et.json").write_text(json.dumps(file))
    done = run("analyze", "et.json")
    assert done.returncode == 2
    assert "is a PyTorch execution trace (Chakra)" in done.stderr
    assert len(done.stderr.splitlines()) == 1
