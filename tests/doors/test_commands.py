"""Each command as a user runs it."""

import gzip
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import duckdb
import pytest

import tracekit
from tests.kit import traces
from tracekit.commands import cli, main
from tracekit.errors import TracekitError, is_interrupt
from tracekit.files import written_whole
from tracekit.workloads import WORKLOADS

EVENTS = [
    traces.slice_event("user_annotation", "ProfilerStep#3", 0, 100),
    traces.slice_event("cpu_op", "aten::mm", 5, 20),
    traces.launch(10, 5, 1),
    traces.gpu_op(20, 40, 1, name="sgemm <script>\x1b[31m"),
    traces.launch(70, 5, 2, name="cudaMemcpyAsync"),
    traces.gpu_op(80, 10, 2, category="gpu_memcpy", name="Memcpy HtoD (Pinned -> Device)"),
]


@pytest.fixture
def trace(tmp_path):
    return traces.write(
        tmp_path / "t.json", EVENTS, deviceProperties=[{"id": 0, "name": "NVIDIA A100"}]
    )


def test_analyze_prints_the_verdict_top_down_within_100_columns(run, trace):
    done = run("analyze", "t.json", "--full")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    order = ["overhead-bound", "Why", "Where the time went", "Top kernels", "What to try next"]
    places = [done.stdout.index(each) for each in order]
    assert places == sorted(places)
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "\x1b" not in done.stdout


