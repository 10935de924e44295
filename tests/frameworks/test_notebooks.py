"""The notebook, the README's Python in Jupyter, and the programs of examples/frameworks.md."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tracekit
from tests.conftest import trace_file
from tests.frameworks.test_frameworks import steps_in
from tests.kit.processes import ran

ROOT = Path(__file__).parents[2]

CPU_TRACE = "cpu-train-step.json.gz"


def python_blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def marimo_notebook(tmp_path):
    pytest.importorskip("marimo", reason="marimo is not installed")
    for name in ("notebook.py", "heads.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path / "notebook.py"


def program_of(notebook: Path, lines: str) -> subprocess.CompletedProcess[str]:
    """Runs a program about the notebook, a module."""
    program = f"import notebook\n{lines}"
    return ran("python", "-c", program, cwd=notebook.parent, KINETO_LOG_LEVEL="6")


def test_the_notebook_leads_from_a_trace_to_the_line_to_change(marimo_notebook):
    pytest.importorskip("torch")
    pytest.importorskip("altair")
    done = program_of(
        marimo_notebook,
        "outputs, defined = notebook.app.run()\n"
        "print(defined['verdict'].verdict.regime)\n"
        "print(defined['fixes'][0].where)\n"
        "print({row[0]: row[1] for row in defined['calls'].iter_rows()}['aten::mm'])\n"
        "print(defined['predicted'].speedup > 1.9)\n"
        "operators = defined['changed'].operators\n"
        "print({row['operator']: row['b_count'] for row in operators}['aten::mm'])\n"
        "print(type(defined['chart']).__name__)\n",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "overhead-bound", "heads.py(11): <listcomp>", "320", "True", "0.0", "Chart",
    ]  # fmt: skip


def test_the_notebook_is_a_program_and_a_page(marimo_notebook, tmp_path):
    pytest.importorskip("torch")
    page = tmp_path / "page.html"
    for command in (
        [marimo_notebook],
        ["-m", "marimo", "export", "html", marimo_notebook, "-o", page],
    ):
        done = ran("python", *command, cwd=tmp_path)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "overhead-bound" in page.read_text() and "listcomp" in page.read_text()


def test_the_notebook_takes_the_readers_own_trace_where_nothing_can_be_recorded(marimo_notebook):
    source = marimo_notebook.read_text()
    marimo_notebook.write_text(
        source.replace('find_spec("torch") is not None', "False").replace(
            'mo.ui.text(label="Trace (',
            f'mo.ui.text({str(trace_file(CPU_TRACE))!r}, label="Trace (',
        )
    )
    done = program_of(
        marimo_notebook,
        "outputs, defined = notebook.app.run()\n"
        "print(defined['verdict'].trace.path, 'changed' in defined)\n",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(trace_file(CPU_TRACE)), "False"]


def test_a_connection_reads_a_database_and_nothing_else(tmp_path):
    import duckdb

    trace = trace_file(CPU_TRACE)
    with tracekit.load(trace, tmp_path / "run.duckdb", verdicts=False) as run:
        connection = run.connection()
        assert connection.execute("SELECT count(*) FROM cpu_ops").fetchone()[0] > 0
        for refused in (
            "DELETE FROM trace",
            f"COPY trace TO '{tmp_path / 'out.csv'}'",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(refused)
    assert [each.name for each in tmp_path.iterdir()] == ["run.duckdb"]
    with (
        tracekit.load(trace) as run,
        pytest.raises(tracekit.TracekitError, match="needs a database in a file"),
    ):
        run.connection()


@pytest.mark.parametrize("block", python_blocks("examples/frameworks.md"))
def test_the_programs_for_frameworks_leave_a_trace_and_a_verdict(block, tmp_path):
    pytest.importorskip("torch")
    for package in re.findall(r"^from (transformers|lightning|accelerate)\b", block, re.MULTILINE):
        pytest.importorskip(package, reason=f"{package} is not installed")
    done = ran("python", "-c", block, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "TracekitWarning" not in done.stderr and "Traceback" not in done.stderr
    written = {each.name for each in (tmp_path / "out").iterdir()}
    assert {"run.json.gz", "run.verdict.json", "run.verdict.txt"} <= written
    assert steps_in(tmp_path / "out" / "run.json.gz") == 5
