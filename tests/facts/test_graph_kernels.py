"""Which operator, module and line a kernel inside a CUDA graph is of, and how that is known."""

from __future__ import annotations

import gzip
import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit import nsys_simulated as nsys
from tests.kit import traces
from tracekit.errors import TracekitError
from tracekit.trace import beside, budget

OPERATORS = ("aten::mm", "aten::relu", "aten::add")


def node(graph: int, place: int) -> int:
    """A node's id, as cudaGraphNodeGetToolsId gives it."""
    return graph << 32 | place


def captured(graph: int | None = None, kernels: list[str] | None = None) -> list[dict]:
    """A capture in which each operator launches one kernel; with `graph`, the launches name their
    nodes; with `kernels`, the kernels do, as ROCm does."""
    events = [
        traces.launch(0, 1, 100, "cudaStreamBeginCapture"),
        traces.frame("nn.Module: Model_0", 0, 200),
        traces.frame("nn.Module: Linear_7", 9, 150),
        traces.frame("model.py(12): forward", 9.5, 140),
    ]
    for place, name in enumerate(OPERATORS):
        start = 10 + 10 * place
        call = traces.launch(start + 1, 3, 101 + place)
        if graph is not None:
            call["args"]["graph node id"] = node(graph, place + 1)
        if kernels is not None:
            call["args"]["kernel"] = kernels[place]
        events += [traces.operator(name, start, 8, [[4, 4]], ["float"]), call]
    return [*events, traces.launch(300, 1, 190, "cudaStreamEndCapture")]


def replayed(
    args: list[dict[str, Any]], at: float = 1000, correlation: int = 1, name: str = "sgemm_{}"
) -> list[dict]:
    """A replay of a graph, inside an operator. Its kernels have these additional arguments."""
    events = [
        traces.operator("Compiled", at - 1, 10),
        traces.launch(at, 5, correlation, "cudaGraphLaunch"),
    ]
    for place, more in enumerate(args):
        op = traces.gpu_op(at + 50 + 20 * place, 10, correlation, name=name.format(place))
        op["args"] |= more
        events.append(op)
    return events


def nodes(graph: int, *places: int) -> list[dict[str, Any]]:
    return [{"graph id": graph, "graph node id": node(graph, place)} for place in places]


def origins(run: tracekit.Database, trace: int | None = None) -> list[tuple[Any, ...]]:
    """Operator, module and line of each kernel of a replay, each with how it is known."""
    of = "" if trace is None else f"AND trace_id = {trace}"
    asked = (
        "SELECT cpu_op, known_from, module, module_from, python_line, line_from "
        f"FROM gpu_op_origin WHERE is_graph {of} ORDER BY trace_id, start_ns"
    )
    return run.fetch(asked)[1]


def by_node(*places: int) -> list[tuple[str, str]]:
    return [(OPERATORS[place], "node") for place in places]


NOT_KNOWN = ("Compiled", "graph launch", None, None, None, None)


def of_capture(operator: str, how: str) -> tuple[str, ...]:
    how = f"capture by {how}"
    return operator, how, "Linear_7", how, "model.py(12): forward", how


TRACES = traces.Together()


# -- annotations -----------------------------------------------------------------------------------


ANNOTATIONS = {
    node(3, 1): [{"name": "attention", "Process Group Ranks": [0, 1]}],
    node(3, 2): ["mlp"],
    node(3, 9): [{"name": "of another graph"}],
}
STACKS = {node(3, 2): "model.py:12:forward\ntrain.py:3:step"}
AS_SAID = [("attention", None), ("mlp", "model.py(12): forward"), (None, None)]


def as_json(said: dict[int, Any]) -> bytes:
    return json.dumps({str(key): value for key, value in said.items()}).encode()


FILES = {
    "kernel_annotations_rank0_x.pkl": pickle.dumps(ANNOTATIONS, 2),
    "kernel_annotations_rank0_y.pickle": pickle.dumps(ANNOTATIONS, 5),
    "kernel_annotations.json": as_json(ANNOTATIONS),
    "trace.annotations.json.gz": gzip.compress(as_json(ANNOTATIONS)),
}


def test_annotations_beside_a_trace_or_its_step_tell_modules_and_lines(tmp_path):
    found = []
    for place, (name, text) in enumerate(FILES.items()):
        folder = tmp_path / f"run{place}"
        inside = folder / "step_3" if place % 2 else folder
        inside.mkdir(parents=True)
        found.append(traces.write(inside / "trace.json", replayed(nodes(3, 1, 2, 4))))
        (folder / name).write_bytes(text)
        (folder / "kernel_annotations_stacks.json").write_bytes(as_json(STACKS))
        (folder / "other.annotations.json").write_bytes(as_json({node(3, 4): "of another trace"}))
    with tracekit.load(found) as run:
        rows = origins(run)
    assert {row[3] for row in rows if row[2]} <= {"annotations file"}
    assert [(row[2], row[4]) for row in rows] == AS_SAID * len(FILES)


