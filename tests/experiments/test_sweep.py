"""Sweeps on the CPU: the runs, the stored points, and the database's answers."""

import json
import signal
from itertools import product

import pytest

import tracekit
from tests.kit.atoms import US, Launch, Sync, operator, step
from tests.kit.processes import ran
from tests.kit.sampling import sample
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tracekit.capture.workload import Options
from tracekit.commands import options
from tracekit.experiments import sweeping
from tracekit.experiments.points import Point, Sweep, compare, point_of, sweep_in
from tracekit.experiments.sweeping import sweep, variants_of
from tracekit.reporters import experiments as reporter

GRID = ["--batch", "1,2", "--hidden", "16,32", "--seq", "4", "--dim", "8", "--device", "cpu"]
FEW = ["--rounds", "3", "--warmup", "1", "--active", "2", "-o", "s.duckdb"]
TWO = ["--variants", "eager,torch-fused"]
TINY = Options(batch=2, seq=4, dim=8, hidden=16, device="cpu", warmup=1, active=2)


def point(workload: str, batch: int, step_ns: int | None, speedups=(None, None, None)) -> Point:
    """A point with real values only in the fields that comparisons read."""
    low, middle, high = speedups
    absent = dict.fromkeys(Point.__struct_fields__)
    return Point(**absent | {
        "trace_id": 1, "workload": workload, "device": "CPU", "dtype": "fp32", "is_wrong": False,
        "batch": batch, "step_ns": step_ns, "speedup": middle, "speedup_low": low,
        "speedup_high": high, "regime": "overhead-bound",
    })  # fmt: skip


