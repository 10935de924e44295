"""Budgets for steps, held by the pytest plugin, which pytest runs in a process of its own."""

import importlib
import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import own_trace_names
from tests.kit import traces
from tests.kit.processes import ran
from tracekit.budgets import (
    COUNTS,
    broken,
    changes,
    check_budget,
    figures_of,
    file_of,
    places_of,
    read_figures,
    tallied,
    write_figures,
)
from tracekit.errors import TracekitError

# An installed plugin is there by itself.
IS_INSTALLED = any(
    each.value == "tracekit.pytest_plugin" for each in entry_points(group="pytest11")
)
PLUGIN = () if IS_INSTALLED else ("-p", "tracekit.pytest_plugin")
BASE = "refs/remotes/origin/main"
WORKFLOW = Path(__file__).parents[2] / "examples" / "github-actions.yml"

STEP = """
    import pytest
    import torch

    WEIGHT = torch.ones(16, 16)
    OPERATORS = {operators}

    def step():
        x = WEIGHT
        for _ in range(OPERATORS):
            x = torch.neg(x)
        return x
"""


@pytest.fixture
def tried(tmp_path, run):
    """Writes a test file, runs pytest on it, and returns what it printed and its exit status."""

    def run_pytest(tests, *options, operators=3, file="test_step.py"):
        text = dedent(STEP.format(operators=operators)) + dedent(tests)
        (tmp_path / file).write_text(text)
        always = (*PLUGIN, "-q", "-p", "no:cacheprovider", "--strict-markers")
        done = run(*always, *options, ".", program="pytest")
        return done.stdout + done.stderr, done.returncode

    return run_pytest


TESTS = """
    @pytest.mark.tracekit(operators=3)
    def test_budget(tracekit_profile):
        figures = tracekit_profile(step)
        assert figures.counts["operators"] == OPERATORS

    @pytest.mark.tracekit
    def test_stored(tracekit_profile):
        tracekit_profile(step)
"""
NEW = """
    @pytest.mark.tracekit
    def test_new(tracekit_profile):
        tracekit_profile(step)
"""
WRONG = """
    @pytest.mark.tracekit(launches=5)
    def test_launches(tracekit_profile):
        tracekit_profile(step)

    @pytest.mark.tracekit(lunches=5)
    def test_unknown(tracekit_profile):
        tracekit_profile(step)

    @pytest.mark.tracekit(5)
    def test_nameless(tracekit_profile):
        tracekit_profile(step)
"""


@pytest.mark.slow
def test_a_step_is_held_to_its_budget_and_to_what_was_stored(tried, tmp_path):
    pytest.importorskip("torch")
    output, status = tried(TESTS, "--tracekit-update")
    assert (status, "2 passed" in output) == (0, True)
    base = read_figures(file_of("test_step.py::test_stored", tmp_path))
    assert base.names["operators"]["aten::neg"] == 3

    output, status = tried(TESTS + NEW + WRONG, operators=5)
    assert status == 1
    assert "no figures are stored for this step" in output
    assert "'lunches' is not a figure of a budget; the figures are operators, launches" in output
    assert "takes names and values" in output
    if not importlib.import_module("torch").cuda.is_available():
        assert "launches cannot be measured: the trace has no device work" in output
        assert "5 failed, 1 error" in output
    assert "operators: 5 a step, budget 3" in output
    # The operator, its stored count, and its line.
    assert re.search(r"5 aten::neg \(3 before\), from test_step\.py\(\d+\): step", output)
    left = list((tmp_path / ".tracekit").glob("*stored-*.json.gz"))
    with tracekit.load(left[0], verdicts=False) as run:
        assert run.ask("step_counts")


def test_no_two_tests_share_a_file_of_figures(tmp_path):
    tests = ["test_a.py::test_step", "test_b.py::test_step", "test_a.py::test_Step",
             "test_a.py::A::test_step", "test_a.py::A-test_step", "test_a.py::test_step[a/b]",
             "test_a.py::test_step[a b]", "test_a.py::test_step[a-b]", "test_a.py::test_step[A-b]",
             "test_a.py::test_step[*.py-1]", "test_a.py::test_step[x.py-1]", "test_a.py::1]",
             f"test_a.py::test_step[{'x' * 400}]", f"test_a.py::test_step[{'x' * 401}]",
             ]  # fmt: skip
    files = [file_of(test, tmp_path) for test in tests]
    assert len({each.name.casefold() for each in files}) == len(tests)
    assert {each.parent for each in files} == {tmp_path / "tracekit_baselines"}
    assert max(len(each.name) for each in files) < 255
    # Wherever pytest is started.
    assert file_of("tests/deep/test_a.py::test_step", tmp_path) == files[0]


def test_the_plugin_imports_nothing_until_it_is_used():
    code = (
        "import sys, pytest, tracekit.pytest_plugin; "
        "assert not {'torch', 'duckdb', 'polars', 'numpy', 'rich'} & set(sys.modules)"
    )
    assert ran("python", "-c", code).returncode == 0


@pytest.fixture(scope="module")
def figures(shared_database):
    return figures_of(shared_database("simulated-overhead-bound.json.gz"))


@pytest.mark.thorough
def test_counts_are_those_of_the_run_metrics(shared_ask):
    for name in own_trace_names():
        metrics = shared_ask(name, "run_metrics")
        if not metrics or shared_ask(name, "overview")[0]["steps"]:
            continue
        rows = shared_ask(name, "step_counts")
        for figure in ("operators", "launches", "kernels", "copied_bytes"):
            total = sum(row["total"] for row in rows if row["figure"] == figure)
            assert total == metrics[0][figure], (name, figure)


