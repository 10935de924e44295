"""`make gpu-check`: how it judges and reports; its measurements need a GPU."""

import json
import re
import shlex
from collections import Counter
from dataclasses import asdict
from importlib.metadata import requires

import pytest

import tracekit
from tests.bench import experiments, gpu_check
from tests.bench.experiments import Tried
from tests.bench.gpu_check import CUT, FAILED, PASSED, Task, records
from tests.bench.targets import ANCHOR_ROWS, SMALL_ROWS, judge_figures, judge_verdicts, of_bench
from tests.bench.variants import Row, in_ranges_us
from tests.kit.atoms import US, Launch, Slice
from tests.kit.processes import have_ended, ran
from tests.kit.simulated import write
from tests.kit.simulator import Machine, Simulation
from tracekit.capture.workload import CannotRun
from tracekit.version import DISTRIBUTION

GOOD = {
    ANCHOR_ROWS: {"mlp-triton": 100.0, "mlp-compiled": 100.0},
    **{
        rows: {"mlp-triton-gate-up": 10.0, "mlp-compiled": 15.0, "mlp-eager": 20.0}
        for rows in SMALL_ROWS
    },
}


@pytest.mark.parametrize(
    ("rows", "slower", "roof", "missed"),
    [
        (ANCHOR_ROWS, {}, 0.85, ""),
        (ANCHOR_ROWS, {"mlp-triton": 102.0}, 0.9, ""),
        (ANCHOR_ROWS, {"mlp-triton": 103.0}, 0.9, "as mlp-compiled: 0.97 x"),
        (8, {"mlp-triton-gate-up": 10.1, "mlp-eager": 21.0}, 0.9,
         "as mlp-compiled: 1.49 x (mlp-triton-gate-up)"),
        (8, {"mlp-triton-gate-up": 11.0, "mlp-triton-full": 9.0}, 0.9, ""),
        (64, {"mlp-eager": 19.0}, 0.9, "as mlp-eager: 1.90 x (mlp-triton-gate-up)"),
        (8192, {}, 0.849, "act(gate) * up at 85% of the memory roof or more: 84.9%"),
    ],
)  # fmt: skip
def test_a_figure_below_its_target_misses_it_alone(rows, slower, roof, missed):
    judged = judge_figures(GOOD | {rows: GOOD[rows] | slower}, roof)
    found = [str(each) for each in judged if not each.met]
    assert len(found) == bool(missed)
    assert all(each.startswith(f"FAIL: {rows} rows: ") and each.endswith(missed) for each in found)


def test_a_missing_measurement_meets_no_target():
    nothing = judge_figures({}, None)
    assert len(nothing) == 2 + 2 * len(SMALL_ROWS)
    assert not any(each.met for each in nothing)
    without = {
        rows: {k: v for k, v in us.items() if k != "mlp-compiled"} for rows, us in GOOD.items()
    }
    (line, *_) = (str(each) for each in judge_figures(without, 0.9) if not each.met)
    assert line.endswith("not measured: no mlp-compiled")


def test_verdicts_are_judged_at_conclusive_points_only():
    agree = [Tried("a", True, 0.1)] * 38
    unknown = [Tried("b", None, None)] * 5
    wrong = [Tried("c", False, -0.3)] * 2
    regime, graph = judge_verdicts([*agree, *wrong, *unknown])
    assert (regime.met, regime.found) == (True, "38 of 40; 5 were inconclusive")
    assert (graph.met, graph.found) == (True, "10.0% of 40")
    # One point fewer, and one more that disagrees.
    assert [each.met for each in judge_verdicts([*agree[1:], *wrong, *unknown])] == [False, False]
    assert not judge_verdicts([*agree, *wrong, wrong[0]])[0].met
    assert [each.found for each in judge_verdicts([])] == [
        "0 of 0; 0 were inconclusive",
        "not measured",
    ]


def test_only_variants_with_a_promise_and_a_graph_are_judged(tmp_path):
    def row(name, us, **more):
        return asdict(Row(name, name, [9.9 * us], [us, us, 2 * us], **more))

    rows = [
        row("mlp-triton-gate-up", 10.0), row("mlp-compiled", 15.0), row("mlp-eager", 20.0),
        row("mlp-triton-full", 1.0, stand_in="no Triton"), row("mlp-cpp", 1.0, wrong=True),
    ]  # fmt: skip
    for count in SMALL_ROWS:
        (tmp_path / f"rows-{count}.json").write_text(json.dumps({count: rows}))
    anchor = {
        str(ANCHOR_ROWS): [row("mlp-triton", 100.0), row("mlp-compiled", 100.0)],
        f"{ANCHOR_ROWS} roofs": [{"name": "CUDA", "share": 0.1}, {"name": "Triton", "share": 0.9}],
    }
    (tmp_path / "rows-8192.json").write_text(json.dumps(anchor))
    assert [str(each) for each in of_bench(tmp_path)] == [
        str(each) for each in judge_figures(GOOD, 0.9)
    ]  # fmt: skip


