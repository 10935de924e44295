"""Cases that remedies for the host leave alone, and faults that no control plants."""

from typing import Any

import pytest

import tracekit
from tests.kit.atoms import MS, US, Call, Fetch, Launch, Sync, Work, line, operator, step
from tests.kit.simulated import write
from tests.kit.simulator import Simulation

OPS = [operator("aten::mm", 12 * US, Launch(4 * US, (("math", 10 * US),)))] * 12


def rows(query: str, atoms: list[Any], folder) -> list[dict[str, Any]]:
    with tracekit.load(write(folder / "trace.json", Simulation(atoms))) as run:
        return run.ask(query)


def test_batches_loaded_in_frames_without_annotations_are_found(tmp_path):
    fetch = line("torch/utils/data/_utils/fetch.py(47): fetch", Work(MS))
    found = rows(
        "dataloader_workers",
        [line("train.py(9): main", *[step(n, fetch, *OPS) for n in range(3)])],
        tmp_path,
    )
    assert [each["place"] for each in found] == ["train.py(9): main"] * 3
    assert found[0]["detail"] == "6 workers keep up"


@pytest.mark.parametrize("load_us", [100, 5_000])
def test_a_batch_that_was_loaded_in_time_is_no_fault(load_us, tmp_path):
    atoms = [step(n, Fetch(60 * US, load_us * US), Work(400 * US), *OPS) for n in range(4)]
    assert bool(rows("dataloader_prefetch", atoms, tmp_path)) == (load_us > 1_000)


def test_a_synchronization_at_the_end_or_beside_a_capture_is_not_the_loops(tmp_path):
    capture = [Call(f"cudaStream{end}Capture", 5 * US, "runtime") for end in ("Begin", "End")]
    beside = [Sync(3 * US), *capture, Work(30 * MS)]
    assert rows("explicit_synchronize", [*OPS, *beside, *OPS, Sync(3 * US)], tmp_path) == []


def test_the_line_that_prints_a_tensor_reads_the_device(tmp_path):
    sized = operator("aten::masked_select", US, operator("aten::nonzero", US, Sync(3 * US)))
    text = line("torch/_tensor_str.py(640): _str", sized)
    atoms = [line("train.py(9): main", *OPS, text, *OPS)]
    found = rows("sync_by_line", atoms, tmp_path)
    assert [each["place"] for each in found] == ["train.py(9): main"]
    assert found[0]["detail"] == "a tensor is printed"
    assert rows("data_dependent_sizes", atoms, tmp_path) == []


@pytest.mark.parametrize(
    "written",
    [
        "/tmp/torchinductor_me/ab/cabcd.py(310): call",
        "/root/.triton/cache/XYZ/__triton_launcher.py(7): launch",
        "<eval_with_key>.5(4): forward",
    ],
)
def test_nobody_is_told_to_change_what_the_compiler_wrote(written, tmp_path):
    compiled = line(written, *OPS, Work(20 * MS))
    atoms = [line("train.py(9): main", Work(10 * MS), *OPS, compiled, *OPS)]
    places = {each["place"] for each in rows("python_lines", atoms, tmp_path)}
    assert places == {"train.py(9): main"}


def test_memory_that_is_never_freed_belongs_to_the_start(tmp_path):
    new = operator("aten::empty", 3 * US, Call("cudaMalloc", 200 * US, "allocation"))
    assert rows("allocator", [each for op in OPS * 3 for each in (new, op)], tmp_path) == []


def test_collections_that_python_starts_itself_have_no_place(tmp_path):
    atoms = [line("train.py(9): main", *OPS, line("Python GC", Work(MS)), *OPS)]
    assert [each["place"] for each in rows("garbage_collection", atoms, tmp_path)] == [None]


def test_long_stalls_are_no_warm_up(tmp_path):
    names = ("aten::empty", "aten::resize_", "aten::clone")
    atoms = []
    for turn in range(120):
        lost = [Work(9 * MS, "dispatch")] * (turn in (40, 59, 78, 97, 110))
        atoms += [operator(names[turn % 3], 6 * US, *lost), *OPS[:2]]
    with tracekit.load(write(tmp_path / "trace.json", Simulation([*atoms, Sync(US)]))) as run:
        advice = run.advise().advice
    assert "warm-up" not in {each.remedy for each in advice}
    stalls = [each.saves_ns for each in advice if each.remedy == "threads-and-quota"]
    assert sum(stalls) == pytest.approx(5 * 9 * MS, rel=0.1)
