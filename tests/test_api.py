"""The library: each shell command has one obvious line of Python."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import polars
import pytest

import tracekit
from tests import traces
from tests.programs import random_program
from tests.simulated import write
from tests.simulator import Simulation

EVENTS = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1), traces.gpu_op(20, 5, name="second")]


def test_a_trace_is_loaded_asked_and_judged_in_a_line_each(tmp_path):
    with tracekit.load(traces.write(tmp_path / "t.json", EVENTS)) as run:
        frame = run.sql("SELECT name, dur_ns FROM kernels ORDER BY start_ns")
        assert isinstance(frame, polars.DataFrame)
        assert frame.rows() == [("sgemm", 5000), ("second", 5000)]
        assert run.query("top_kernels", top=1).height == 1
        assert run.verdict().verdict.regime == "compute-bound"


def test_several_traces_go_into_one_database(tmp_path):
    first = traces.write(tmp_path / "a.json", EVENTS)
    second = traces.write(tmp_path / "b.json", EVENTS[:2])
    with tracekit.load([first, second], tmp_path / "run.duckdb") as run:
        assert [row["events"] for row in run.traces()] == [3, 2]
        with pytest.raises(tracekit.TracekitError, match="choose a trace"):
            run.verdict()
        assert run.verdict(2).gpu.kernels == 1
    with tracekit.open_database(tmp_path / "run.duckdb") as again:
        assert again.query("overview").height == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.query("no"),
        lambda run: run.query("top_kernels", no=1),
        lambda run: run.sql(""),
        lambda run: run.verdict(7),
        lambda run: run.verdict(window="no"),
    ],
)
def test_wrong_use_is_one_kind_of_error(ask, tmp_path):
    path = traces.write(tmp_path / "t.json", EVENTS)
    with tracekit.load(path) as run, pytest.raises(tracekit.TracekitError):
        ask(run)


def test_parameters_are_values_never_sql(tmp_path):
    path = traces.write(tmp_path / "t.json", EVENTS)
    with tracekit.load(path) as run, pytest.raises(tracekit.TracekitError, match="integer"):
        run.query("top_kernels", top="1; DROP TABLE event")


def test_importing_the_library_imports_nothing_heavy():
    code = "import sys, tracekit; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not {"torch", "triton", "polars", "duckdb", "hta", "plotly", "ray"} & set(loaded.split())


def test_frames_outlive_the_database_quietly(tmp_path):
    path = traces.write(tmp_path / "t.json", EVENTS)
    code = f"import tracekit; run = tracekit.load({str(path)!r}); f = run.sql('SELECT 1 AS x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_database_may_be_open_twice(tmp_path):
    path = traces.write(tmp_path / "t.json", EVENTS)
    tracekit.load(path, tmp_path / "run.duckdb").close()
    with (
        tracekit.open_database(tmp_path / "run.duckdb") as first,
        tracekit.open_database(tmp_path / "run.duckdb") as second,
    ):
        assert first.traces() == second.traces()


def test_verdicts_are_reached_side_by_side(tmp_path):
    atoms, machine = random_program(0)
    path = write(tmp_path / "t.json", Simulation(atoms, machine))
    tracekit.load(path, tmp_path / "run.duckdb").close()

    def verdict(_: int) -> dict[str, object]:
        with tracekit.open_database(tmp_path / "run.duckdb") as run:
            return run.verdict().as_dict()

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(verdict, range(8))
    assert all(other == first for other in others)
