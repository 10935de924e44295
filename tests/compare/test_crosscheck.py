"""Numbers by other tools' rules, compared with HolisticTraceAnalysis and files of TraceLens."""

import csv
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.conftest import SHARED_TRACES, expected_numbers, shared_trace_names, trace_file
from tests.kit import traces
from tests.kit.processes import invoke
from tests.kit.sampling import sample
from tracekit.compare.crosscheck import crosscheck
from tracekit.compare.hta import analysis_of
from tracekit.errors import TracekitError

# All tests run in one process, so that shared data is made once.
pytestmark = pytest.mark.xdist_group("crosscheck")
needs_hta = pytest.mark.skipif(
    find_spec("hta") is None,
    reason="traceinsight is not installed: pip install 'torch-tracekit[hta]'",
)
# Traces that HTA reads fast, one of them without GPU work, which HTA fails on. QUIRKS has the other
# rules in traces of a few events.
FAST = ("a100-triton.json.gz", "cpu-only.json.gz")
TRIED = [name for name in sorted(expected_numbers()) if name in FAST]
every_trace = pytest.mark.parametrize(
    "name",
    sample("real traces that HTA analyzes too", shared_trace_names(), TRIED)
    or shared_trace_names(),
)

ANALYSES = ("temporal", "kernels", "overlap", "idle", "launches", "queue")
# In traces without GPU work HTA finds no streams, and fails on empty tables.
HTA_FAILS = {
    f"{name}.json.gz": {"temporal": "IndexError", "idle": "ValueError"}
    for name in (
        "cpu-only", "a100-cupti-counters", "a100-nccl-no-gpu-events", "no-categories",
        "rtx3060-attention",
    )
}  # fmt: skip
# It reads no trace that is an array, and stops where its compute takes longer than all kernels do.
HTA_FAILS["cpu-pippy-rpc.json.gz"] = dict.fromkeys(ANALYSES, "AttributeError")
HTA_FAILS["h100-qwen-small.json.gz"] = {"temporal": "AssertionError"}


# -- HolisticTraceAnalysis -------------------------------------------------------------------------


@needs_hta
@every_trace
def test_hta_gives_the_numbers_by_its_rules_which_explain_each_difference(name):
    with tracekit.load(trace_file(name), verdicts=False) as database:
        report = crosscheck(trace_file(name), database)
    assert report.agrees
    found = {each: reason.partition(":")[0] for each, reason in report.failures.items()}
    assert found == HTA_FAILS.get(name, {})
    for each in report.figures:
        differs = None not in (each.hta, each.tracekit) and each.hta != each.tracekit
        assert bool(each.reasons) == differs, each
        if found.get(each.analysis) in ("IndexError", "ValueError"):
            # Its rules have no answer, either.
            assert each.by_hta_rules is None, each


@pytest.mark.thorough
def test_rounding_by_hta_makes_kernels_empty(shared_ask, small_traces):
    name = "v100-ns-resolution.json.gz"
    rounded = [row["gpu_duration_ns"] for row in shared_ask(name, "hta_launch_stats")]
    assert (len(rounded), rounded.count(0)) == (4_876, 454)
    database, numbers = small_traces
    empty = f"SELECT count(*) FROM gpu_ops WHERE dur_ns = 0 AND trace_id = {numbers[name]}"
    assert database.fetch(empty)[1] == [(0,)]


@needs_hta
def test_hta_drops_flow_arrows_that_tracekit_keeps(tmp_path):
    arrow = {"cat": "ac2g", "name": "ac2g", "pid": 100, "tid": 100, "id": 1}
    arrows = [arrow | {"ph": "s", "ts": 10}, arrow | {"ph": "f", "ts": 20}]
    path = traces.write(tmp_path / "t.json", [*LAUNCHED, *arrows])
    with tracekit.load(path, verdicts=False) as database:
        assert database.fetch("SELECT DISTINCT category FROM flows")[1] == [("ac2g",)]
    trace = analysis_of(path).t
    names = trace.symbol_table.get_sym_table()
    assert "ac2g" not in {names[each] for each in trace.get_trace(0)["cat"]}


