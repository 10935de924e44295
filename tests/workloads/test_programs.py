"""The twenty programs of `make gpu-check`: that they run, and how their results are judged."""

import csv
import shutil
from pathlib import Path

import pytest

from tests.bench import counted_kernels, gpu_check
from tests.bench.faults import Tried
from tests.bench.measuring import Cost
from tests.bench.programs import JITTED, NAMES, judge
from tests.bench.programs.measure import Change, Measured, measure, recording
from tests.bench.programs.registry import Sized, all_programs
from tests.conftest import GPU_TRACES
from tests.kit.sampling import sample
from tests.kit.traces import launched, operator, slice_event, write
from tracekit.database.remedies import all_remedies
from tracekit.experiments.timing import Rounds

torch = pytest.importorskip("torch")

PROGRAMS = all_programs()
TRIED = sample("programs as users write them", [*PROGRAMS], [*PROGRAMS][2::6])
SYNC, GRAPH = "generate-with-a-dynamic-cache", "many-small-kernels"


@pytest.fixture
def one_thread():
    """Tiny work is slower on several threads. A process group ends with its test."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


# -- the programs ----------------------------------------------------------------------------------


def test_every_program_is_named_and_its_changes_are_remedies():
    assert (*PROGRAMS, JITTED) == NAMES
    assert len(NAMES) == 20
    remedies = {change.remedy for each in PROGRAMS.values() for change in each.changes.values()}
    assert remedies <= {each.name for each in all_remedies().values()}
    assert all(each.changes and each.about for each in PROGRAMS.values())


def test_each_is_a_task_with_a_limit_of_its_own(tmp_path):
    tasks = gpu_check.tasks("programs", "cuda", tmp_path)
    assert [each.name for each in tasks] == [*NAMES, "proton", "cupti"]
    assert {each.limit_s for each in tasks[:20]} == {gpu_check.PROGRAM_S}


@pytest.mark.parametrize("name", TRIED)
def test_a_program_runs_as_it_is_written_and_with_each_change(name, one_thread):
    make = Sized(torch.device("cpu"))
    for switch in (None, *PROGRAMS[name].changes):
        step = PROGRAMS[name].build(make, switch)
        step()
        step()


@pytest.mark.thorough
def test_a_measured_program_is_recorded_once_and_its_changes_are_timed_once(tmp_path, one_thread):
    name, cpu = "benchmark-loop-with-one-sync", torch.device("cpu")
    assert measure(name, cpu, tmp_path) == 0
    found = Measured.read(tmp_path / f"{name}.json")
    assert {*found.changes} == {*PROGRAMS[name].changes}
    assert not any(each.failed for each in found.changes.values())
    kinds = ("plain", "shapes", "memory", "stacks", "unmarked")
    made = {kind: recording(tmp_path / name, kind).stat().st_mtime_ns for kind in kinds}
    (tmp_path / recording(tmp_path / name, "shapes")).unlink()
    del found.changes["fused"]
    found.write(tmp_path)
    assert measure(name, cpu, tmp_path) == 0
    again = Measured.read(tmp_path / f"{name}.json")
    assert again.changes["compiled"] == found.changes["compiled"]
    assert again.changes["fused"].after
    renewed = [k for k in kinds if recording(tmp_path / name, k).stat().st_mtime_ns != made[k]]
    assert renewed == ["shapes"]


# -- judging ---------------------------------------------------------------------------------------


def timed(ns: int) -> Rounds:
    return Rounds(step_ns=[ns] * 5, host_ns=[ns] * 5)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Made-up times, with recordings of programs whose promises are known."""
    for name, trace in ((SYNC, "values-read-in-the-loop"), (GRAPH, "many-small-kernels")):
        for kind in ("plain", "shapes", "memory", "stacks", "unmarked"):
            shutil.copy(
                GPU_TRACES / "faults" / f"{trace}.json.gz", recording(tmp_path / name, kind)
            )
        found = Measured(name, "", "made up", "nothing", 8)
        remedy = "sync-by-line" if name == SYNC else "cuda-graph"
        found.changes["changed"] = Change(remedy, 1, timed(1000), timed(640))
        # Eight times as many samples in twice the time.
        found.changes["larger"] = Change("larger-batch", 8, timed(1000), timed(2000))
        found.changes["compiled"] = Change("torch-compile", 1, failed="no compiler")
        found.write(tmp_path)
    return tmp_path