def test_a_variant_that_another_one_replaced_has_failed_unless_it_is_a_peers():
    def failed(name, **more):
        return Row(name, "pytorch-in-place", [1.0], **more).failed

    assert failed("mlp-cpp", stand_in="the C++ operator does not build")
    assert failed("mlp-liger", wrong=True)
    assert not failed("mlp-liger", stand_in="liger-kernel is not installed")
    assert not failed("mlp-cpp")


def test_a_kernels_time_is_the_profilers_without_what_clears_the_cache(tmp_path):
    fill = Launch(US, (("math", 1000 * US),))
    program = [
        atom
        for us in (50, 52)
        for atom in (fill, Slice("Triton", "user_annotation", (Launch(US, (("math", us * US),)),)))
    ]
    path = write(tmp_path / "t.json", Simulation(program, Machine()))
    with tracekit.load(path) as database:
        assert in_ranges_us(database, ["Triton"]) == {"Triton": 51.0}


def test_an_unexpected_error_is_a_row_and_finished_points_are_kept(monkeypatch, tmp_path):
    asked = []

    def probe(name, options):
        asked.append(options.hidden)
        if options.hidden == 4:
            raise CannotRun(name, "no reason")
        raise RuntimeError("CUDA out of memory\nmore")

    monkeypatch.setattr(experiments, "probe", probe)
    grid = "cpu", ("mlp-eager",), (1,), (4, 8)
    lines = list(experiments.Experiments(tmp_path / "points.jsonl").measure(*grid))
    assert lines[2:] == [
        "| mlp-eager | 1 | 4 | no reason | - | - | - | - | - | - |",
        "| mlp-eager | 1 | 8 | RuntimeError: CUDA out of memory | - | - | - | - | - | - |",
    ]
    again = experiments.Experiments(tmp_path / "points.jsonl")
    assert list(again.measure(*grid)) == lines
    assert asked == [4, 8]


# -- parts, tasks and the limit --------------------------------------------------------------------


def program(text: str) -> str:
    """The arguments with which Python runs a program."""
    return shlex.join(["-c", text])


@pytest.fixture
def checked(monkeypatch, tmp_path):
    """Runs these tasks as the part `first`, on a CPU; returns the exit status."""
    monkeypatch.setattr(gpu_check, "why_not", lambda device: None)

    def run(tasks: list[Task], *more: str) -> int:
        monkeypatch.setattr(gpu_check, "tasks", lambda *_: tasks)
        folders = ["--state", str(tmp_path / "state"), "--output", str(tmp_path / "out")]
        return gpu_check.main(["first", "--device", "cpu", *folders, *more])

    return run


def test_a_part_that_is_killed_at_its_limit_goes_on_where_it_stopped(checked, tmp_path, capfd):
    runs = tmp_path / "runs"
    noted = f"print('runs', file=open({str(runs)!r}, 'a'))"
    # It starts another process, as compilers do, and ends only when it runs again.
    slow = (
        "import pathlib, subprocess, sys, time\n"
        f"path = pathlib.Path({str(tmp_path / 'begun')!r})\n"
        "if path.exists(): sys.exit(print('went on'))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(6000)'])\n"
        "path.write_text(str(child.pid))\n"
        "print('half', flush=True)\n"
        "time.sleep(6000)\n"
    )
    tasks = [
        Task("quick", program(noted)),
        Task("slow", program(slow)),
        Task("late", program("print('late')")),
        Task("targets", program("print('judged')"), judges=True),
    ]
    state = tmp_path / "state" / "first"
    assert checked(tasks, "--limit", "4") == 3
    status = {name: each.status for name, each in records(state).items()}
    assert status == {"quick": PASSED, "slow": CUT, "late": CUT, "targets": CUT}
    assert (tmp_path / "out" / "first" / "slow.log").read_text() == "half\n"
    assert have_ended(int((tmp_path / "begun").read_text()))
    assert capfd.readouterr().out.endswith("cut off at the limit: slow, late, targets\n")

    assert checked(tasks) == 0
    assert runs.read_text() == "runs\n"
    report = (tmp_path / "out" / "report.md").read_text()
    assert report.startswith("# tracekit on a CPU: a rehearsal, no figure here is a GPU's\n")
    ended = [line.rpartition(",")[0] for line in report.splitlines() if line.startswith("## ")]
    assert ended == [f"## first, {name}: passed" for name in ("quick", "slow", "late", "targets")]
    assert "went on\n" in report