LAUNCHED = [traces.launch(10, 4, 1), traces.gpu_op(20, 10, 1)]
# A slash stands for the end of a line.
NAMES = (
    "ncclDevKernel, ncclx, void ncclKernel, hipMemcpyHtoD, hip_kernel, hccl, Memcpy HtoD, Memset, "
    "dma_request, a dma, aMemset, aMemcpy, aSync, Stream Wait Event, a Stream Wait Event, "
    "cudaGraphLaunchKernel, a cudaLaunchKernel, runFunction, a runFunction, job_exe_1, a job_exe, "
    "packet_2, pe_exe, cpum_exe_subgraph, collective_subgraph_execution, void/ncclKernel, void/dma"
)
# Events that trigger one rule each; they come before a launch and its kernel.
QUIRKS = {
    "a stream that is not a number": [
        traces.slice_event("cpu_op", "triton", 5, 90, args={"stream": "0x0"})
    ],
    "a stream that is a number in quotes": [
        traces.slice_event("cpu_op", "triton", 5, 90, args={"stream": "7"})
    ],
    "a stream that is a number with an exponent": [
        traces.slice_event("cpu_op", "triton", 5, 90, args={"stream": "1e3"})
    ],
    "kernels with names of every type": [
        traces.gpu_op(100 * at, at, name=name)
        for at, name in enumerate(NAMES.replace("/", "\n").split(", "), start=1)
    ],
    "a launch that only the queue counts": [
        traces.launch(3, 2, 2, "cuLaunchKernelEx"),
        traces.gpu_op(40, 50, 2),
    ],
    "ranges whose names end like steps": [
        traces.slice_event("user_annotation", "my ProfilerStep#1", 0, 50),
        traces.slice_event("user_annotation", "my ProfilerStep#2", 5, 50),
    ],
    "two launches of one kernel": [
        traces.slice_event("cuda_driver", "cuLaunchKernel", 11, 2, args={"correlation": 1})
    ],
    "a kernel counted twice for two launches before the last step": [
        traces.slice_event("cuda_driver", "cuLaunchKernel", 11, 2, args={"correlation": 1}),
        traces.step(1, 0, 50),
        traces.step(2, 50, 50),
    ],
    "a kernel launched in the last step": [
        traces.step(1, 0, 50),
        traces.step(2, 50, 50),
        traces.launch(60, 4, 2),
        traces.gpu_op(70, 10, 2),
    ],
    "a kernel without a launch": [
        traces.slice_event("cpu_op", "aten::mm", 0, 50),
        traces.gpu_op(5, 10, 9),
    ],
    "waits on a stream, on none, and of the context": [
        traces.slice_event("cuda_sync", "Stream Wait Event", 40, 5, args={"stream": 7}),
        traces.slice_event("cuda_sync", "Stream Sync", 50, 5, args={"stream": -1}),
        traces.slice_event(
            "cuda_sync", "Context Sync", 60, 5, args={"stream": -1, "correlation": 1}
        ),
    ],
    "two devices": [traces.launch(11, 4, 2), traces.gpu_op(25, 50, 2, device=1)],
    "communication beside compute and a copy": [
        traces.launch(3, 2, 2),
        traces.gpu_op(25, 50, 2, name="ncclDevKernel_AllReduce", stream=8),
        traces.launch(5, 2, 3, "cudaMemcpyAsync"),
        traces.gpu_op(60, 50, 3, category="gpu_memcpy", name="Memcpy HtoD", stream=9),
    ],
    "kernels that overlap on a stream": [traces.launch(3, 2, 2), traces.gpu_op(6, 40, 2)],
    "times within one microsecond": [
        traces.launch(3.1, 0.3, 2),
        traces.gpu_op(40.2, 0.5, 2),
        traces.gpu_op(40.9, 3.4, 2),
        traces.gpu_op(1700000000000000.7, 3.4, 3),
    ],
    "fractional durations alone": [traces.launch(3, 0.25, 2), traces.gpu_op(40, 0.5, 2)],
}  # fmt: skip


@pytest.mark.thorough
@needs_hta
@pytest.mark.parametrize("events", QUIRKS.values(), ids=list(QUIRKS))
def test_each_rule_on_its_own_gives_htas_numbers(events, tmp_path):
    agrees(traces.write(tmp_path / "t.json", [*events, *LAUNCHED]))


def agrees(path: Path) -> None:
    with tracekit.load(path, verdicts=False) as database:
        report = crosscheck(path, database)
    assert report.failures.keys() <= {"queue"}
    assert report.agrees, [each for each in report.figures if not each.agrees]


@needs_hta
def test_steps_drop_nothing_from_a_trace_without_host_events(tmp_path):
    steps = [
        traces.gpu_op(50 * at, 50, at, category="gpu_user_annotation", name=f"ProfilerStep#{at}")
        for at in (1, 2)
    ]
    agrees(traces.write(tmp_path / "t.json", [*steps, traces.gpu_op(170, 5, 3)]))


def on_mtia(start_us: float, correlation: int, launch: str) -> list[dict[str, Any]]:
    """A call and its kernel, 5 us later."""
    args = {"correlation": correlation}
    call = traces.slice_event("mtia_runtime", launch, start_us, 2, args=args)
    work = {"category": "mtia_ccp_events", "name": "pe_work"}
    return [call, traces.gpu_op(start_us + 5, 3, correlation, **work)]


@pytest.mark.sampled(2)
@needs_hta
@pytest.mark.parametrize(
    ("launch", "metadata"),
    [
        ("runFunction - job_prep_and_submit_for_execution", {}),
        ("cudaLaunchKernel", {"distributedInfo": {"backend": "cpu:gloo,mtia:hccl"}}),
    ],
    ids=["its calls", "its backend"],
)
def test_traces_of_an_mtia_are_told_by(launch, metadata, tmp_path):
    def copy(start_us: float, dur_us: float, stream: int = -1) -> dict[str, Any]:
        args = {"stream": stream, "correlation": -1}
        return traces.slice_event("mtia_ccp_events", "dma", start_us, dur_us, tid=12, args=args)

    agrees(traces.write(tmp_path / "t.json", [
        traces.step(1, 20, 30),
        traces.step(2, 50, 50),
        *(event for at in (10, 30, 60, 98, 1000) for event in on_mtia(at, at, launch)),
        traces.slice_event("cpu_op", "aten::mm", 40, 70),
        traces.slice_event("cpu_op", "triton", 45, 4, args={"stream": 3, "correlation": 30}),
        copy(15, 3),
        copy(50, 90),
        copy(70, 3, stream=4),
        traces.slice_event("cpu_op", "Memset", 75, 3, tid=13),
    ], **metadata))  # fmt: skip


