"""Bad input: exit status 2, one line that names the file and the reason, nothing half-written."""

import gzip
import json

import duckdb
import pytest

from tests.kit import traces
from tests.kit.sampling import sample

GOOD = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1)] * 50


@pytest.fixture
def trace(tmp_path):
    return traces.write(tmp_path / "good.json", GOOD)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"not json at all", "is not JSON"),
        (b'{"hello": "world"}', "no `traceEvents`"),
        (b'{"traceEvents": {}}', "not an array"),
        (gzip.compress(json.dumps({"traceEvents": GOOD}).encode(), mtime=0)[:20], "ends early"),
    ],
    ids=["missing", "empty", "not JSON", "no trace", "not an array", "cut gzip"],
)
@pytest.mark.parametrize("command", ["analyze", "load", "sql", "query", "export"])
def test_a_file_that_cannot_be_read_is_refused(command, content, reason, refused, tmp_path):
    name = "trace\x1b[31m.json"
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.iterdir())
    arguments = {
        "analyze": [name],
        "load": [name, "-o", "out.duckdb"],
        "sql": [name, "SELECT 1"],
        "query": [name, "top_kernels"],
        "export": [name, "-o", "out.json"],
    }[command]
    said = refused(command, *arguments)
    assert "trace" in said and reason in said and "\x1b" not in said
    assert sorted(tmp_path.iterdir()) == before