def test_annotations_are_read_by_rank_kept_with_the_trace_and_taken_for_no_trace(tmp_path):
    for rank in (0, 1):
        events = replayed(nodes(3, 1, 2))
        traces.write(tmp_path / f"rank{rank}_trace.json", events, distributedInfo={"rank": rank})
        said = as_json({node(3, 1): f"layer of {rank}"})
        (tmp_path / f"kernel_annotations_rank{rank}_x.json").write_bytes(said)
    asked = "SELECT trace_id, module FROM gpu_op_origin WHERE module IS NOT NULL ORDER BY ALL"
    expected = [(1, "layer of 0"), (2, "layer of 1")]
    with tracekit.load(tmp_path, tmp_path / "one.duckdb", verdicts=False) as run:
        assert run.fetch(asked)[1] == expected
    with tracekit.load(tmp_path / "one.duckdb") as run:
        assert run.fetch(asked)[1] == expected


def test_annotations_may_be_given_and_those_in_the_trace_come_first(tmp_path):
    first, *rest = nodes(3, 1, 2, 4)
    trace = traces.write(tmp_path / "trace.json", replayed([first | {"name": "own"}, *rest]))
    mine = tmp_path / "mine.bin"
    mine.write_bytes(pickle.dumps(ANNOTATIONS))
    with tracekit.load(trace, annotations=[mine]) as run:
        found = [(row[2], row[3]) for row in origins(run)]
    assert found == [("own", "annotation"), ("mlp", "annotations file"), (None, None)]


def test_annotations_tell_a_replayed_collective_and_whether_any_node_is_of_the_trace(tmp_path):
    said = {
        "Collective name": "allreduce", "In msg nelems": 64, "Out msg nelems": 64,
        "Group size": 8, "Process Group Name": "tp", "dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "kernel_annotations.json").write_bytes(as_json({node(3, 1): [said]}))
    (tmp_path / "kernel_annotations_old.json").write_bytes(as_json({node(2, 1): "mlp"}))
    events = replayed(nodes(3, 1), name="ncclDevKernel_AllReduce")
    with traces.load(tmp_path, events) as run:
        asked = "SELECT type, group_name, group_size, message_bytes FROM collective"
        assert run.fetch(asked)[1] == [("allreduce", "tp", 8, 128)]
        (told,) = [row for row in run.findings() if row["code"] == "annotations_unmatched"]
    assert told["message"].startswith("kernel_annotations_old.json annotates 1 nodes of graphs")


class _Runs:
    def __reduce__(self):
        return print, ("this ran",)


_ITSELF: list[Any] = []
_ITSELF.append(_ITSELF)


NO_ANNOTATIONS = [
    (pickle.dumps({1: _Runs()}), "runs nothing that a pickle names"),
    (pickle.dumps(["a list"]), "a dictionary by node"),
    (pickle.dumps(ANNOTATIONS)[:-9], "is damaged"),
    (b'["a list"]', "a dictionary by node"),
    (b'{"layer": "x"}', "'layer' is not a node id"),
    (b'{"-1": "x"}', "'-1' is not a node id"),
    (b"[" * 100_000, "recursion"),
    (b"{", "is not a file of graph annotations"),
    (gzip.compress(as_json(ANNOTATIONS))[:-20], "ends early"),
]


def test_files_without_annotations_are_refused_in_one_line(run, tmp_path, capsys):
    mine = tmp_path / "mine.bin"
    for text, reason in NO_ANNOTATIONS:
        mine.write_bytes(text)
        with pytest.raises(TracekitError, match=re.escape(reason)) as refused:
            list(beside.annotated_nodes(str(mine)))
        assert str(mine) in str(refused.value) and "\n" not in str(refused.value)
    assert "this ran" not in capsys.readouterr().out
    trace = traces.write(tmp_path / "trace.json", replayed(nodes(3, 1)))
    done = run("analyze", str(trace), "--annotations", str(mine))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    # Beside a trace, which nobody asked for, it is left.
    mine.rename(tmp_path / "kernel_annotations.json")
    done = run("query", str(trace), "graph_known")
    assert done.returncode == 0
    assert reason in done.stderr


def test_annotations_that_name_one_text_many_times_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "HELD_BYTES", 10_000)
    path = tmp_path / "mine.pkl"
    path.write_bytes(pickle.dumps(dict.fromkeys(range(100), "x" * 1_000)))
    with pytest.raises(TracekitError, match="far more than its size justifies"):
        list(beside.annotated_nodes(str(path)))


