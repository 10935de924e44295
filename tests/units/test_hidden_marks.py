"""Marks of steps are found again in real traces without them and without any annotation."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracekit
from tests.conftest import GPU_TRACES, OWN_TRACES, SHARED_TRACES
from tests.kit.hidden_marks import found_again, hide_marks
from tests.kit.sampling import sample

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
_SOME = sample("captures whose marks are hidden", len(_CAPTURES), 5)
CAPTURED = _CAPTURES[:: len(_CAPTURES) // _SOME][:_SOME]
# Without annotations, nothing in them marks a pass; their layers are not passes.
_SINGLE = (
    "b200-vllm-eager", "h100-bert-small", "h100-qwen-small", "h100-timesformer",
    "mi300x-sglang-mixed", "mi300x-vllm-piecewise",
)  # fmt: skip
SINGLE = sample("shared traces of a single pass", _SINGLE, _SINGLE[::2])


def _path(name: str) -> Path:
    known = (folder / f"{name}.json.gz" for folder in (SHARED_TRACES, GPU_TRACES, OWN_TRACES))
    return next((path for path in known if path.exists()), Path())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The units of all traces, loaded together, with the truth of each, by name."""
    folder = tmp_path_factory.mktemp("hidden")
    names = [name for name in (*CHOSEN_ON, *HELD_OUT, *CAPTURED, *SINGLE) if _path(name).is_file()]
    truths = {name: hide_marks(_path(name), folder / f"{name}.json") for name in names}
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
    again = found_again(*_looked_up(found, name))
    if name in UNTOLD:
        assert again.units == 8 * again.marks
        return
    assert abs(again.units - again.marks) <= 1
    assert abs(again.period_ns - again.marked_ns) <= max(0.02 * again.marked_ns, 100_000)
    assert again.right is None or again.right >= 0.95


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