def test_a_trace_without_events_is_bad_input(run, refused, trace, tmp_path):
    texts = ['{"traceEvents": []}', "[]", "[1, 2, 3]", '[{"pid": 1']
    names = [f"none{place}.json" for place in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text)
    assert f"{names[0]}: contains no trace events" in refused("analyze", names[0], "--json")
    done = run("load", *names, "good.json", "-o", "run.duckdb", "--no-verdict")
    assert done.returncode == 2
    for name in names:
        assert f"not loaded: {name}: contains no trace events" in done.stderr
    assert "good.json" in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        # tests/safety/test_sandbox.py tries every kind of statement.
        (["sql", "good.json", "COPY event TO 'stolen.csv'"], "read-only"),
        (["sql", "good.json", "SELEC 1"], "syntax error"),
        (["sql", "good.json", "SELECT 1; SELECT 2"], "one SELECT"),
        (["sql", "good.json", "FROM read_text('good.json')"], "disabled"),
        (["sql", "good.json", "text.duckdb"], "text.duckdb is a file; pass its text"),
        (["nonsense"], "No such command 'nonsense'. See `tracekit --help`"),
        (["analyze"], "Missing argument 'TRACE...'. See `tracekit analyze --help`"),
        (["baseline", "list"], "See `tracekit baseline --help`"),
        (["completion"], "Choose from: bash, zsh, fish. See"),
        (["analyze", "good.json", "--trace-id", "9"], "no trace 9"),
        (["analyze", "good.json", "--window", "step 9"], "no window"),
        (["query", "good.json", "nonsense"], "there is no query named"),
        (["query", "top_kernels"], "query top_kernels needs one trace"),
        (["query", "good.json"], "add a question"),
        (["query", "good.json", "overview", "--param", "trace=9"], "has no trace 9"),
        (["query", "good.json", "SELECT 1"], "`tracekit sql TRACE` runs SQL"),
        (["query", "good.json", "top_kernels", "top=5"], "pass parameters with --param"),
        (["diff", "good.json"], "holds only one trace: give a second one"),
        (["diff", "good.json", "good.json", "--fail-if", "5%"], "1.05 * a.span_ns"),
        (["advise", "good.json", "cuda-graph"], "`tracekit advise --how cuda-graph`"),
        (["advise", "--how", "cuda-graphs"], "did you mean 'cuda-graph'?"),
        (["whatif", "good.json", "torch-compile"], "remedy:NAME"),
        (["whatif", "good.json", "host*0.5", "good.json"], "good.json"),
        (["history", "good.json", "good.json"], "argument (good.json). See"),
        (["query", "good.json", "top_kernels", "--param", "top"], "NAME=VALUE"),
        (["query", "good.json", "top_kernels", "--param", "top=x"], "integer"),
        (["query", "good.json", "top_kernels", "--param", "no=1"], "no parameter"),
        (["sql", "good.json", ""], "give one SELECT"),
        (["diff", "good.json", "good.json", "--top", "-1"], "-1 is not in the range x>=1"),
        (["lake", "add", "good.json", "--to", "lake", "--label", "=x"], "takes NAME=VALUE"),
        (
            ["lake", "add", "good.json", "--to", "lake", "--label", "a=1", "--label", "a=2"],
            "--label sets a twice: '1' and '2'",
        ),
        (
            ["query", "good.json", "overview", "--param", "trace=1", "--param", "trace=1"],
            "--param sets trace twice",
        ),
        (
            ["analyze", "good.json", "--threshold", "few_ops=1", "--threshold", "few_ops=2"],
            "--threshold sets few_ops twice",
        ),
        (["query", "good.json", "top_kernels", "--param", "top=-1"], "top is from 0 to"),
        (["query", "good.json", "busy_over_time", "--param", "bins=0"], "bins is from 1 to"),
        (["query", "good.json", "top_kernels", "--param", "top=nan"], "is an integer, not 'nan'"),
        (["query", "good.json", "top_kernels", "--param", "top=9" + "9" * 40], "not 999"),
        (["query", "good.json", "top_kernels", "--param", "top="], "is an integer, not ''"),
        *((["lake", "clean", "lake", "--older-than", age], f"at least 0, not {age}")
          for age in ("nan", "-1")),
        (["capture", "mlp-eager", "--seconds", "nan"], "must be a number of seconds above 0"),
        (["capture", "nonsense"], "`tracekit workloads` lists them"),
        (["capture", "mlp-egaer"], "did you mean 'mlp-eager'"),
        (["capture", "train.py"], "train.py: no such file"),
        (["analyze", "ftp://no.invalid/t.json"], "ftp://no.invalid/t.json: cannot be reached"),
        (["analyze", "good.json", "--threshold", "smal_gain=1"], "did you mean 'small_gain'"),
        (["advise", "good.json", "good.json"], "(--trace-id): 1, 2"),
        (["capture", "no.such.module:f"], "cannot import"),
        (["capture", "json:no_such_function"], "no function"),
        (["capture", "matmul-add", "--dim", "0"], "at least 1"),
        (["capture", "matmul-add", "--active", "0"], "at least one active"),
        (["load", "good.json", "-o", "."], "is a directory"),
        *((["load", "good.json", "-o", output], "load writes a DuckDB database")
          for output in ("trace.json", "rows.parquet", "text")),
        (["load", "good.json", "-o", "no/run.duckdb"], "no/run.duckdb: cannot be written"),
        (["export", "good.json", "-o", "rows.csv"], "`query` and `sql` .csv"),
        (["export", "good.json", "-o", "no/run.json"], "no/run.json: cannot be written"),
        (["annotate", "-", "-o", "out.json"], "give a file"),
        *((["analyze", "good.json", *given.split()], reason) for given, reason in (
            ("--memory-mb 10", "at least 400 MB"), ("--threads 0", "thread"),
            ("--threads 1025", "thread"), (f"--threads {'9' * 40}", "thread"),
            ("--temp-dir nowhere", "nowhere: is not a directory"),
            (f"--memory-mb {'9' * 20}", "at most 1,000,000,000 MB"),
            (f"--spill-mb {'9' * 20}", "at most 1,000,000,000 MB"),
            ("--threshold small_gain=nan", "threshold small_gain is a number, not 'nan'"),
        )),
        (["analyze", "empty"], "this directory has no traces"),
        (["baseline", "compare", "main", "good.json"], "`tracekit baseline save main`"),
        (["baseline", "compare", "../main", "good.json"], "'../main' names no baseline"),
        (["baseline", "save", "main", "none.json"], "none.json: cannot be read"),
        *((["sweep", *given.split(), "--device", "cpu"], reason) for given, reason in (
            ("nothing", "there is no workload named 'nothing'"),
            ("mlp --variants eager,none", "mlp has no variant 'none'"),
            ("mlp --baseline compiled --variants eager", "not one of the variants"),
            ("matmul-add --batch 1,2", "matmul-add has no size 'batch'"),
            ("mlp --batch 1,x", "not a list of integers"),
            ("mlp --batch 1,,2", "not a list of integers"),
            ("mlp --batch 0", "at least 1"),
            ("mlp --dtype fp8", "there is no dtype 'fp8'"),
            ("mlp --rounds 0", "at least one round"),
            ("mlp --active 0", "at least one active step"),
            ("mlp -o nowhere/s.duckdb", "nowhere/s.duckdb: cannot be written"),
            ("mlp -o text.duckdb", "text.duckdb: is not a tracekit database"),
        )),
        *((["probe", *given.split(), "--device", "cpu"], reason) for given, reason in (
            ("nothing", "there is no workload named 'nothing'"),
            ("mlp-cudagraph", "mlp-cudagraph: cannot run: CUDA graphs need a CUDA device"),
            ("mine:step", "mine:step: cannot import mine"),
            ("linear --batch 0", "at least 1"),
            ("linear --rounds 0", "at least one round"),
            ("linear --threshold nothing=1", "there is no threshold 'nothing'"),
            ("own.failing:step", "own.failing:step: failed while it ran: RuntimeError: no"),
            ("own.failing:step --advice", "failing:step: failed while it ran: RuntimeError: no"),
            ("linear --advice --rounds 0", "at least one round"),
        )),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_use_is_refused_in_one_line(arguments, reason, refused, trace):
    (trace.parent / "empty").mkdir()
    for name in ("text", "text.duckdb"):
        (trace.parent / name).write_text("text")
    # Python keeps its own files beside a module.
    (trace.parent / "own").mkdir()
    failing = "def step():\n    raise RuntimeError('no\\nway')\n"
    (trace.parent / "own" / "failing.py").write_text(failing)
    before = sorted(trace.parent.iterdir())
    assert reason in refused(*arguments)
    assert sorted(trace.parent.iterdir()) == before


def test_a_folder_is_read_without_the_files_that_are_no_traces(run, trace):
    (trace.parent / "config.json").write_text('{"model": "bert"}')
    commands = ("analyze .", "query . overview --format json", "report . -o page.html")
    for command in sample("commands that read a folder", commands, commands[:2]):
        done = run(*command.split())
        assert done.returncode == 0
        assert ".: not loaded: config.json: is not a trace" in done.stderr
    trace.unlink()
    assert "config.json: is not a trace" in run("analyze", ".").stderr


def test_other_databases_than_tracekits_are_refused(refused, tmp_path):
    (tmp_path / "fake.duckdb").write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 5000)
    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    assert "fake.duckdb" in refused("analyze", "fake.duckdb")
    assert "tracekit database" in refused("analyze", "other.duckdb")
