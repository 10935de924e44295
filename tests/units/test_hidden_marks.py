"""Marks of steps are found again in real traces without them and without any annotation."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

import tracekit
from tests.conftest import GPU_TRACES, OWN_TRACES, SHARED_TRACES
from tests.kit.sampling import sample
from tests.kit.traces import document, launches_of, write

# Each marks three steps or more. The thresholds were chosen on the first half.
_CHOSEN_ON = (
    "a100-copies-only", "a100-diff-control", "a100-nccl", "mi300x-resnet-checkpoint",
    "v100-compiled-ddp",
)  # fmt: skip
CHOSEN_ON = sample("shared traces whose marks are hidden", _CHOSEN_ON, _CHOSEN_ON[::2])
HELD_OUT = ("v100-diff-test", "v100-ns-resolution", "v100-torchrec-rank")
# Each of their steps does the same eight things: only the mark tells where a step begins.
UNTOLD = ("python-bound", "sync-bound")
_CAPTURES = [
    path.name.removesuffix(".json.gz")
    for folder in (OWN_TRACES, GPU_TRACES)
    for path in sorted(folder.glob("*.json.gz"))
    if not path.name.startswith("simulated-program") and "rank" not in path.name
]
_SOME = sample("captures whose marks are hidden", len(_CAPTURES), 8)
CAPTURED = _CAPTURES[:: len(_CAPTURES) // _SOME][:_SOME]
# Without annotations, nothing in them marks a pass; their layers are not passes.
_SINGLE = (
    "b200-vllm-eager", "h100-bert-small", "h100-qwen-small", "h100-timesformer",
    "mi300x-sglang-mixed", "mi300x-vllm-piecewise",
)  # fmt: skip
SINGLE = sample("shared traces of a single pass", _SINGLE, _SINGLE[::2])


class Truth(NamedTuple):
    """The marks of a trace, in nanoseconds."""

    starts: list[int]
    ops: dict[int, int]
    """The mark in which each GPU op was launched, by its correlation."""


def _path(name: str) -> Path:
    known = (folder / f"{name}.json.gz" for folder in (SHARED_TRACES, GPU_TRACES, OWN_TRACES))
    return next((path for path in known if path.exists()), Path())


def _is_mark(event: dict) -> bool:
    is_step = str(event.get("name")).startswith("ProfilerStep#")
    return is_step and event.get("cat") != "gpu_user_annotation"


def _hidden(name: str, path: Path) -> Truth:
    """Writes a trace without its marks and annotations, and returns the marks."""
    trace = document(_path(name))
    events = trace["traceEvents"]
    base = min(int(float(e["ts"]) * 1000) for e in events if e.get("ph") == "X" and "ts" in e)
    marks = sorted(
        (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("ph") == "X" and _is_mark(e)
    )
    complete = [e for e in events if e.get("ph") == "X" and isinstance(e.get("args"), dict)]
    ops = {
        op["args"]["correlation"]: number
        for op, call in launches_of(complete)
        for number, (start, end) in enumerate(marks)
        if start <= call["ts"] < end
    }
    hidden = [
        e for e in events
        if e.get("cat") not in ("user_annotation", "gpu_user_annotation") and not _is_mark(e)
    ]  # fmt: skip
    write(path, hidden, **{key: value for key, value in trace.items() if key != "traceEvents"})
    return Truth([round(start * 1000) - base for start, _ in marks], ops)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The units of all traces, loaded together, with the truth of each, by name."""
    folder = tmp_path_factory.mktemp("hidden")
    names = [name for name in (*CHOSEN_ON, *HELD_OUT, *CAPTURED, *SINGLE) if _path(name).is_file()]
    truths = {name: _hidden(name, folder / f"{name}.json") for name in names}
    with tracekit.load([folder / f"{name}.json" for name in names], verdicts=False) as run:
        ids = run.sql("SELECT trace_id, path FROM trace").rows()
        yield run, {Path(path).stem: (trace, truths[Path(path).stem]) for trace, path in ids}


def _looked_up(found, name: str):
    run, traces = found
    if name not in traces:
        pytest.skip("the shared traces are missing")
    return run, *traces[name]


@pytest.mark.parametrize("name", [*CHOSEN_ON, *HELD_OUT, *CAPTURED])
def test_hidden_marks_are_found_again(found, name):
    run, trace, truth = _looked_up(found, name)
    starts = [
        start for (start,) in run.sql(
            f"SELECT start_ns FROM unit WHERE trace_id = {trace} AND level = 1 ORDER BY ALL"
        ).rows()
    ]  # fmt: skip
    if name in UNTOLD:
        assert len(starts) == 8 * len(truth.starts)
        return
    assert abs(len(starts) - len(truth.starts)) <= 1
    period, marked = (median(b - a for a, b in pairwise(each)) for each in (starts, truth.starts))
    assert abs(period - marked) <= max(0.02 * marked, 100_000)
    ops = run.sql(
        "SELECT g.correlation, u.unit_id, g.dur_ns FROM gpu_ops AS g ASOF JOIN"
        f" (FROM unit WHERE trace_id = {trace} AND level = 1) AS u"
        f" ON g.launch_start_ns >= u.start_ns WHERE g.trace_id = {trace}"
    ).rows()
    marked_ops = [(truth.ops[c], unit, ns) for c, unit, ns in ops if c in truth.ops]
    total = sum(ns for _, _, ns in marked_ops)
    right = max(
        sum(ns for mark, unit, ns in marked_ops if mark - unit == shift) for shift in (-1, 0, 1)
    )
    assert right >= 0.95 * total


@pytest.mark.parametrize("name", SINGLE)
def test_layers_do_not_win_as_passes(found, name):
    run, trace, _ = _looked_up(found, name)
    levels = run.sql(
        f"SELECT level, kind, count(*) FROM unit WHERE trace_id = {trace} GROUP BY ALL ORDER BY ALL"
    ).rows()
    assert levels[0] == (1, "pass", 1)
    assert {kind for level, kind, _ in levels if level > 1} <= {"layer"}


def test_most_marks_of_real_traces_are_found(found):
    _, traces = found
    if not set(CHOSEN_ON) & set(traces):
        pytest.skip("the shared traces are missing")
    marks = {name: len(truth.starts) for name, (_, truth) in traces.items() if name not in SINGLE}
    untold = sum(marks.get(name, 0) for name in UNTOLD)
    assert untold <= 0.05 * sum(marks.values())