def test_only_marked_programs_are_compared(results, monkeypatch):
    said = Cost(0, 0, 0, "overhead-bound")
    monkeypatch.setattr(judge, "measured", lambda *_: said)
    path = judge.screens(results)
    with path.open(newline="") as file:
        rows = [*csv.reader(file)]
    assert rows == [["program", "right", "why"], [SYNC, "", ""], [GRAPH, "", ""]]
    assert (results / "screens" / f"{GRAPH}.txt").read_text() == "overhead-bound"
    unmarked = f"not marked in {path} yet: {SYNC}, {GRAPH}\n"
    monkeypatch.setattr(judge, "NAMES", (SYNC, GRAPH, "recurrent-net"))
    Measured("recurrent-net", "", "", "", 3, failed={"as written": "no memory"}).write(results)
    missing = "- recurrent-net is not recorded: no memory"
    assert [*judge.table(results, [], even_unmarked=False)] == [missing, unmarked]
    path.write_text(f"program,right,why\n{SYNC},yes,it waits\n")
    # Writing screens again keeps the marks.
    judge.screens(results)
    for each in ("changes", "recorders", "units"):
        monkeypatch.setattr(judge, each, lambda *given: [x.name for x in given[1]])
    assert [*judge.table(results, [], even_unmarked=False)][1:] == [
        f"not marked in {path} yet: {GRAPH}\n", "measured on made up, nothing\n",
        "first screens: 1 of 1 right\n", SYNC, "", SYNC, "", SYNC,
    ]  # fmt: skip
    assert GRAPH in [*judge.table(results, [], even_unmarked=True)]


def test_promises_stand_beside_what_was_observed(results):
    other = Tried("another fault", "x 30%", 0.30, 1, None, 0.20, 1.0)
    rows = [*judge.changes(results, judge.results(results)[1:], [other])]
    cells = {row.split(" | ")[0].removeprefix("| "): row.split(" | ") for row in rows[2:]}
    _, first, promised, place, _, observed, error = cells[f"{GRAPH}, changed: cuda-graph"]
    assert first == f"cuda-graph {float(promised[:-1]):.0f}%"
    assert (place, observed) == ("1", "36.0%")
    assert error == f"{float(promised[:-1]) - 36:+.1f} points |"
    assert cells[f"{GRAPH}, larger: larger-batch"][5] == "75.0%"
    assert cells[f"{GRAPH}, compiled: torch-compile"][1] == "no compiler"
    assert cells["another fault"][6] == "+10.0 points |"
    assert any(row.startswith("- among the worst: many-small-kernels, changed") for row in rows)


def test_errors_are_in_points_and_in_shares_of_the_saving():
    tried = [Tried(f"fault {n}", "x", 0.5 + n / 100, 1, None, 0.5, 1.0) for n in (-2, 0, 2, 4, 20)]
    assert [*judge.errors("all", tried)] == [
        "- all: 5; median error 2.0 points (4% of the saving), nine of ten within 13.6 points "
        "(27%); targets 10% and 20%: missed"
    ]
    (said,) = judge.errors("all", tried[:4])
    assert said.endswith(": met")
    assert [*judge.errors("all", tried[:1])] == ["- all: 1"]


def test_the_recorders_cost_and_units_without_marks_are_tabled(results):
    for kind in ("plain", "shapes", "memory", "stacks", "unmarked"):
        shutil.copy(GPU_TRACES / "train-step-small.json.gz", recording(results / SYNC, kind))
    found = judge.results(results)[:1]
    rows = [*judge.recorders(results, found)]
    assert rows[2].startswith(f"| {SYNC} | ")
    assert rows[-1].startswith("- stacks, estimated over measured: 1: ")
    (cells,) = [row.split(" | ") for row in judge.units(results, found)][2:]
    # The recording without marks, which here has them, counts as it is.
    assert (*cells[1:3], *cells[5:7]) == ("5", "5", "100%", "5")


# -- counted kernels -------------------------------------------------------------------------------


def test_work_by_shapes_stands_beside_counters(tmp_path):
    # 3 x 4 MB in 10 us; the counters say 10 % more, in 20 us.
    shapes, types = [[1024, 1024], [1024, 1024], []], ["float", "float", "Scalar"]
    events = [
        slice_event("user_annotation", "add in fp32", 0, 100),
        *launched([operator("aten::add", 5, 50, shapes, types)], 10, 30, 10, 1),
    ]
    packed = write(tmp_path / "kernels.json", events)
    shutil.move(packed, tmp_path / "kernels.json.gz")
    moved = 3 * 4 * (1 << 20)
    names = ("ID", "Kernel Name", counted_kernels.BYTES, counted_kernels.TIME)
    rows = (names, ("", "", "byte", "ns"), ("0", "add", f"{round(1.1 * moved):,}", "20000"))
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    (tmp_path / "kernels-ncu.csv").write_text(f"==PROF== Connected\n{text}\n")
    table = [*counted_kernels.table(tmp_path)]
    assert table[2].startswith("| add in fp32 | exactly | 1,258.3 | 692.1 | -9.1% | ")
    assert table[-1] == "\n- bytes within 5% of the counters: 0 of 1 known exactly"
    (tmp_path / "kernels-ncu.csv").unlink()
    assert [*counted_kernels.table(tmp_path)] == [
        "1 kernels are recorded and 0 counted: not comparable"
    ]


def test_twenty_kernels_are_counted(one_thread):
    calls = [(name, call()) for name, call in counted_kernels.calls(Sized(torch.device("cpu")))]
    assert len({name for name, _ in calls}) == len(calls) == 20