def test_a_task_that_fails_does_not_hide_the_later_ones(checked, tmp_path):
    tasks = [
        Task("bad", program("print('two of three'); raise SystemExit(4)")),
        Task("good", program("print('fine')")),
    ]
    assert checked(tasks) == 1
    bad, good = records(tmp_path / "state" / "first").values()
    assert (bad.status, bad.why, good.status) == (FAILED, "exit status 4", PASSED)
    # A finished task does not run again, and still counts as failed.
    assert checked([Task("bad", program("")), tasks[1]]) == 1


def test_a_task_that_takes_longer_than_its_own_limit_fails_and_the_part_goes_on(checked, tmp_path):
    tasks = [
        Task("slow", program("import time; time.sleep(6000)"), limit_s=1),
        Task("next", program("print('ran')")),
    ]
    assert checked(tasks) == 1
    slow, after = records(tmp_path / "state" / "first").values()
    assert (slow.status, slow.why, after.status) == (FAILED, "it took longer than 1 s", PASSED)


def test_a_tool_may_be_missing_only_without_a_gpu(tmp_path):
    task = Task("ncu", program("print('ran')"), "no-such-tool")
    for device, status in (("cuda", FAILED), ("cpu", PASSED)):
        job = gpu_check.Job("ncu", tmp_path / device, tmp_path / device, 60, device)
        assert [each.status for each in job.run([task])] == [status]
    log = (tmp_path / "cpu" / "ncu" / "ncu.log").read_text()
    assert log == "without no-such-tool, which is not here\nran\n"


def test_missing_wheels_are_named_in_one_line_and_neither_polars_nor_a_compiler_is_needed(
    monkeypatch, capsys
):
    assert gpu_check.main(["--wheels"]) == 0
    brought = set(capsys.readouterr().out.split())
    assert brought >= {*gpu_check.NEEDED} - {"numpy"}
    needed = {
        re.match(r"[\w.-]+", each)[0] for each in requires(DISTRIBUTION) if "extra ==" not in each
    }
    assert needed <= brought | {"numpy", "polars"}
    assert not brought & {"polars", "ziglang", "torch", "triton"}
    monkeypatch.setattr(gpu_check, "_has", lambda name: name not in ("duckdb", "markdown_it"))
    assert gpu_check.main(["first", "--device", "cpu"]) == 2
    assert capsys.readouterr().err == (
        "gpu-check: bring these wheels, as docs/howto/gpu.md says: duckdb, markdown-it-py\n"
    )


def test_without_a_gpu_it_says_so_in_one_line(tmp_path, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert gpu_check.main(["--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said == "gpu-check: PyTorch sees no GPU here, so there is nothing to check\n"
    assert not list(tmp_path.iterdir())


# -- the tests that run on a GPU -------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(("part", "cases_of_a_tile"), [("tests", 3), ("sanitize", 1)])
def test_on_a_gpu_every_kernel_dtype_and_tile_is_tested_and_sanitized(
    part, cases_of_a_tile, tmp_path
):
    from tracekit.workloads.kernels import gate_up

    arguments = shlex.split(gpu_check.tasks(part, "cuda", tmp_path)[-1].arguments)
    chosen = arguments[arguments.index("--tb=short") + 1 :]
    files = {gpu_check.KERNELS, gpu_check.EXTENSION} - set(chosen)
    listed = ran("python", "-m", "pytest", "--collect-only", *files, *chosen, cwd=gpu_check.ROOT,
                 TRACEKIT_TEST_DEVICE="cuda").stdout  # fmt: skip
    assert set(re.findall(r"torch\.(\w*float\d+)", listed)) == {"float32", "float16", "bfloat16"}
    tiles = re.findall(r"::test_every_tile_of_the_search\w+\[(.*)-torch", listed)
    assert Counter(tiles) == {str(each): cases_of_a_tile for each in gate_up._CONFIGS}
    for each in ("every_activation_is_computed", "the_operator_agrees_with_eager"):
        assert listed.count(f"::test_{each}") >= (3 if part == "sanitize" else 12)
    # Compiling for absent devices takes time from the present ones.
    assert "a_device_that_is_not_here" not in listed


@pytest.mark.thorough
def test_tests_that_passed_do_not_run_again(tmp_path, monkeypatch):
    (tmp_path / "test_two.py").write_text(
        "import os\ndef test_good(): pass\ndef test_bad(): assert 'NOW' in os.environ\n"
    )
    # With pytest-xdist, the process that started a worker notes its results.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    command = (
        "python",
        "-m",
        "pytest",
        "-p",
        "tests.bench.gpu_tests",
        "-vv",
        tmp_path / "test_two.py",
    )
    seen = []
    for more in ({}, {"NOW": "1"}):
        passed = {"GPU_CHECK_PASSED": str(tmp_path / "passed.txt")}
        done = ran(*command, cwd=gpu_check.ROOT, **more, **passed)
        seen.append((done.returncode, re.findall(r"::test_(\w+ [A-Z]+)", done.stdout)))
    assert seen == [(1, ["good PASSED", "bad FAILED"]), (0, ["bad PASSED"])]
