"""Traces of other profilers: the numbers of an independent count, and all that commands do."""

import json
import re

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit.other_formats import space
from tests.kit.processes import invoke
from tests.trace.test_nsys import report
from tracekit.causes import in_words_of
from tracekit.errors import TracekitError
from tracekit.reporters.html.subject import Subject
from tracekit.reporters.html.trace import trace_view
from tracekit.trace.paths import trace_paths

OTHER = SHARED_TRACES / "other"
EXPECTED = json.loads((OTHER / "expected.json").read_text()) if OTHER.exists() else {}
WITHOUT = [pytest.param(None, marks=pytest.mark.skip(reason=f"{OTHER} is not there"))]
each_file = pytest.mark.parametrize("name", sorted(EXPECTED) or WITHOUT)
# The expected file's names of figures, and tracekit's.
_OURS = {"idle_host_late_ns": "host_late_ns", "idle_device_ns": "device_ns",
         "idle_unlinked_ns": "unlinked_ns", "device": "device_id"}  # fmt: skip


@pytest.fixture(scope="module")
def loaded():
    """The files in one database, and the trace_ids of each: a device or process has one."""
    with tracekit.load([OTHER / name for name in sorted(EXPECTED)], verdicts=False) as run:
        paths = run.fetch("SELECT path, trace_id FROM trace ORDER BY 2")[1]
        yield run, {name: [id_ for path, id_ in paths if f"/{name}" in path] for name in EXPECTED}


def asked(loaded, name, question, **parameters):
    run, ids = loaded
    return [row for trace in ids[name] for row in run.ask(question, trace=trace, **parameters)]


@each_file
def test_numbers_are_those_of_an_independent_count(name, loaded):
    windows = asked(loaded, name, "partition", kind="gpu_active")
    for expected, ours in zip(EXPECTED[name], windows, strict=True):
        known = {_OURS.get(key, key): value for key, value in expected.items()}
        assert ours == ours | {key: value for key, value in known.items() if key in ours}


@each_file
def test_advice_on_recording_names_the_switches_of_its_own_profiler(name, loaded):
    said = asked(loaded, name, "missing") + asked(loaded, name, "health")
    words = " ".join(each["message"] for each in said)
    assert not re.search(
        r"record_shapes|with_stack|profile_memory|record_function|\.step\(\)", words
    )
    own = {"nsys": "--pytorch=autograd-shapes-nvtx", "rocprofv3": "--hip-trace", "xplane": "jax."}
    assert next(word for kind, word in own.items() if f".{kind}" in name) in words


@pytest.fixture(scope="module")
def judged(loaded):
    """The verdicts on the first two devices of each file; the others do the same."""
    run, ids = loaded
    with run.session.sharing():
        return {name: [run.verdict(trace) for trace in ids[name][:2]] for name in EXPECTED}


@pytest.mark.skipif(not EXPECTED, reason=f"{OTHER} is not there")
@pytest.mark.parametrize(
    ("name", "regime", "bottleneck", "confidence", "most_saved", "says"),
    [
        # The second device waits for its host for 9.2 % of its span.
        ("h100-pipeline-parallel.nsys.sqlite", "compute-bound", "math-or-memory", None, 0.092, ""),
        ("h100-two-gpus.nsys.sqlite", "compute-bound", "copy", "high", 0.95, ""),
        ("jax-te-attention.xplane.pb", "compute-bound", "math-or-memory", None, 0.02, ""),
        (
            "mi300x-jax-conv.xplane.pb",
            "unknown",
            None,
            None,
            0,
            "For 94.6 % of the window, the GPU waits",
        ),
        ("mi350-ddp.rocprofv3.json.gz", "unknown", None, None, 0, "calls, too: --hip-trace"),
    ],
)
def test_verdict_and_prices_are_what_the_raw_events_show(
    name, regime, bottleneck, confidence, most_saved, says, judged
):
    for found in judged[name]:
        verdict = found.verdict
        assert (verdict.regime, verdict.bottleneck) == (regime, bottleneck)
        assert verdict.confidence == confidence or confidence is None
        assert max((each.share or 0 for each in found.advice), default=0) <= most_saved
        assert says in " ".join([*verdict.why, *verdict.doubts, *verdict.try_next])


# -- commands --------------------------------------------------------------------------------------


def test_a_folder_s_copies_of_one_recording_are_read_once(tmp_path):
    names = ("a.nsys-rep", "a.qdrep", "a.sqlite", "b.nsys-rep", "jax/h.xplane.pb",
             "jax/h.trace.json.gz", "npu/ascend_pytorch_profiler_0.db", "npu/trace_view.json",
             "run_results.db", "t.pftrace", "notes.db")  # fmt: skip
    (tmp_path / "jax").mkdir()
    (tmp_path / "npu").mkdir()
    for name in names:
        (tmp_path / name).touch()
    found = [path.removeprefix(f"{tmp_path}/") for path in trace_paths([str(tmp_path)])]
    assert found == ["a.sqlite", "b.nsys-rep", "jax/h.xplane.pb",
                     "npu/ascend_pytorch_profiler_0.db", "run_results.db", "t.pftrace"]  # fmt: skip