def test_analyze_fits_one_screen_and_begins_with_a_sentence(run, trace):
    done = run("analyze", "t.json", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("The host holds this run up")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "--full" in lines[-1]


def test_analyze_json_is_the_object_that_the_design_fixes(run, trace):
    found = json.loads(run("analyze", "t.json", "--json").stdout)
    assert found["schema"] == "tracekit/analysis/1"
    assert found["trace"]["devices"] == ["NVIDIA A100"]
    assert found["window"] == {
        "kind": "gpu_active", "name": "GPU-active span",
        "start_ns": 20_000, "end_ns": 90_000, "span_ns": 70_000,
    }  # fmt: skip
    assert found["gpu"] == {
        "device_id": 0, "kernels": 1, "gpu_ops": 2, "linked": 2, "busy_ns": 50_000,
        "compute_ns": 40_000, "exposed_comm_ns": 0, "exposed_memcpy_ns": 10_000, "idle_ns": 20_000,
    }  # fmt: skip
    assert found["idle"]["causes"] == {"untraced": 10_000, "launch": 5_000, "launch_latency": 5_000}
    assert found["launch"]["count"] == 2
    # No call waits for the device: a faster host launches the copy sooner.
    assert found["verdict"]["regime"] == "overhead-bound"
    assert found["causal"]["gains"]["host"] > found["causal"]["gains"]["device"]
    assert sum(found["causal"]["path"].values()) == pytest.approx(1)
    assert {"bottleneck", "confidence", "shares", "why", "savings"} <= set(found["verdict"])
    assert [step["window"]["name"] for step in found["steps"]] == ["ProfilerStep#3"]


def test_analyze_reads_a_pipe(run, trace):
    done = run("analyze", "-", "--json", stdin=gzip.compress(trace.read_bytes()))
    assert json.loads(done.stdout)["trace"]["events"] == len(EVENTS)


def test_a_command_that_is_forked_does_what_one_that_is_started_does(run, trace):
    for arguments in (["analyze", "t.json"], ["query", "top_kernels", "t.json"], ["no-command"]):
        forked = run(*arguments)
        # What Python reads when it starts cannot be changed in a fork.
        started = run(*arguments, PYTHONHASHSEED="0")
        assert vars(forked) == vars(started)


def test_analyze_judges_the_window_asked_for(run, trace):
    found = json.loads(run("analyze", "t.json", "--json", "--window", "ProfilerStep#3").stdout)
    assert (found["window"]["kind"], found["window"]["span_ns"]) == ("step", 100_000)
    assert found["gpu"]["idle_ns"] == 50_000
    assert found["idle"]["after_last_op_ns"] == 10_000


def test_explain_prints_the_sql_behind_the_numbers(run, trace):
    done = run("analyze", "t.json", "--explain")
    assert "-- tracekit query partition" in done.stdout
    assert "FROM window_timeline" in done.stdout
    for heading in ("Replays of ProfilerStep#3", "Critical path", "longest links", "Thresholds"):
        assert heading in done.stdout
    # The path's shares, in percent, add up.
    path = done.stdout.split("Critical path")[1].split("Its longest links")[0].splitlines()[1:]
    shares = [float(line.split()[-2].strip("<")) for line in path if line.strip()]
    assert sum(shares) == pytest.approx(100, abs=0.5)


@pytest.mark.thorough
def test_several_traces_stand_side_by_side(run, trace):
    assert run("load", "t.json", "t.json", "-o", "two.duckdb").returncode == 0
    done = run("analyze", "two.duckdb")
    assert done.stdout.count("overhead-bound") == 2
    several = json.loads(run("analyze", "two.duckdb", "--json").stdout)
    assert [each["trace"]["trace_id"] for each in several["analyses"]] == [1, 2]
    one = json.loads(run("analyze", "two.duckdb", "--json", "--trace-id", "2").stdout)
    assert one["trace"]["trace_id"] == 2


def test_a_loaded_database_opens_in_any_duckdb_client(run, trace, tmp_path):
    assert run("load", "t.json", "-o", "run.duckdb").returncode == 0
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as client:
        views = {row[0] for row in client.execute("SHOW TABLES").fetchall()}
        assert {
            "trace", "device", "event", "kernels", "memcpys", "memsets", "gpu_ops", "launches",
            "syncs", "cpu_ops", "python_frames", "annotations", "steps", "flows", "counters",
            "memory_events", "gpu_op_origin",
        } <= views  # fmt: skip
        for view in views:
            client.execute(f"SELECT * FROM {view}").fetchall()
        query = (Path(__file__).parents[2] / "queries" / "time" / "top_kernels.sql").read_text()
        assert len(client.execute(query).fetchall()) == 1
        client.execute("SET VARIABLE trace = 7")
        assert client.execute(query).fetchall() == []


def test_load_replaces_a_database_or_appends_to_it(run, trace):
    for more, traces_held in (([], 1), ([], 1), (["--append"], 2)):
        assert run("load", "t.json", "-o", "run.duckdb", *more).returncode == 0
        done = run("sql", "run.duckdb", "SELECT count(*) AS n FROM trace", "--format", "csv")
        assert done.stdout.split() == ["n", str(traces_held)]


def test_a_failed_load_leaves_the_old_database_alone(run, trace, tmp_path):
    assert run("load", "t.json", "-o", "run.duckdb").returncode == 0
    before = (tmp_path / "run.duckdb").read_bytes()
    (tmp_path / "bad.json").write_text("nonsense")
    assert run("load", "bad.json", "-o", "run.duckdb", "--append").returncode == 2
    assert (tmp_path / "run.duckdb").read_bytes() == before


def test_export_writes_the_trace_again(run, trace, tmp_path):
    assert run("load", "t.json", "-o", "run.duckdb").returncode == 0
    assert run("export", "run.duckdb", "-o", "again.json.gz").returncode == 0
    with gzip.open(tmp_path / "again.json.gz") as again:
        assert json.load(again) == json.loads(trace.read_text())


def test_workloads_are_listed(run):
    lines = run("workloads").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(WORKLOADS)
    # A name and its summary.
    assert all(len(line.split()) > 3 for line in lines)


def test_the_command_line_starts_without_anything_heavy():
    code = (
        "import sys; from tracekit.commands import cli\n"
        "for name in cli.list_commands(None): cli.get_command(None, name)\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "tracekit.commands.lake" in loaded.split()
    heavy = {"duckdb", "polars", "torch", "triton", "fsspec", "numpy", "mcp", "pydantic"}
    assert not heavy & set(loaded.split())


def test_the_example_of_each_command_is_a_valid_call():
    root = click.Context(cli)
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        (example,) = re.findall(rf"Example:\n  (tracekit {name}.*)", command.epilog)
        context, words = root, shlex.split(example)[1:]
        while True:
            context = command.make_context(words[0], words[1:], parent=context)
            if not isinstance(command, click.Group):
                break
            _, command, rest = command.resolve_command(context, words[1:])
            words = [words[1], *rest]


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
    done = run("analyze", "a[red].json", "--full")
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("a[red].json", "foo[/bar][red]", "ProfilerStep#1[/x]", "[/y]", "unnamed"):
        assert text in done.stdout
    assert run("load", "a[red].json", "a[red].json", "-o", "two.duckdb").returncode == 0
    assert "a[red]" in run("analyze", "two.duckdb").stdout


def test_the_name_of_an_output_cannot_control_the_terminal(run, trace, tmp_path):
    name = "a\x1b[2Jb.json"
    for command in (["export"], ["export", "--format", "collapsed"], ["annotate"]):
        done = run(*command, "t.json", "-o", name)
        assert (done.returncode, (tmp_path / name).is_file()) == (0, True)
        assert "a\N{REPLACEMENT CHARACTER}[2Jb.json: " in done.stdout
        (tmp_path / name).unlink()


def test_results_are_written_to_files_only(run, trace, tmp_path):
    done = run("export", "t.json", "-o", "/dev/null")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    real = tmp_path / "real.json"
    real.write_text("old")
    (tmp_path / "link.json").symlink_to(real)
    assert run("export", "t.json", "-o", "link.json").returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads(real.read_text())["traceEvents"] == EVENTS


def test_a_terminal_without_unicode_gets_question_marks(run, trace):
    done = run("analyze", "t.json", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "overhead-bound" in done.stdout


@pytest.mark.parametrize("command", ["analyze - <&-", "analyze t.json > /dev/full"])
def test_streams_that_fail_are_reported_in_one_line(command, trace, tmp_path):
    program = Path(sys.executable).parent / "tracekit"
    done = subprocess.run(
        ["sh", "-c", f"{program} {command}"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    done = subprocess.run(
        ["sh", "-c", f"{program} sql t.json 'FROM range(5000)' | head -n 1"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    more = "--max-rows shows more, --format csv shows all"
    assert done.stderr == f"only the first 1,000 rows: {more}\n"


def test_load_keeps_to_the_memory_and_threads_it_is_given(run, trace):
    asked = ["--memory-mb", "400", "--threads", "1"]
    assert run("load", "t.json", "-o", "small.duckdb", *asked).returncode == 0
    assert run("load", "t.json", "-o", "large.duckdb").returncode == 0
    query = ("SELECT * EXCLUDE trace_id FROM event ORDER BY event_id", "--format", "csv")
    assert run("sql", "small.duckdb", *query).stdout == run("sql", "large.duckdb", *query).stdout
    for wrong, reason in (
        (["--memory-mb", "10"], "at least 400 MB"),
        (["--threads", "0"], "thread"),
        (["--temp-dir", "nowhere"], "nowhere: is not a directory"),
    ):
        for command in (["load", "t.json", "-o", "none.duckdb"], ["analyze", "t.json"]):
            done = run(*command, *wrong)
            assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
            assert reason in done.stderr


@pytest.mark.parametrize(
    "ended",
    [
        KeyboardInterrupt(),
        RuntimeError("Query interrupted"),
        duckdb.Error("busy: closed while a thread still used it"),
        TracekitError("s.duckdb: cannot be loaded: busy"),
    ],
)
def test_ctrl_c_is_no_error_whatever_it_interrupts(ended, monkeypatch, capsys, tmp_path):
    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ended

    monkeypatch.setattr("tracekit.opening.load", interrupted)
    monkeypatch.setattr(sys, "argv", ["tracekit", "load", "t.json", "-o", "s.duckdb", "--resume"])
    monkeypatch.chdir(tmp_path)
    kept = "tracekit: s.duckdb.partial keeps what is loaded: run the same command to resume"
    for partial, expected in ((False, ""), (True, kept)):
        if partial:
            (tmp_path / "s.duckdb.partial").touch()
        with pytest.raises(SystemExit) as exit:
            main()
        assert exit.value.code == 130
        said = capsys.readouterr()
        assert (said.out, said.err.strip()) == ("", expected)


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
module, sys.argv[1:] = sys.argv[1], ["analyze", "t.json"]
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
{at_exit}
runpy.run_module("tracekit", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("module", ["click", "tracekit.commands.analyze", "duckdb", "at exit"])
def test_ctrl_c_while_modules_are_imported_or_python_ends_prints_nothing(module, trace, tmp_path):
    at_exit = "import atexit; atexit.register(os.kill, os.getpid(), signal.SIGINT)"
    program = INTERRUPTED_IMPORT.format(at_exit=at_exit if module == "at exit" else "")
    done = subprocess.run(
        [sys.executable, "-c", program, module],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stderr.strip() == ""
    assert done.returncode == (0 if module == "at exit" else 130)
    assert module == "at exit" or done.stdout == ""


def test_ctrl_c_after_a_load_was_published_says_that_it_was(trace, monkeypatch, capsys, tmp_path):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tracekit.opening.open_database", interrupted)
    monkeypatch.setattr(sys, "argv", ["tracekit", "load", "t.json", "-o", "s.duckdb", "--resume"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 130
    assert capsys.readouterr().err.strip() == "tracekit: s.duckdb is complete"
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


def test_an_error_that_is_its_own_cause_is_no_interrupt():
    error = ValueError("x")
    error.__cause__ = error
    assert not is_interrupt(error)


def test_more_threads_than_cores_load_too_and_more_than_any_machine_has_are_refused(run, trace):
    for count, status in (("160", 0), ("1025", 2), ("9" * 40, 2)):
        done = run("load", "t.json", "-o", f"{count[:4]}.duckdb", "--threads", count)
        assert (done.returncode, len(done.stderr.splitlines())) == (status, status // 2)


def test_thousands_of_devices_are_listed(run, tmp_path):
    properties = traces.device("NVIDIA A100-SXM4-80GB")["deviceProperties"][0]
    devices = [properties | {"id": number} for number in range(20_000)]
    traces.write(tmp_path / "t.json", EVENTS, deviceProperties=devices)
    with tracekit.load(tmp_path / "t.json") as database:
        rows = database.fetch("SELECT count(*), max(device_id) FROM device")[1]
    assert rows == [(20_000, 19_999)]
