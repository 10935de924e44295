"""The rank of a recording, from the environment or from torch.distributed."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracekit import TracekitError
from tracekit.capture.output import rank_path
from tracekit.capture.profile import profile_script
from tracekit.capture.workload import Options, capture

ALONE = SimpleNamespace(distributed=SimpleNamespace(is_available=lambda: False))
OUTPUT = Path("out/t.json.gz")


def initialized(rank: int, world: int) -> SimpleNamespace:
    return SimpleNamespace(
        distributed=SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            get_rank=lambda: rank,
            get_world_size=lambda: world,
        )
    )


@pytest.fixture
def environment(monkeypatch):
    def set_(rank: str | None, world: str | None) -> None:
        for name, value in (("RANK", rank), ("WORLD_SIZE", world)):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return set_


@pytest.mark.parametrize(
    ("rank", "world", "name"),
    [
        (None, None, "t.json.gz"),
        (None, "1", "t.json.gz"),
        ("0", "1", "t.json.gz"),
        ("0", None, "t.json.gz"),
        ("0", "2", "t.rank0.json.gz"),
        (" 07\n", " 16 ", "t.rank7.json.gz"),
    ],
)
def test_the_name_of_a_file_has_the_rank_if_there_are_several(rank, world, name, environment):
    environment(rank, world)
    assert rank_path(OUTPUT, ALONE) == Path("out") / name


@pytest.mark.parametrize(
    ("rank", "world", "said"),
    [
        ("0", "", "WORLD_SIZE is ''"),
        ("0", "-2", "WORLD_SIZE is '-2'"),
        ("0", "0", "RANK is 0 and WORLD_SIZE is 0"),
        ("0", "2.0", "WORLD_SIZE is '2.0'"),
        ("0", "9" * 5000, "WORLD_SIZE is"),
        ("../../x", "2", "RANK is '../../x'"),
        ("-1", "2", "RANK is '-1'"),
        ("\u0661", "2", "RANK is"),
        ("1_0", "20", "RANK is '1_0'"),
        ("2", "2", "RANK is 2 and WORLD_SIZE is 2"),
        ("3", None, "RANK is 3 and WORLD_SIZE is 1"),
        (None, "2", "WORLD_SIZE is 2, but RANK is not set"),
    ],
)
def test_an_environment_without_sense_is_refused(rank, world, said, environment):
    environment(rank, world)
    with pytest.raises(TracekitError, match=f"^{re.escape(said)}") as refused:
        rank_path(OUTPUT, ALONE)
    assert len(str(refused.value)) < 200


def test_ranks_of_torch_distributed_come_before_the_environment(environment):
    environment("../../x", "abc")
    assert rank_path(OUTPUT, initialized(1, 2)) == Path("out/t.rank1.json.gz")
    assert rank_path(OUTPUT, initialized(0, 1)) == OUTPUT
    # torch returns this rank in a process outside of every group.
    with pytest.raises(TracekitError, match="RANK is -1"):
        rank_path(OUTPUT, initialized(-1, -1))


def test_scripts_and_steps_are_recorded_under_their_rank(tmp_path, environment, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    sizes = {"batch": 1, "seq": 2, "dim": 4, "hidden": 4}
    options = Options(device="cpu", warmup=0, active=1, **sizes)
    environment("1", "2")
    assert capture("linear", "t.json.gz", options).path == "t.rank1.json.gz"
    (tmp_path / "s.py").write_text("open('ran', 'w')")
    environment("../x", "2")
    for record in (
        lambda: capture("linear", "t.json.gz", options),
        lambda: profile_script("s.py", (), "t.json.gz"),
    ):
        with pytest.raises(TracekitError, match=r"RANK is '\.\./x' in the environment"):
            record()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["s.py", "t.rank1.json.gz"]
