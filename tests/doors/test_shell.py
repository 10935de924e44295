"""tracekit in a shell: completion, pager, colors, widths, progress, and `tracekit TRACE`."""

import os
import re
import shutil
import sys
from pathlib import Path

import duckdb
import pytest
from click.shell_completion import ShellComplete

from tests.conftest import OWN_TRACES
from tests.kit import hostile, traces
from tests.kit.lakes import write_rank
from tests.kit.processes import on_terminal, ran
from tests.kit.sampling import sample
from tracekit import stages
from tracekit.commands import cli
from tracekit.database import catalog
from tracekit.opening import load

TRACEKIT = Path(sys.executable).parent / "tracekit"
PATH = f"{TRACEKIT.parent}{os.pathsep}{os.environ['PATH']}"
BASH = """
eval "$(tracekit completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_tracekit_completion tracekit
printf '%s\\n' "${COMPREPLY[@]}"
"""
OFFERED = [
    (["comple"], {"completion"}),
    (["query", "top_k"], {"top_kernels"}),
    (["query", "top_kernels", "--param", ""], {"trace=", "top="}),
    (["advise", "--how", "sync-b"], {"sync-by-line"}),
    (["whatif", "t.json", "hos"], {"host*"}),
    (["capture", "mlp-ea"], {"mlp-eager"}),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The path of a database of one trace."""
    return str(hostile.good(tmp_path_factory.mktemp("loaded")))


def needs(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


def said(*command, **more):
    return ran(*command, **{"PATH": PATH} | more).stdout


@pytest.mark.parametrize(("typed", "offered"), OFFERED)
def test_completions_come_with_descriptions(typed, offered):
    *before, last = typed
    completer = ShellComplete(cli, {}, "tracekit", "_TRACEKIT_COMPLETE")
    found = {each.value: each.help for each in completer.get_completions(before, last)}
    assert found.keys() >= offered and len(found) <= 4
    assert "top_kernels" not in offered or found["top_kernels"].endswith("?")


@pytest.mark.parametrize(("typed", "offered"), [
    (["whatif", "t.json", "remedy", ":", "sync-b"], {"sync-by-line"}),
    *(pytest.param(*each, marks=pytest.mark.thorough) for each in OFFERED),
])  # fmt: skip
def test_bash_completes(typed, offered):
    needs("bash")
    found = said("bash", "--norc", "-c", BASH, "bash", "tracekit", *typed)
    assert set(found.split()) >= offered
    assert len(found.split()) <= 4


def test_completing_imports_nothing_heavy():
    asked = {"COMP_WORDS": "tracekit whatif t.json h", "COMP_CWORD": "3"}
    code = (
        "import sys, atexit; sys.argv = ['tracekit']; from tracekit.commands import main\n"
        "atexit.register(lambda: print(*sys.modules)); main()"
    )
    found = said(sys.executable, "-c", code, _TRACEKIT_COMPLETE="bash_complete", **asked)
    assert "host*" in found
    assert not {"duckdb", "polars", "numpy", "rich", "torch"} & set(found.split())


def shown(folder, *arguments, **environment):
    """What `tracekit ...` writes to a terminal, and its exit status."""
    return on_terminal(TRACEKIT, *arguments, cwd=folder, **{"PATH": PATH} | environment)[:2]


def test_a_trace_alone_is_analyzed_and_a_mistyped_command_corrected(run, database):
    assert run(database).stdout == run("analyze", database).stdout != ""
    assert "nope.json" in run("nope.json").stderr
    done = run("anlyze")
    assert done.returncode == 2
    assert "No such command 'anlyze'" in done.stderr and "analyze" in done.stderr


def test_a_pipe_gets_no_escape_codes_unless_they_are_asked_for(run, database):
    for environment, is_styled in (
        ({}, False),
        ({"NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1"}, True),
    ):
        assert ("\x1b" in run(database, **environment).stdout) == is_styled


def test_rows_that_fit_the_terminal_are_a_table_without_styles_where_there_is_no_color(
    tmp_path, database, run
):
    wide = ", ".join(f"'{letter * 20}' AS {letter}" for letter in "abcdef")
    asked = ("sql", database, f"SELECT {wide}")
    found, _ = shown(tmp_path, *asked, NO_COLOR="1")
    assert "\x1b" not in found
    assert any("a" * 20 in line and "f" * 20 in line for line in found.splitlines())
    assert len(run(*asked).stdout.split("\n")) > 5
    assert len(run(*asked, COLUMNS="160").stdout.split("\n")) == 3


@pytest.mark.thorough
def test_long_tables_go_through_the_pager_on_a_terminal_only(tmp_path, database, run):
    long = ("sql", database, "FROM range(40)")
    pager = {"PAGER": "sed s/^/paged:/"}
    assert shown(tmp_path, *long, **pager)[0].count("paged:") == 41
    assert "paged:" not in shown(tmp_path, *long, **(pager | {"TRACEKIT_PAGER": ""}))[0]
    short, _ = shown(tmp_path, "sql", database, "SELECT 1", **pager)
    assert "paged:" not in short and "\x1b[1m" in short
    assert "paged:" not in run(*long, **pager).stdout


def test_sql_without_a_statement_opens_a_shell(tmp_path, database, run):
    shell = tmp_path / "bin" / "duckdb"
    shell.parent.mkdir()
    shell.write_text('#!/bin/sh\necho "shell: $@"\n')
    shell.chmod(0o755)
    path = f"{shell.parent}{os.pathsep}{os.environ['PATH']}"
    found, status = shown(tmp_path, "sql", database, PATH=path)
    # In the shell, questions are table functions.
    opened = re.fullmatch(r"shell: -readonly -cmd \.read \S+/questions\.sql (.*)", found.strip())
    assert opened and (opened[1], status) == (str(database), 0)
    found, status = shown(tmp_path, "sql", database, PATH="/nowhere")
    assert status == 2 and "pip install duckdb-cli" in found
    traces.write(tmp_path / "t.json", hostile.EVENTS)
    found, status = shown(tmp_path, "sql", "t.json", PATH=path)
    assert status == 2 and "tracekit load t.json" in found
    assert "Missing argument 'STATEMENT'" in run("sql", database).stderr


_NAMES = sorted(catalog.queries())
TRIED = {*sample("questions in another DuckDB client", _NAMES, _NAMES[::5]), "top_cpu_ops"}


def test_in_any_duckdb_client_questions_are_table_functions(tmp_path, run):
    path = tmp_path / "run.duckdb"
    functions = run("sql", "--functions").stdout
    with load(OWN_TRACES / "cpu-train-step.json.gz", path) as session:
        rows = {name: len(list(session.ask(name))) for name in TRIED}
    with duckdb.connect(path, read_only=True) as client:
        client.execute(functions)
        assert {name: len(client.execute(f"FROM {name}()").fetchall()) for name in rows} == rows
        client.execute("SET VARIABLE top = 1")
        assert len(client.execute("FROM top_cpu_ops()").fetchall()) == 1 < rows["top_cpu_ops"]


# -- what is shown while work takes long

# The work goes on until the line is shown, if it is to be shown at all.
_PROGRAM = """
import sys, time
from tracekit.reporters import progress
from tracekit.stages import heard_by, stage
progress._PATIENCE_S = {patience}
line = progress.StageLine()
with heard_by(line.hear):
    with stage("replaying \\x1b[31m"):
        while {patience} == 0 and not (line._line and line._line.bar.live.is_started):
            time.sleep(0.01)
    print("printed")
"""


@pytest.mark.parametrize(("patience", "is_shown"), [(0, True), (60, False)])
def test_the_stage_is_shown_after_a_while_and_is_gone_before_results(patience, is_shown):
    program = _PROGRAM.format(patience=patience)
    shown, status, printed = on_terminal(sys.executable, "-c", program, piped=True)
    assert (status, printed) == (0, "printed\n")
    assert ("replaying \N{REPLACEMENT CHARACTER}[31m" in shown) == is_shown
    # The last thing that the terminal receives erases the line.
    assert not is_shown or shown.endswith("\x1b[1A\x1b[2K")


@pytest.mark.thorough
def test_a_load_names_its_stage_after_all_files_are_read(tmp_path):
    path = traces.write(tmp_path / "t.json", hostile.EVENTS)
    command = (sys.executable, "-m", "tracekit", "load", path, "-o", tmp_path / "t.db")
    shown, status, _ = on_terminal(*command, piped=True)
    assert status == 0 and "loading" in shown
    # How long the rest takes is not known, and nothing claims it.
    assert not re.search(r"\d MB|\d:\d\d", shown[shown.index("building tables") :])


@pytest.mark.thorough
def test_an_addition_to_a_lake_counts_what_it_reads_and_judges_and_then_writes(tmp_path):
    for rank in range(5):
        write_rank(tmp_path / "run", rank, 5)
    (tmp_path / "run" / "trace_rank5.json").write_text("{")
    options = ("--to", tmp_path / "lake", "--workers", "1")
    command = (sys.executable, "-m", "tracekit", "lake", "add", tmp_path / "run", *options)
    shown, status, printed = on_terminal(*command, piped=True)
    assert (status, printed.count("added ")) == (2, 5)
    plain = re.sub(r"\x1b\[[\d;?]*\w", "", shown)
    parts = re.findall(r"(reading|judging) \S+ +(\d+ of \d+)|(writing)", plain)
    seen = [*dict.fromkeys(" ".join(filter(None, part)) for part in parts)]
    assert seen[0] == "reading 0 of 6" and seen[-1] == "writing"
    assert "judging 0 of 5" in seen
    # The remaining time of the last part is not known.
    assert not re.search(r" of |\d:\d\d", shown[shown.rindex("writing") :])


def test_only_the_last_listener_hears_the_innermost_stage():
    outer, inner = [], []
    with (
        stages.heard_by(outer.append),
        stages.stage("reading"),
        stages.heard_by(inner.append),
        stages.stage("judging"),
        stages.stage("replaying"),
    ):
        pass
    assert outer == ["reading", None, None]
    assert inner == ["judging", "replaying", "judging", "reading", None]