def test_annotations_without_plain_values_are_left_out(tmp_path):
    said = pickle.dumps(
        {node(3, 1): [{"name": "a", "x": _ITSELF, "y": {"z": 1}, 5: math.nan}, _ITSELF]}
    )
    trace = traces.write(tmp_path / "trace.json", replayed(nodes(3, 1)))
    (tmp_path / "kernel_annotations.pkl").write_bytes(said)
    with tracekit.load(trace) as run:
        assert run.fetch("SELECT annotation FROM graph_annotation")[1] == [('{"name": "a"}',)]


@pytest.mark.parametrize(
    ("trace", "args", "expected"),
    [
        (TRACES.events([*captured(graph=graph), *replayed(args)]), args, expected)
        for graph, args, expected in (
        # The device ran the nodes in another order than they were captured.
        (3, nodes(3, 2, 1, 3), by_node(1, 0, 2)),
        # The executable graph has its own number.
        (3, nodes(9, 2, 1, 3), by_node(1, 0, 2)),
        # Cuspy's traces hold the node's number within the graph alone.
        (3, [{"graph id": 3, "graph node id": n} for n in (3, 2, 1)], by_node(2, 1, 0)),
        # A part of the graph is on another device, or was not recorded.
        (3, nodes(3, 3), by_node(2)),
        # Nodes that the capture does not have: by order.
        (3, nodes(9, 41, 42, 43), [(name, "order") for name in OPERATORS]),
        (None, nodes(3, 1, 2, 3), [(name, "order") for name in OPERATORS]),
        (3, [{}, {}, {}], [(name, "order") for name in OPERATORS]),
        # Zero is not a node's id.
        (3, [{"graph id": 0, "graph node id": 0}] * 3, [(name, "order") for name in OPERATORS]),
        # Neither nodes nor the number of kernels agree.
        (3, nodes(9, 1, 2), None),
        (3, nodes(3, 41, 42), None),
        (None, [{}, {}], None),
        )
    ],
)  # fmt: skip
def test_a_kernel_is_of_the_captured_launch_of_its_node_or_else_of_its_place(
    trace, args, expected, loaded
):
    found = origins(loaded, trace)
    known = loaded.ask("graph_known", trace=trace)
    assert found == [of_capture(*each) for each in expected or []] or not expected
    if expected is None:
        assert found == [NOT_KNOWN] * len(args)
    (share,) = [row for row in known if row["what"] == "module"]
    how = {how for _, how in expected or []}
    assert share["known_from"] == (f"capture by {how.pop()}" if how else None)
    assert (share["kernels"], share["share_of_kernels"]) == (len(args), 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kernels", "expected"),
    [(["sgemm_0", "sgemm_1", "sgemm_2"], "node"), (None, None), (["other"] * 3, None)],
)
def test_a_capture_in_another_trace_counts_by_nodes_if_its_kernels_agree(
    kernels, expected, tmp_path
):
    one = traces.write(tmp_path / "capture.json", captured(3, kernels))
    args = nodes(9, 1, 2, 3)
    two = traces.write(tmp_path / "replay.json", replayed(args))
    with tracekit.load([one, two]) as run:
        found = origins(run)
    assert found == (
        [of_capture(name, expected) for name in OPERATORS] if expected else [NOT_KNOWN] * 3
    )


@pytest.mark.thorough
def test_captures_beside_a_trace_are_found_and_not_judged(run, tmp_path):
    folder = tmp_path / "capture_traces"
    folder.mkdir()
    names = ["sgemm_0", "sgemm_1", "sgemm_2"]
    for rank, kernels in enumerate((names, names[::-1])):
        traces.write(folder / f"bs_2_rank{rank}.json", captured(kernels=kernels))
    (folder / "bs_4_rank0.json").write_text("{")
    trace = traces.write(tmp_path / "1786734684.99-TP-0.trace.json", replayed([{}] * 3))
    with tracekit.load(trace) as opened:
        assert origins(opened) == [of_capture(name, "order") for name in OPERATORS]
        paths = [path for (path,) in opened.fetch("SELECT path FROM trace ORDER BY trace_id")[1]]
        assert paths == [str(trace), str(folder / "bs_2_rank0.json")]
        assert [each.trace.path for each in opened.verdicts()] == [str(trace)]
        assert opened.verdict().trace.path == str(trace)
        assert set(opened.top_kernels()["trace_id"]) == {1}
    done = run("query", str(trace), "graph_known", "--format", "csv")
    assert "capture by order" in done.stdout
    assert "also read, to describe its graphs" in done.stderr
    assert "without a capture beside it" in done.stderr
    # A capture that is loaded alone is judged.
    with tracekit.load(folder / "bs_2_rank0.json") as opened:
        assert opened.trace_ids() == [1]


