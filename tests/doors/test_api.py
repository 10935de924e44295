"""The library: each shell command has one obvious line of Python."""

import inspect
import io
from concurrent.futures import ThreadPoolExecutor
from html import escape

import pytest

import tracekit
from tests.kit import traces
from tests.kit.processes import ran
from tests.kit.programs import random_program
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tracekit.thresholds import Thresholds

EVENTS = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1), traces.gpu_op(20, 5, name="second")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with tracekit.load(traces.write(tmp_path_factory.mktemp("t") / "t.json", EVENTS)) as opened:
        yield opened


@pytest.mark.thorough
def test_several_traces_go_into_one_database_and_are_judged_side_by_side(tmp_path):
    paths = [traces.write(tmp_path / f"{number}.json", EVENTS[:2]) for number in range(9)]
    atoms, machine = random_program(0)
    write(tmp_path / "0.json", Simulation(atoms, machine))
    file = tmp_path / "run.duckdb"
    with tracekit.load(paths, file, verdicts=False) as run:
        assert [row["events"] for row in run.traces()][1:] == [2] * 8
        assert "9 traces" in repr(run) and "... and 1 more" in repr(run)
        with pytest.raises(tracekit.TracekitError, match="choose a trace"):
            run.verdict()
        assert run.verdict(2).gpu.kernels == 1

    def verdict(_: int) -> dict[str, object]:
        with tracekit.open_database(file) as run:
            assert run.query("overview").height == 9
            return run.verdict(1).as_dict()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(verdict, range(2))
    assert one == other


def test_frames_outlive_the_database_quietly(tmp_path):
    path = traces.write(tmp_path / "t.json", EVENTS)
    code = f"import tracekit; run = tracekit.load({str(path)!r}); f = run.sql('SELECT 1 AS x')"
    done = ran("python", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_and_questions_can_be_listed(run):
    assert dir(tracekit) == sorted(tracekit.__all__)
    listed = dir(run)
    assert {"verdict", "advise", "report", "sql", "top_kernels", "questions"} <= set(listed)
    # Internals of the session, and questions of the replay and of remedies, work but are not shown.
    assert not {"arrays", "give_back_memory", "host_work", "cuda_graph"} & set(listed)
    assert all(hasattr(run, name) for name in listed if name != "plot")
    found = run.questions("graph")
    assert found.columns == ["name", "topic", "question"] and "graph_replays" in found["name"]


def test_the_thresholds_of_a_session_hold_where_no_others_are_given(judged):
    other = Thresholds().updated(["named_gain=0.5"])
    with tracekit.open_database(judged) as run:
        usual, expected = run.verdict().as_dict(), run.verdict(thresholds=other).as_dict()
        assert usual != expected
        with run.session.judging(other):
            assert run.verdict().as_dict() == expected
        assert run.verdict().as_dict() == usual


def test_questions_are_methods_with_a_signature_and_help(run):
    signature = inspect.signature(run.top_kernels)
    assert str(signature) == "(top=20, trace=None)"
    assert run.top_kernels(1).height == run.top_kernels(top=1, trace=1).height == 1
    assert run.top_kernels(1, 1).equals(run.query("top_kernels", top=1, trace=1))
    assert "name (text)" in run.top_kernels.__doc__
    with pytest.raises(TypeError, match="takes 2 parameters, not 3"):
        run.top_kernels(1, 1, 1)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: run.top_kernel, "did you mean .*'top_kernels'"),
        (lambda run: run.verdit, "did you mean .*'verdict'"),
        (lambda run: run.query("top_kernel"), "did you mean .*'top_kernels'"),
        (lambda run: run.top_kernels(tpo=1), "did you mean .*'top'"),
        (lambda run: tracekit.lod, "did you mean .*'load'"),
        (lambda run: tracekit.load(io.BytesIO()), "load takes paths of traces, not a BytesIO"),
        (lambda run: tracekit.load({"traceEvents": []}), "not a dict"),
        (lambda run: tracekit.load(None), "not a NoneType"),
        (lambda run: tracekit.load(b"t.json"), "not a bytes"),
        (lambda run: run.verdict(trace="first"), "has no trace first; its traces are 1"),
        (lambda run: tracekit.analyze("t.json"), r"begin with tracekit.load\(TRACE\)"),
        (lambda run: run.diff(run), r"load\(\[before, after\]\).diff\(1, 2\)"),
    ],
)
def test_typos_and_natural_mistakes_are_told_what_to_write(run, ask, said):
    with pytest.raises((AttributeError, tracekit.TracekitError), match=said):
        ask(run)


def test_a_closed_run_says_so(tmp_path):
    run = tracekit.load(traces.write(tmp_path / "t.json", EVENTS))
    run.close()
    assert repr(run).endswith("t.json: the database is closed: load or open it again")
    with pytest.raises(tracekit.TracekitError, match="the database is closed"):
        run.top_kernels()


def test_a_result_is_shown_in_at_most_a_screen(run):
    verdict = run.verdict()
    assert verdict.regime == verdict.verdict.regime == "compute-bound"
    assert (verdict.bottleneck, verdict.confidence) == (
        verdict.verdict.bottleneck, verdict.verdict.confidence,
    )  # fmt: skip
    prediction = run.whatif("gpu*0.5")
    for found in (run, verdict, run.advise(), prediction):
        assert 1 < len(repr(found).splitlines()) <= 40
    assert " ".join(repr(verdict).split()).startswith(verdict.headline)
    assert "3 events" in repr(run)
    first = escape(repr(prediction).splitlines()[0])
    assert prediction._repr_html_().startswith(f"<div><pre><b>{first}</b>")


def test_a_page_shows_itself_and_can_be_kept(run, tmp_path):
    pytest.importorskip("altair", reason="the extra `report` is not installed")
    page = run.report()
    assert page._repr_html_().startswith("<iframe srcdoc=") and len(repr(page)) < 100
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html
