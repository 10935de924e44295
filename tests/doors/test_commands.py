"""Each command as a user runs it."""

import gzip
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import click
import duckdb
import pytest

import tracekit
from tests.kit import traces
from tests.kit.processes import invoke, ran
from tracekit.commands import cli, foreign_packages, main
from tracekit.commands.analyze import _beside
from tracekit.errors import TracekitError, is_interrupt
from tracekit.files import written_whole

EVENTS = [
    traces.slice_event("user_annotation", "ProfilerStep#3", 0, 100),
    traces.slice_event("cpu_op", "aten::mm", 5, 20),
    traces.launch(10, 5, 1),
    traces.gpu_op(20, 40, 1, name="sgemm <script>\x1b[31m"),
    traces.launch(70, 5, 2, name="cudaMemcpyAsync"),
    traces.gpu_op(80, 10, 2, category="gpu_memcpy", name="Memcpy HtoD (Pinned -> Device)"),
]
DEVICES = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}


@pytest.fixture
def trace(tmp_path):
    return traces.write(tmp_path / "t.json", EVENTS, **DEVICES)


@pytest.mark.parametrize(
    ("command", "threads"), [("analyze", "1"), ("t.json", "1"), ("capture", None)]
)
def test_numpy_has_one_thread_unless_users_programs_run(command, threads, trace, monkeypatch):
    monkeypatch.chdir(trace.parent)
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    monkeypatch.setattr(os, "environ", environment)
    cli.resolve_command(click.Context(cli), [command])
    assert environment.get("OPENBLAS_NUM_THREADS") == threads


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The path of a database of the trace, with its verdict."""
    folder = tmp_path_factory.mktemp("loaded")
    path = traces.write(folder / "t.json", EVENTS, **DEVICES)
    tracekit.load(path, folder / "t.duckdb").close()
    return str(folder / "t.duckdb")


def test_analyze_prints_the_verdict_top_down_within_100_columns(run, database):
    done = run("analyze", database, "--full")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    order = ["overhead-bound", "Why", "Where the time went", "Top kernels", "What to try next"]
    places = [done.stdout.index(each) for each in order]
    assert places == sorted(places)
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "\x1b" not in done.stdout


def test_a_forked_command_does_the_same_as_a_new_process(run, database):
    for arguments in (["query", database, "top_kernels"], ["no-command"]):
        forked = run(*arguments)
        # Python reads this variable when it starts, so it cannot be changed in a fork.
        started = run(*arguments, PYTHONHASHSEED="0")
        assert vars(forked) == vars(started)


def test_analyze_judges_the_window_asked_for(run, database):
    found = json.loads(run("analyze", database, "--json", "--window", "ProfilerStep#3").stdout)
    assert (found["window"]["kind"], found["window"]["span_ns"]) == ("step", 100_000)
    assert found["gpu"]["idle_ns"] == 50_000
    assert found["idle"]["after_last_op_ns"] == 10_000
    assert found["trace"]["devices"] == ["NVIDIA A100"]


def test_the_demo_says_where_it_was_captured_and_writes_its_page(tmp_path, monkeypatch):
    pytest.importorskip("altair", reason="the extra `report` is not installed")
    monkeypatch.chdir(tmp_path)
    done = invoke("demo", "--no-open")
    assert (done.exit_code, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert "captured on an NVIDIA H100" in first
    assert "overhead-bound by dispatch; confidence medium" in lines
    assert "CUDA graph" in done.stdout and lines[-1].startswith("tracekit-demo.html: ")
    assert "<html" in (tmp_path / "tracekit-demo.html").read_text()[:200]


def test_a_report_goes_beside_its_trace_and_says_where(tmp_path, monkeypatch, run):
    pytest.importorskip("altair", reason="the extra `report` is not installed")
    (tmp_path / "folder").mkdir()
    traces.write(tmp_path / "folder/b.json", EVENTS)
    monkeypatch.chdir(tmp_path)
    done = invoke("report", "folder/b.json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("folder/b.html: ") and (tmp_path / "folder/b.html").is_file()
    assert run("report", "missing.json").returncode == 2
    assert not (tmp_path / "missing.html").exists()
    for given, written in (("folder/", "folder.html"), (".", "report.html"), ("-", "report.html")):
        assert _beside(given) == written


def test_sql_takes_the_trace_and_the_statement_in_either_order(run, database):
    statement = "SELECT count(*) AS n FROM trace -- " + "x" * 5000
    assert run("sql", statement, database).stdout == run("sql", database, statement).stdout != ""


@pytest.mark.parametrize("group", [(), ("lake",), ("baseline",), ("skill",)])
def test_no_description_of_a_command_is_cut(run, group):
    _, *lines = run(*group, "--help").stdout.splitlines()
    assert not [line for line in lines if line.endswith("...")]


def test_explain_prints_the_sql_behind_the_numbers(run, database):
    done = run("analyze", database, "--explain", "--full")
    assert "-- tracekit query partition" in done.stdout
    assert "FROM window_timeline" in done.stdout
    for heading in ("Replays of ProfilerStep#3", "Critical path", "longest links", "Thresholds"):
        assert heading in done.stdout
    # The path's shares, in percent, add up.
    path = done.stdout.split("Critical path")[1].split("Its longest links")[0].splitlines()[1:]
    shares = [float(line.split()[-2].strip("<")) for line in path if line.strip()]
    assert sum(shares) == pytest.approx(100, abs=0.5)


def test_a_loaded_database_opens_in_any_duckdb_client(database):
    with duckdb.connect(database, read_only=True) as client:
        views = {row[0] for row in client.execute("SHOW TABLES").fetchall()}
        for view in views:
            client.execute(f"SELECT * FROM {view}").fetchall()
        query = (Path(__file__).parents[2] / "queries" / "time" / "top_kernels.sql").read_text()
        assert len(client.execute(query).fetchall()) == 1
        client.execute("SET VARIABLE trace = 7")
        assert client.execute(query).fetchall() == []


def test_load_replaces_a_database_or_appends_to_it_and_leaves_it_alone_when_it_fails(
    run, trace, database, tmp_path
):
    file = tmp_path / "run.duckdb"
    few = ("--memory-mb", "400", "--threads", "1")
    for more, traces_held in (((), 1), (few, 1), (("--append", "--threads", "160"), 2)):
        done = run("load", "t.json", "-o", file.name, "--no-verdict", *more)
        assert done.returncode == 0
        assert ("t.json is in run.duckdb 2 times" in done.stderr) == (traces_held == 2)
        with duckdb.connect(str(file), read_only=True) as client:
            assert client.execute("SELECT count(*) FROM trace").fetchall() == [(traces_held,)]
            events = client.execute("FROM event WHERE trace_id = 1 ORDER BY event_id").fetchall()
    with duckdb.connect(database, read_only=True) as client:
        assert client.execute("FROM event ORDER BY event_id").fetchall() == events
    before = file.read_bytes()
    (tmp_path / "bad.json").write_text("nonsense")
    assert run("load", "bad.json", "-o", file.name, "--append").returncode == 2
    assert file.read_bytes() == before


def test_the_command_line_starts_without_anything_heavy():
    code = (
        "import sys; from tracekit.commands import cli\n"
        "for name in cli.list_commands(None): cli.get_command(None, name)\n"
        "print(*sys.modules)"
    )
    loaded = ran("python", "-c", code).stdout
    assert "tracekit.commands.lake" in loaded.split()
    heavy = "duckdb polars pandas numpy torch triton hta altair plotly ray fsspec mcp pydantic"
    assert not set(heavy.split()) & set(loaded.split())


def test_the_example_of_each_command_is_a_valid_call():
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        (example,) = re.findall(rf"Example:\n  (tracekit {name}.*)", command.epilog)
        parsed(shlex.split(example))


def parsed(words: list[str]) -> click.Context:
    """The context of a command line. Raises a UsageError if it is not a valid call."""
    context, command = None, cli
    while isinstance(command, click.Group):
        context = context or click.Context(cli)
        name, command, rest = command.resolve_command(context, words[1:])
        words = [name, *rest]
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=name)
    return command.make_context(words[0], words[1:], parent=context)


@pytest.mark.thorough
def test_names_that_look_like_markup_are_shown_as_they_are(run, tmp_path):
    events = [
        traces.slice_event("user_annotation", "ProfilerStep#1[/x]", 0, 50),
        traces.launch(1, 1, 1),
        traces.gpu_op(5, 5, 1, name="foo[/bar][red]"),
        traces.gpu_op(11, 5, category="gpu_memcpy", name="copy")
        | {"args": {"device": 0, "bytes": 5, "kind": "[/y]"}},
    ]
    devices = [{"id": 0}, {"id": 1, "name": None}, {"id": 2, "name": 5}]
    odd = {"deviceProperties": devices, "tracekit": "x", "text": "\ud800"}
    traces.write(tmp_path / "a[red].json", events, **odd)
    assert run("load", "a[red].json", "a[red].json", "-o", "two.duckdb").returncode == 0
    several = run("analyze", "two.duckdb").stdout
    assert several.count("a[red]") == several.count("none   ") == 2
    done = run("analyze", "two.duckdb", "--trace-id", "1", "--full")
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("a[red].json", "foo[/bar][red]", "ProfilerStep#1[/x]", "[/y]", "unnamed"):
        assert text in done.stdout


def test_the_name_of_an_output_cannot_control_the_terminal(run, database, tmp_path):
    name = "a\x1b[2Jb.json"
    for command in (["export"], ["export", "--format", "collapsed"], ["annotate"]):
        done = run(*command, database, "-o", name)
        assert (done.returncode, (tmp_path / name).is_file()) == (0, True)
        assert "a\N{REPLACEMENT CHARACTER}[2Jb.json: " in done.stdout
        (tmp_path / name).unlink()


def test_a_trace_is_written_again_to_a_file_only(run, database, tmp_path):
    done = run("export", database, "-o", "/dev/null")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    real = tmp_path / "real.json.gz"
    real.write_text("old")
    (tmp_path / "link.json.gz").symlink_to(real)
    assert run("export", database, "-o", "link.json.gz").returncode == 0
    assert (tmp_path / "link.json.gz").is_symlink()
    trace = json.loads(Path(database).with_name("t.json").read_text())
    assert json.loads(gzip.decompress(real.read_bytes())) == trace


def test_a_terminal_without_unicode_gets_question_marks(run, database):
    done = run("analyze", database, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "overhead-bound" in done.stdout


def test_streams_that_fail_are_reported_in_one_line(database):
    program = Path(sys.executable).parent / "tracekit"

    def failed(command):
        done = ran("sh", "-c", f"{program} {command}")
        return done.returncode, done.stderr.splitlines()

    for command in ("analyze - <&-", f"analyze {database} > /dev/full"):
        status, lines = failed(command)
        assert (status, len(lines)) == (2, 1)
    more = "--max-rows shows more, --format csv shows all"
    assert failed(f"sql {database} 'FROM range(5000)' | head -n 1") == (
        0, [f"only the first 1,000 rows: {more}"]
    )  # fmt: skip


@pytest.fixture
def interrupted(trace, monkeypatch, capsys, tmp_path):
    """Loads a trace; Ctrl-C ends it in a function. Returns what standard error gets."""

    def load(function, ended):
        def interrupt(*_: object, **__: object) -> None:
            try:
                raise KeyboardInterrupt
            finally:
                raise ended

        monkeypatch.setattr(f"tracekit.opening.{function}", interrupt)
        monkeypatch.chdir(tmp_path)
        given = "tracekit load t.json -o s.duckdb --no-verdict --resume"
        monkeypatch.setattr(sys, "argv", given.split())
        with pytest.raises(SystemExit) as exit:
            main()
        said = capsys.readouterr()
        assert (exit.value.code, said.out) == (130, "")
        return said.err.strip()

    return load


@pytest.mark.parametrize(
    "ended",
    [
        KeyboardInterrupt(),
        RuntimeError("Query interrupted"),
        duckdb.Error("busy: closed while a thread still used it"),
        TracekitError("s.duckdb: cannot be loaded: busy"),
    ],
)
def test_ctrl_c_is_never_reported_as_an_error(ended, interrupted, tmp_path):
    assert interrupted("load", ended) == ""
    (tmp_path / "s.duckdb.partial").touch()
    kept = (
        "tracekit: s.duckdb.partial keeps the traces loaded so far: run the same command to resume"
    )
    assert interrupted("load", ended) == kept


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
module, sys.argv[1:] = sys.argv[1], ["analyze", sys.argv[2]]
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
{at_exit}
runpy.run_module("tracekit", run_name="__main__", alter_sys=True)
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("module", ["duckdb", "click", "at exit", "tracekit.commands.analyze"])
def test_ctrl_c_while_modules_are_imported_or_python_ends_prints_nothing(module, database):
    at_exit = "import atexit; atexit.register(os.kill, os.getpid(), signal.SIGINT)"
    program = INTERRUPTED_IMPORT.format(at_exit=at_exit if module == "at exit" else "")
    done = ran("python", "-c", program, module, database)
    assert done.stderr.strip() == ""
    assert done.returncode == (0 if module == "at exit" else 130)
    assert module == "at exit" or done.stdout == ""


def test_ctrl_c_after_a_load_was_published_says_that_it_was(interrupted, tmp_path):
    said = interrupted("open_database", KeyboardInterrupt())
    assert said == "tracekit: s.duckdb is complete"
    with duckdb.connect(str(tmp_path / "s.duckdb")) as connection:
        assert connection.execute("SELECT events FROM trace").fetchall() == [(len(EVENTS),)]


def test_an_interrupt_while_it_is_cleaned_up_leaves_nothing_behind(tmp_path, monkeypatch):
    remove, removed = shutil.rmtree, []

    def interrupted(*folder: object, **options: object) -> None:
        removed.append(folder)
        if len(removed) == 1:
            raise KeyboardInterrupt
        remove(*folder, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), written_whole(tmp_path / "out") as beside:
        beside.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "whole"


def test_an_error_that_is_its_own_cause_is_not_an_interrupt():
    error = ValueError("x")
    error.__cause__ = error
    assert not is_interrupt(error)


def test_a_stranger_in_the_same_folder_is_named_and_a_plugin_is_not(tmp_path):
    """Other projects on the index install a package `tracekit`, too."""
    for name, record in {
        "tracekit-0.3.1": "tracekit/__init__.py,sha256=x,12\n",
        "tracekit_ai-1.0": "tracekit_ai-1.0.dist-info/WHEEL,,\ntracekit/__init__.py,sha256=x,1\n",
        "tracekit_acme-2.0": "tracekit_acme/__init__.py,sha256=x,12\n",
        "torch_tracekit-0.1.0": "tracekit/__init__.py,sha256=x,12\n",
        "tracekit_broken-1.0": None,
    }.items():
        folder = tmp_path / f"{name}.dist-info"
        folder.mkdir()
        if record:
            (folder / "RECORD").write_text(record)
    assert foreign_packages(tmp_path) == ["tracekit 0.3.1", "tracekit-ai 1.0"]