# -- TraceLens -------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "h100-bert-small",
        "h100-timesformer",
        "mi300x-resnet-checkpoint",
        "mi300x-sglang-graph-decode",
    ],
)
def test_tracelens_gives_the_numbers_by_its_rules(name, shared_ask):
    rows = shared_ask(f"{name}.json.gz", "tracelens_gpu_timeline")
    found = {str(row["is_recompute"]): row for row in rows}
    with (SHARED_TRACES / f"{name}.gpu_timeline.csv").open() as file:
        theirs = list(csv.DictReader(file))
    assert {row.get("is_recompute", "False") for row in theirs} == set(found)
    for row in theirs:
        mine = found[row.get("is_recompute", "False")]
        # TraceLens's doubles have a resolution of 0.25 to 0.5 ns at each end of each op.
        tolerance = 1e-6 * mine["total_ns"]
        value = mine[row["type"].removesuffix("_time") + "_ns"]
        assert value == pytest.approx(float(row["time ms"]) * 1e6, abs=tolerance), row["type"]


# -- the command -----------------------------------------------------------------------------------


@needs_hta
def test_the_command_prints_both_numbers_and_why_they_differ(tmp_path):
    events = [*QUIRKS["a stream that is a number in quotes"], *LAUNCHED]
    path = traces.write(tmp_path / "t.json", events)
    done = invoke("crosscheck", path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "counts host events that name a stream as GPU work (1)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    report = json.loads(invoke("crosscheck", path, "--json").stdout)
    assert report["schema"] == "tracekit/crosscheck/1"
    assert report["agrees"] is True
    (compute,) = (f for f in report["figures"] if f["name"] == "compute")
    numbers = [compute[each] for each in ("hta", "by_hta_rules", "tracekit")]
    assert numbers == [90_000, 90_000, 10_000]


@needs_hta
@pytest.mark.parametrize(
    "event",
    [
        traces.operator("aten::mm", 0, 50),
        {"ph": "C", "name": "memory", "pid": 1, "ts": 0, "args": {"bytes": 1}},
    ],
    ids=["without GPU work", "without slices"],
)
def test_a_trace_that_hta_fails_on_is_reported(event, tmp_path):
    path = traces.write(tmp_path / "t.json", [event])
    done = invoke("crosscheck", path)
    assert done.exit_code == 0
    assert "HTA fails: " in done.stdout


# A fake HTA with one analysis, which is wrong.
FAKE = """
NAMES = [f"{name}_time(us)" for name in ("idle", "compute", "non_compute", "kernel")]

class TraceAnalysis:
    def __init__(self, trace_files, trace_dir):
        print("noise")
    def get_temporal_breakdown(self, visualize):
        class Frame:
            iloc = [dict.fromkeys(NAMES, 1)]
        return Frame
"""


def test_the_exit_status_is_1_when_hta_differs_from_its_rules(run, tmp_path):
    (tmp_path / "hta").mkdir()
    (tmp_path / "hta" / "__init__.py").touch()
    (tmp_path / "hta" / "trace_analysis.py").write_text(FAKE)
    (tmp_path / "traceinsight-9.dist-info").mkdir()
    metadata = "Metadata-Version: 2.4\nName: traceinsight\nVersion: 9\n"
    (tmp_path / "traceinsight-9.dist-info" / "METADATA").write_text(metadata)
    traces.write(tmp_path / "t.json", LAUNCHED)
    done = run("crosscheck", "t.json", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    assert "DIFFERS" in done.stdout
    assert done.stdout.startswith("HTA 9 compared with tracekit")
    assert "noise" not in done.stdout + done.stderr
    assert "AttributeError" in done.stdout


def test_without_hta_the_error_names_the_extra_to_install(run, tmp_path):
    (tmp_path / "hta.py").write_text("raise ImportError('none here')")
    traces.write(tmp_path / "t.json", LAUNCHED)
    done = run("crosscheck", "t.json", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'torch-tracekit[hta]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_hta_cannot_read_is_refused(tmp_path):
    path = traces.write(tmp_path / "t.json", LAUNCHED)
    (tmp_path / "t.json.zst").write_bytes(b"")
    tracekit.load(path, tmp_path / "run.duckdb", verdicts=False).close()
    for name, reason in (
        ("missing.json", "no such file"),
        ("t.json.zst", "only .json and .json.gz"),
        ("", "only .json and .json.gz"),
        ("run.duckdb", "is a database"),
    ):
        with pytest.raises(TracekitError, match=f"^[^\n]*{reason}[^\n]*$"):
            invoke("crosscheck", tmp_path / name)