def test_each_figure_can_be_over_its_budget(figures):
    for name, count in figures.counts.items():
        assert (
            broken(figures, {name: count}, None) == broken(figures, {name: count + 1}, None) == []
        )
        if count:
            (only,) = broken(figures, {name: count - 0.5}, None)
            assert only.message.startswith(f"{name}: ")
    classes = figures.kernels_by_class
    assert broken(figures, {"kernels_by_class": classes}, None) == []
    assert len(broken(figures, {"kernels_by_class": dict.fromkeys(classes, 0)}, None)) == len(
        [each for each in classes.values() if each]
    )
    other = {"overhead-bound": "compute-bound"}.get(figures.regime, "overhead-bound")
    assert broken(figures, {"regime": figures.regime, "host_share": 1}, None) == []
    assert broken(figures, {"regime": other}, None)
    assert set(figures.counts) == set(COUNTS)


def test_times_are_compared_on_the_same_device_only(figures):
    now, before = replace(figures, step_ns=120), replace(figures, step_ns=100)
    assert broken(now, {"time": 1.2}, before) == []
    (only,) = broken(now, {"time": 1.1}, before)
    assert "1.20 times the stored 100 ns" in only.message
    assert broken(now, {"time": 1.1}, replace(before, device="another")) == []
    assert "no stored time to compare with" in broken(now, {"time": 1.1}, None)[0].message


def test_stored_figures_come_back_and_changes_are_named(figures, tmp_path):
    path = tmp_path / "deep" / "step.json"
    write_figures(path, figures)
    base = read_figures(path)
    assert broken(figures, {}, base) == []
    assert changes(figures, base) == []
    before = path.read_text()
    write_figures(path, base)
    assert json.loads(path.read_text()) == json.loads(before)
    figure = next(name for name in base.names if base.names[name] and name != "copied_bytes")
    name, count = next(iter(base.names[figure].items()))
    base.names[figure][name] = count + 2
    assert changes(figures, base) == [f"-2 {name} ({figure}: {count + 2:,g} before)"]


def test_a_figure_over_its_budget_lists_what_it_counted_and_where(tmp_path):
    events = [
        traces.step(0, 0, 1000),
        traces.frame("train.py(7): step", 1, 900),
        *(traces.operator("aten::neg", 10 + 20 * i, 9) for i in range(3)),
        traces.operator("aten::mm", 200, 9),
    ]
    path = traces.write(tmp_path / "t.json", events)
    with tracekit.load(path, verdicts=False) as database:
        figures, places = figures_of(database), places_of(database)
    found = list(tallied("operators", figures, None, places))
    assert found == [
        "     3 aten::neg, from train.py(7): step", "     1 aten::mm, from train.py(7): step"
    ]  # fmt: skip
    before = replace(figures, names={"operators": {"aten::neg": 3}})
    first, second = tallied("operators", figures, before, {})
    assert (first, second) == ("     1 aten::mm (0 before)", "     3 aten::neg (3 before)")


SOUND = {"schema": "tracekit/step/1", "counts": {"operators": 3}, "kernels_by_class": {},
         "names": {}, "regime": "unknown", "host_share": None, "step_ns": 5, "device": "CPU",
         "why": []}  # fmt: skip


def test_a_file_that_holds_no_figures_is_named(tmp_path):
    path = tmp_path / "step.json"
    path.write_text(json.dumps(SOUND))
    assert read_figures(path)
    wrong = {
        "counts": [None, [], 3, {"operators": "3"}, {"operators": None}, {"other": 3},
                   {"operators": float("nan")}, {"operators": float("inf")},
                   {"operators": 10**400}],
        "kernels_by_class": [None, "x", {"gemm": True}],
        "names": [None, 3, {"operators": 3}, {"operators": {"aten::mm": "1"}}],
        "regime": [None, 3],
        "host_share": ["0.5", -1],
        "step_ns": ["5", 0, True, 10**400],
        "device": [None, 3],
        "other": [3],
    }  # fmt: skip
    texts = [json.dumps(SOUND | {name: each}) for name, values in wrong.items() for each in values]
    for text in ["", "{", "[]", "{}", '{"schema": "other"}', "\x00", "[" * 100_000, *texts]:
        path.write_text(text)
        with pytest.raises(TracekitError, match="run that again"):
            read_figures(path)


@pytest.mark.parametrize(
    "budget",
    [{"launches": -1}, {"launches": "3"}, {"regime": "fast"}, {"kernels_by_class": 3}, {"x": 1},
     {"operators": True}],
)  # fmt: skip
def test_budgets_that_make_no_sense_are_refused(budget):
    with pytest.raises(TracekitError):
        check_budget(budget)


@pytest.mark.thorough
def test_the_workflow_for_pull_requests_runs(tmp_path):
    """Runs the workflow's steps, except those that install and upload."""
    pytest.importorskip("torch")
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["budgets"]["steps"]
    scripts = {each["name"]: each["run"] for each in steps if "name" in each}
    if find_spec("altair") is None:
        scripts["compare"] = scripts["compare"].splitlines()[0]
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "test_nothing.py").write_text("def test_nothing(): pass")
    git = "git -c user.name=a -c user.email=a@example.org"
    made = f"git init -q; git add .; {git} commit -qm first; git update-ref {BASE} HEAD"
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PYTHONPATH": os.pathsep.join([*sys.path[:1], str(WORKFLOW.parents[1])]),
    }
    for script in (made, *(scripts[name] for name in ("budgets", "capture", "compare"))):
        subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=repository,
                       env=environment, check=True)  # fmt: skip
    assert (repository / "budgets.xml").exists()
    assert "### " in (tmp_path / "summary.md").read_text()