# -- Nsight Systems --------------------------------------------------------------------------------


def nsys_report(folder: Path, clones: dict[int, int | None]) -> Path:
    """A report in which two operators are captured, and a graph is replayed whose kernels name the
    nodes 21 and 22 of graph 2; `clones` gives the node that each was cloned from."""
    strings = nsys.Strings()
    template = {node(1, place): 1_000 + 100 * place + 20 for place in (1, 2)}
    made = [
        {"start": at, "end": at + 1, "nameId": strings["Graph Node Creation"],
         "globalTid": nsys.GLOBAL_TID, "graphNodeId": number, "originalGraphNodeId": None}
        for number, at in template.items()
    ] + [
        {"start": 2_000, "end": 2_001, "nameId": strings["Graph Node Clone"],
         "globalTid": nsys.GLOBAL_TID, "graphNodeId": number, "originalGraphNodeId": of}
        for number, of in clones.items()
    ]  # fmt: skip
    tables = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            nsys.call(strings, "cudaStreamBeginCapture_v10000", 1_000, 1_010, 1),
            nsys.call(strings, "cudaLaunchKernel_v7000", 1_110, 1_140, 2),
            nsys.call(strings, "cudaLaunchKernel_v7000", 1_210, 1_240, 3),
            nsys.call(strings, "cudaStreamEndCapture_v10000", 1_900, 1_910, 4),
            nsys.call(strings, "cudaGraphLaunch_v10000", 3_000, 3_100, 5),
        ],
        # The second node starts first.
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            nsys.kernel(strings, "relu", 4_000, 4_100, 5, graphNodeId=node(2, 22)),
            nsys.kernel(strings, "gemm", 5_000, 5_100, 5, graphNodeId=node(2, 21)),
        ],
        "NVTX_EVENTS": [
            nsys.nvtx_range(strings, "aten::mm, op_id = 11, sizes = [[8, 16]]", 1_100, 1_150),
            nsys.nvtx_range(strings, "aten::relu, op_id = 12, sizes = [[8, 4]]", 1_200, 1_250),
        ],
        "CUDA_GRAPH_NODE_EVENTS": made,
    }
    return nsys.write(folder / "report.sqlite", tables, strings)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("clones", "expected"),
    [
        ({node(2, 21): node(1, 1), node(2, 22): node(1, 2)},
         [("aten::relu", "capture by node"), ("aten::mm", "capture by node")]),
        # The nodes were copied through a third graph.
        ({node(2, 21): node(3, 5), node(3, 5): node(1, 1), node(2, 22): node(1, 2)},
         [("aten::relu", "capture by node"), ("aten::mm", "capture by node")]),
        # If the copies lead to an unknown node or in a circle, or are missing, order decides.
        ({node(2, 21): node(7, 1), node(2, 22): node(7, 2)},
         [("aten::relu", "capture by order"), ("aten::mm", "capture by order")]),
        ({node(2, 21): node(2, 22), node(2, 22): node(2, 21)},
         [("aten::relu", "capture by order"), ("aten::mm", "capture by order")]),
    ],
)  # fmt: skip
def test_nsys_names_the_captured_node_that_a_replays_node_was_cloned_from(
    clones, expected, tmp_path
):
    with tracekit.load(nsys_report(tmp_path, clones)) as run:
        assert [row[:2] for row in origins(run)] == expected


@pytest.mark.parametrize(
    ("name", "kernels", "expected"),
    [
        ("mi300x-vllm-piecewise", 361, (None, "graph launch", "graph launch")),
        ("mi300x-graph-decode", 356, (None, None, "graph launch")),
        ("a100-vit-recapture", 620, ("capture by order", None, None)),
        ("v100-diff-test", 4464, ("graph launch", None, None)),
    ],
)
def test_how_the_kernels_of_real_graphs_are_known(name, kernels, expected, shared_ask):
    if not (SHARED_TRACES / f"{name}.json.gz").exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    rows = shared_ask(f"{name}.json.gz", "graph_known")
    assert [(row["what"], row["known_from"], row["kernels"]) for row in rows] == [
        (what, how, kernels)
        for what, how in zip(("operator", "module", "line"), expected, strict=True)
    ]


@TRACES.of(*captured(), *replayed([{}] * 3), *replayed([{}] * 3, at=2000, correlation=2))
def test_a_change_of_an_operator_changes_what_replays_ran_of_it(trace, loaded):
    lengths = [
        loaded.whatif(change, trace=trace, window="gpu_active").predicted_ns
        for change in ("operator:aten::relu*0", "kernel:sgemm_1*0", "host*1")
    ]
    assert lengths[0] == lengths[1] < lengths[2]
