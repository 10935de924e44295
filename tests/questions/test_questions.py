"""Named questions as users ask them, by command and by method, with the doubts about answers."""

import json
import shutil

import duckdb
import pytest

import tracekit
from tests.kit import cases, traces
from tests.kit.sampling import sample
from tests.kit.traces import gpu_op, launched, operator, step
from tracekit.database import catalog

A100 = traces.device("NVIDIA A100-SXM4-80GB")
EVENTS = [
    step(1, 0, 100),
    *launched([operator("aten::mul", 1, 9)], 2, 20, 5, 1, name="mul"),
    gpu_op(60, 5, name="of nobody"),
]


def a_trace(folder):
    return traces.write(folder / "t.json", EVENTS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    tracekit.load(a_trace(folder), folder / "t.duckdb", verdicts=False).close()
    return folder / "t.duckdb"


@pytest.fixture
def path(made, tmp_path):
    return str(shutil.copy(made, tmp_path))


def test_the_list_has_every_question_under_its_topic(run):
    page = run("query", "--list").stdout
    for title in catalog.TOPICS.values():
        assert title in page
    for question in catalog.queries().values():
        assert f"  {question.name} " in page
        assert question.question in page
    assert run("query", "top_kernels", "--explain").stdout.startswith("-- question:")


def test_columns_are_chosen_by_name_in_any_format(path, tmp_path, run):
    asked = ("query", path, "top_kernels", "--columns", "total_ns, name", "--param", "top=1")
    assert run(*asked, "--format", "csv").stdout == "total_ns,name\n5000,mul\n"
    assert json.loads(run(*asked, "--format", "json").stdout) == [{"total_ns": 5000, "name": "mul"}]
    assert run(*asked, "--format", "parquet", "-o", "k.parquet").returncode == 0
    with duckdb.connect() as connection:
        read = connection.read_parquet(str(tmp_path / "k.parquet"))
        assert (read.columns, read.fetchall()) == (["total_ns", "name"], [(5000, "mul")])


def test_a_question_may_come_before_its_trace(path, run):
    assert (
        run("query", "top_kernels", path).stdout == run("query", path, "top_kernels").stdout != ""
    )


def test_an_unknown_column_is_refused_with_those_that_there_are(path, run):
    done = run("query", path, "top_kernels", "--columns", "nmae")
    assert done.returncode == 2
    assert "has no column 'nmae'; it has trace_id, name" in done.stderr
    assert done.stderr.count("\n") == 1


def test_figures_come_with_what_makes_them_doubtful(path, run):
    done = run("query", path, "partition")
    assert "GPU ops have no launch in the trace (50.0 % of all)" in done.stderr
    # This finding does not affect kernel names.
    assert run("query", path, "top_kernels").stderr == ""


def test_a_damaged_file_touches_every_answer(tmp_path, run):
    whole = a_trace(tmp_path).read_text()
    (tmp_path / "t.json").write_text(whole[: whole.index('"of nobody"')])
    done = run("query", "t.json", "top_kernels")
    assert done.returncode == 0
    assert "error: trace 1: the end is missing" in done.stderr


WITHOUT_ANSWER = {
    "roofline": "no input shapes were recorded",
    "module_time": "no calls of nn.Module were recorded",
    "memory_peak": "no allocations were recorded",
    "collective_stats": "no collective ran on a device",
    "collective_skew": "no other rank of its job",
    "graph_replays": "no CUDA graph was launched",
    "counter_ranges": "no counters were recorded",
    "compile_overhead": "no code in it was compiled",
    "data_loading": "no data loading is in it",
    "python_time": "no Python stacks were recorded",
    "memory_traffic": "no copy or fill ran",
}


def test_a_question_without_an_answer_says_why(made):
    with tracekit.open_database(made) as database:
        for question, reason in WITHOUT_ANSWER.items():
            assert database.ask(question) == []
            assert any(reason in row["message"] for row in database.doubts(question)), question


def test_the_reason_is_printed_where_there_are_no_rows(path, run):
    done = run("query", path, "roofline")
    assert done.returncode == 0
    assert "missing: trace 1: no input shapes were recorded (record_shapes=True)" in done.stderr


@pytest.mark.thorough
def test_databases_are_loaded_like_traces(made, tmp_path):
    trace = a_trace(tmp_path)
    with tracekit.load([made, trace, made]) as database:
        assert database.trace_ids() == [1, 2, 3]
        answers = [database.verdict(trace_id).as_dict() for trace_id in (2, 3)]
        for each in answers:
            del each["trace"]["trace_id"], each["trace"]["path"]
            for kernel in each["top_kernels"] + each["memory_traffic"]:
                del kernel["trace_id"]
        assert answers[0] == answers[1]
        database.export(tmp_path / "again.json", 3)
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(trace.read_text())


def test_a_database_of_another_version_is_refused(made, tmp_path):
    trace, other = a_trace(tmp_path), tmp_path / "other.duckdb"
    for made_by in (1, catalog.FORMAT + 1):
        shutil.copy(made, other)
        with duckdb.connect(str(other)) as connection:
            connection.execute(f"UPDATE tracekit SET format = {made_by}")
        before = other.read_bytes()
        for open_ in (
            lambda: tracekit.open_database(other),
            lambda: tracekit.load(other, tmp_path / "new.duckdb"),
            lambda: tracekit.load(trace, other, append=True),
        ):
            with pytest.raises(tracekit.TracekitError) as refused:
                open_()
            said = "was made by another version of tracekit: load its traces again"
            assert said in str(refused.value) and "\n" not in str(refused.value)
        assert not (tmp_path / "new.duckdb").exists()
        assert other.read_bytes() == before


def test_a_users_hardware_file_comes_first_and_is_chosen_when_loading(path, tmp_path, run):
    (tmp_path / "mine.toml").write_text(
        "[[device]]\nname = 'mine'\nmatch = 'A100'\nmemory_gb_per_s = 1\n"
        "tflops = { bf16 = 1 }\nsource = 'measured'\n"
    )
    product = operator("aten::mm", 0, 20, [[8, 16], [16, 4]], ["c10::BFloat16"] * 2)
    traces.write(tmp_path / "t.json", launched([product], 5, 30, 100, 1), **A100)
    asked = ("t.json", "roofline", "--columns", "math_ns,memory_ns", "--format", "csv")
    assert run("query", *asked, "--hardware", "mine.toml").stdout == "math_ns,memory_ns\n1,448\n"
    done = run("analyze", path, "--hardware", "mine.toml")
    assert done.returncode == 2
    assert "is a database; pass --hardware" in done.stderr


def test_an_answer_about_one_trace_has_no_rows_of_others(cases_database):
    # The work of graph replays may be in the trace of the capture.
    title = "mfu: A step has the work of the replays that it launches"
    trace = list(cases.cases()).index(title) + 1
    about_one = [
        name
        for name, question in catalog.queries().items()
        if "trace_id" in (column.name for column in question.columns)
        and "trace" in (parameter.name for parameter in question.parameters)
    ]
    few = [*about_one[::4], "mfu", "roofline"]
    for name in sample("questions about one trace of several", about_one, few):
        rows = cases_database.ask(name, trace=trace)
        assert {row["trace_id"] for row in rows} <= {trace}, name
        assert rows or name not in ("mfu", "roofline")