@pytest.mark.thorough
def test_a_report_of_nsys_is_compared_with_kineto_s_trace_of_the_same_program(tmp_path):
    with tracekit.load(report(tmp_path)) as recorded:
        recorded.export(tmp_path / "same.json")
    trace = json.loads((tmp_path / "same.json").read_text())
    del trace["profiler"]
    (gemm,) = (each for each in trace["traceEvents"] if each["name"].startswith("void gemm"))
    gemm["dur"] = 1.0
    (tmp_path / "kineto.json").write_text(json.dumps(trace))
    with tracekit.load([tmp_path / "kineto.json", tmp_path / "run.sqlite"]) as both:
        assert both.fetch("SELECT profiler FROM trace ORDER BY 1")[1] == [("kineto",), ("nsys",)]
        found = both.diff()
        changes = {each["kernel"]: each["change_ns"] for each in found.kernels}
        assert sorted(changes.values()) == [0, 1000]
        assert {each["operator"] for each in found.operators} == {"aten::mm", "aten::relu"}
        saved = [both.whatif("kernel:gemm*0", trace=each, window="gpu_active") for each in (1, 2)]
        assert all(each.predicted_ns < each.window_ns for each in saved)
        with pytest.raises(TracekitError, match="the traces are not one run"):
            both.whatif_together("host*0.5")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["", *EXPECTED])
def test_every_command_takes_it(name, tmp_path):
    """The files without a name are a simulated report of nsys and a simulated trace of JAX."""
    files = [str(OTHER / name)] if name else [str(report(tmp_path)), f"{tmp_path}/h.xplane.pb"]
    if not name:
        (tmp_path / "h.xplane.pb").write_bytes(space())
    database, page, lake = (str(tmp_path / each) for each in ("a.duckdb", "page.html", "lake"))
    judged = "SELECT DISTINCT profiler FROM trace SEMI JOIN verdict USING (trace_id) ORDER BY 1"
    for command in (
        ["load", *files, "-o", database, "--no-verdict"],
        ["query", files[0], "top_kernels"],
        ["diff", database, "--trace-ids", "1", "1" if name else "2"],
        ["report", files[-1], "-o", page],
        ["lake", "add", *files, "--to", lake],
        ["sql", lake, judged, "--format", "csv"],
        ["annotate", files[-1], "-o", str(tmp_path / "annotated.json")],
    ):
        done = invoke(*command)
        assert done.exit_code == 0, f"{command}: {done.output}"
        if command[0] == "sql" and not name:
            assert done.stdout.split() == ["profiler", "jax", "nsys"]


def test_tensorflow_s_profile_is_known_by_its_runtime(tmp_path):
    """Both frameworks write the same planes: advice names the switches of the one that ran."""
    path = tmp_path / "h.xplane.pb"
    for called, profiler, framework, switch in (
        (b"PjitFunction(f)", "jax", "JAX", "jax.profiler"),
        (b"EagerKernelExecute", "tensorflow", "TensorFlow", "tf.profiler.experimental"),
    ):
        path.write_bytes(space(called=called))
        with tracekit.load(path) as run:
            assert run.sql("SELECT profiler FROM trace").item() == profiler
            known = run.query("settings").filter(name="framework")
            assert known["value"].to_list() == [framework]
            assert switch in repr(run.session.ask("missing"))


@pytest.mark.thorough
def test_a_tpu_is_called_so_and_its_word_changes_nothing_else(tmp_path):
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(space())
    path.with_name("gpu.xplane.pb").write_bytes(space(b"GPU", b"NVIDIA L4"))
    database = tmp_path / "tpu.duckdb"
    tracekit.load(path, database).close()
    said = invoke("analyze", database).output + invoke("analyze", database, "--full").output
    assert "TPU v6 Lite2" in said and "before the first TPU op" in said and "GPU" not in said
    gpu = path.with_name("gpu.xplane.pb")
    with tracekit.open_database(database) as run, tracekit.load(gpu) as other:
        ours, theirs = run.verdict().verdict, other.verdict().verdict
        assert repr(ours) == in_words_of("TPU", repr(theirs))
        figures = trace_view(Subject(run.session, 1)).figures.values()
        shown = [(each.title, each.says, *each.doubts) for each in figures]
        assert "TPU ops have no launch" in repr(shown) and "GPU" not in repr(shown)