def test_a_sweep_measures_and_captures_every_point_into_one_database(run, tmp_path):
    sizes = sample("sizes of a sweep", "16,32", "16")
    done = run("sweep", "mlp", *GRID, "--hidden", sizes, *FEW, *TWO, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found, hidden = json.loads(done.stdout), [int(each) for each in sizes.split(",")]
    assert found["schema"] == "tracekit/sweep/1"
    assert (found["device"], found["baseline"], found["captured"]) == (
        "CPU", "mlp-eager", 4 * len(hidden),
    )  # fmt: skip
    places = [(p["batch"], p["hidden"], p["workload"]) for p in found["points"]]
    assert places == list(product((1, 2), hidden, ("mlp-eager", "mlp-torch-fused")))
    for each in found["points"]:
        assert each["step_ns"] > 0
        assert each["rows_per_s"] == pytest.approx(each["batch"] * 4e9 / each["step_ns"])
        assert each["speedup_low"] <= each["speedup"] <= each["speedup_high"]
        assert each["dilation"] == pytest.approx(each["profiled_step_ns"] / each["step_ns"])
        # On a CPU there is no device, so these columns are empty.
        assert each["host_ns"] is each["launches"] is each["kernel_ns"] is each["gains"] is None
    assert len(found["shapes"]) == 2 * len(hidden)
    assert [path.name for path in tmp_path.iterdir()] == ["s.duckdb"]
    with tracekit.open_database(tmp_path / "s.duckdb") as database:
        asked = {row["trace_id"]: row for row in database.ask("sweep_points")}
        assert {p["trace_id"]: p["step_ns"] for p in found["points"]} == {
            trace_id: row["step_ns"] for trace_id, row in asked.items()
        }
        for each in found["points"]:
            assert each["regime"] == database.verdict(each["trace_id"]).verdict.regime
        # The trace and the sweep agree on the step's length.
        for fact in database.ask("capture_facts"):
            noted = json.loads(fact["facts"])["unprofiled_step_ns"]
            assert noted == asked[fact["trace_id"]]["step_ns"]


@pytest.mark.thorough
def test_a_variant_that_comes_later_takes_turns_with_the_baseline(tmp_path):
    output = tmp_path / "s.duckdb"
    sweep("mlp", output, variants=["eager"], options=TINY, rounds=2)
    later = sweep("mlp", output, variants=["eager", "torch-fused"], options=TINY, rounds=3)
    assert later.captured == 1
    eager, fused = later.points
    assert fused.speedup is not None
    with tracekit.open_database(output) as database:
        rounds = {row["workload"]: row["rounds"] for row in database.ask("sweep_points")}
        held = sweep_in(database)
    assert (held.points, held.shapes) == (later.points, later.shapes)
    assert (held.baseline, held.variants) == ("mlp-eager", ["mlp-eager", "mlp-torch-fused"])
    assert rounds == {"mlp-eager": 2, "mlp-torch-fused": 3}
    assert eager.speedup == 1


INTERRUPTED = """
import os, sys
from tracekit.commands import main
from tracekit.experiments import sweeping
load = sweeping.load
def loading(*arguments, **options):
    loaded = load(*arguments, **options)
    os.kill(os.getpid(), {ending})
    return loaded
sweeping.load = loading
sys.argv[0] = "tracekit"
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_keeps_what_is_finished_and_goes_on(ending, tmp_path):
    """It gets the signal when the first of four sizes is in the database."""
    asked = ["sweep", "mlp", *GRID, *TWO, *FEW]
    done = ran("python", "-c", INTERRUPTED.format(ending=int(ending)), *asked, cwd=tmp_path)
    assert done.returncode == (130 if ending == signal.SIGINT else -ending)
    told = "tracekit: s.duckdb keeps the finished points: run the same command to resume"
    assert ending == signal.SIGKILL or done.stderr.startswith(f"{told}\n")
    assert "Traceback" not in done.stderr
    with tracekit.open_database(tmp_path / "s.duckdb") as database:
        finished = {row["trace_id"]: row["step_ns"] for row in database.ask("sweep_points")}
    assert len(finished) == 2

    def swept(*more):
        return ran("python", "-m", "tracekit", *asked, *more, cwd=tmp_path).stdout

    def steps(found):
        return {(p["workload"], p["batch"], p["hidden"]): p["step_ns"] for p in found["points"]}

    found = json.loads(swept("--json"))
    assert found["captured"] == 8 - len(finished)
    assert finished.items() <= {p["trace_id"]: p["step_ns"] for p in found["points"]}.items()
    # The next run captures nothing, and a larger grid only what is missing.
    before = (tmp_path / "s.duckdb").read_bytes()
    table = [line.rstrip() for line in swept("--markdown").splitlines() if line.startswith("|")]
    assert (tmp_path / "s.duckdb").read_bytes() == before
    assert "| batch | hidden 16 | hidden 32 |" in table
    assert all(line.endswith("|") for line in table)
    larger = json.loads(swept("--batch", "1,3", "--hidden", "16", "--json"))
    assert (larger["captured"], len(larger["points"])) == (2, 4)
    assert len(steps(larger).items() & steps(found).items()) == 2


@pytest.mark.thorough
def test_a_point_that_cannot_run_is_a_row_with_the_reason_and_not_a_failure(run):
    some = ["--batch", "2", "--seq", "4", "--dim", "8", "--hidden", "16", "--device", "cpu"]
    three = ["--variants", "eager,cudagraph,triton", *FEW]
    done = run("sweep", "mlp", *some, *three, "--json")
    assert done.returncode == 0, done.stderr
    eager, graph, triton = json.loads(done.stdout)["points"]
    assert eager["reason"] is None
    assert (graph["reason"], graph["step_ns"]) == ("CUDA graphs need a CUDA device", None)
    # The stand-in's time would not be the Triton kernel's.
    assert triton["reason"].startswith("Triton ")
    assert triton["step_ns"] is triton["variant"] is None
    shown = run("sweep", "mlp", *some, *three).stdout
    assert "cudagraph" in shown
    assert "CUDA graphs need a CUDA device" in shown
    assert json.loads(run("sweep", "mlp", *some, *three, "--json").stdout)["captured"] == 0
    retried = json.loads(run("sweep", "mlp", *some, *three, "--json", "--retry").stdout)
    assert (retried["captured"], len(retried["points"])) == (2, 3)


@pytest.mark.thorough
def test_a_wrong_answer_is_a_row_and_exit_status_1(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from tracekit.commands import cli
    from tracekit.workloads import mlp

    monkeypatch.setattr(mlp.Mlp, "forward", lambda self, x: self.down(self.gate(x)))
    monkeypatch.chdir(tmp_path)
    asked = ["sweep", "mlp", "--variants", "eager,torch-fused", "--batch", "2", "--hidden", "16"]
    done = CliRunner().invoke(cli, [*asked, *FEW, "--device", "cpu"], standalone_mode=False)
    assert done.return_value == 1
    assert "wrong answer: off by" in done.output
    with tracekit.open_database("s.duckdb") as database:
        rows = {row["workload"]: row for row in database.ask("sweep_points")}
    assert rows["mlp-eager"]["is_wrong"]
    assert rows["mlp-torch-fused"]["step_ns"] > 0
    # Without a baseline, the speed-up is unknown.
    assert rows["mlp-torch-fused"]["speedup"] is None


@pytest.mark.thorough
def test_a_variant_that_fails_while_it_is_timed_does_not_stop_the_others(tmp_path, monkeypatch):
    from tracekit.capture.workload import Runnable

    prepare = sweeping.prepare

    def failing(name, options):
        found = prepare(name, options)
        if name != "mlp-eager":
            return found

        def step():
            raise RuntimeError("no\nmore")

        return Runnable(target=found.target, device=found.device, step=step, facts=found.facts)

    monkeypatch.setattr(sweeping, "prepare", failing)
    found = sweep("mlp", tmp_path / "s.duckdb", variants=["eager", "torch-fused"], options=TINY)
    eager, fused = found.points
    assert (eager.reason, eager.step_ns) == ("RuntimeError: no", None)
    assert fused.step_ns
    assert found.is_right


def test_a_family_is_all_of_its_variants_and_a_name_is_itself():
    assert variants_of("linear") == ["linear"]
    assert variants_of("mlp-triton") == ["mlp-triton"]
    assert variants_of("mlp", ["compiled", "mlp-eager"]) == ["mlp-compiled", "mlp-eager"]
    assert {"mlp-eager", "mlp-cudagraph"} <= set(variants_of("mlp"))


def test_the_fastest_is_the_baseline_unless_another_is_clearly_faster():
    found = compare(
        [
            point("a", 1, 100, (1.0, 1.0, 1.0)),
            point("b", 1, 90, (0.98, 1.1, 1.2)),
            point("a", 8, 100, (1.0, 1.0, 1.0)),
            point("b", 8, 70, (1.3, 1.4, 1.5)),
            point("c", 8, 80, (1.2, 1.25, 1.3)),
            point("a", 64, None),
            point("b", 64, 50),
            point("a", 512, 100, (1.0, 1.0, 1.0)),
            point("b", 512, 90),
        ],
        "a",
    )
    fastest = [(each.batch, each.fastest, each.speedup) for each in found]
    assert fastest == [(1, "a", 1.0), (8, "b", 1.4), (64, "b", None), (512, "b", None)]


@pytest.mark.thorough
def test_on_a_gpu_the_trace_adds_launches_busy_share_and_gains(tmp_path, capsys):
    """Simulated traces of a small and a large kernel, twenty per step, with handwritten rounds."""
    paths = []
    for name, kernel_us, took_us in (("mlp-a", 5, 500), ("mlp-b", 300, 6000)):
        kernel = Launch(5 * US, (("math", kernel_us * US),))
        atoms = [operator("aten::mm", 20 * US, kernel) for _ in range(20)]
        program = [*[step(number, *atoms) for number in range(5)], Sync(2 * US)]
        rounds = [
            {"workload": each, "step_ns": [ns * US] * 3, "host_ns": [490 * US] * 3}
            for each, ns in (("mlp-a", 500), ("mlp-b", 6000))
        ]
        facts = {
            "workload": name, "variant": name, "profiled_step_ns": took_us * US,
            "unprofiled_step_ns": took_us * US,
            "parameters": {"batch": 8, "seq": 4, "dtype": "bf16", "device": "cuda"},
            "sweep": {"device": "A100", "baseline": "mlp-a", "rounds": rounds},
        }  # fmt: skip
        paths.append(write(tmp_path / f"{name}.json", Simulation(program), tracekit=facts))
    with tracekit.load(paths) as database:
        small, large = (point_of(database, row) for row in database.ask("sweep_points"))
    for point, kernel_us in ((small, 5), (large, 300)):
        assert (point.launches, point.kernels, point.operators) == (20, 20, 20)
        assert point.kernel_ns == 20 * kernel_us * US
        assert point.host_ns == 490 * US
    assert (small.regime, large.regime) == ("overhead-bound", "compute-bound")
    assert small.share_busy < 0.3 < 0.95 < large.share_busy
    assert small.gains.host > 0.4 > small.gains.device
    assert large.gains.device > 0.4 > large.gains.host
    assert large.speedup == pytest.approx(500 / 6000)
    shapes = compare([small, large], "mlp-a")
    found = Sweep(
        database="s.duckdb",
        device="A100",
        baseline="mlp-a",
        variants=["mlp-a", "mlp-b"],
        captured=2,
        points=[small, large],
        shapes=shapes,
    )
    reporter.render_sweep(found)
    shown = capsys.readouterr().out
    for column in ("host", "launches", "busy", "half host", "half device", "graph", "dilation"):
        assert column in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert json.loads(json.dumps(found.as_dict()))["points"][0]["gains"]["host"] > 0.4


@pytest.mark.parametrize(("load", "says"), [(9.0, "busy (load 9.0 on 2 cores)"), (1.0, "")])
def test_a_busy_machine_is_told_before_anything_is_timed(load, says, monkeypatch, capsys):
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    options.warn_if_busy()
    told = capsys.readouterr().err
    assert says in told and bool(told) == bool(says)


def test_a_large_error_of_a_prediction_is_a_factor():
    assert (reporter._error(0.123), reporter._error(145.11)) == ("+12.3 %", "146 times")
