"""The traces of tests/data can be made again, and match their names."""

import gzip
import re
from pathlib import Path

import pytest

import tracekit
from tests.conftest import GPU_TRACES, OWN_TRACES
from tests.data import make
from tests.kit.traces import document
from tracekit.capture.workload import capture


def operators(database) -> list[tuple]:
    """How often each operator is called."""
    return database.fetch("SELECT name, count(*) FROM cpu_ops GROUP BY ALL ORDER BY 1")[1]


def test_every_trace_is_made_by_the_program_and_small():
    names = {name for name, _, _ in make.simulated()} | make.CAPTURED.keys()
    found = {path.name: path.stat().st_size for path in OWN_TRACES.glob("*.json.gz")}
    assert found.keys() == names
    assert max(found.values()) < 100_000


def test_simulated_traces_are_the_same_when_made_again(tmp_path):
    for made in make.write_simulated(tmp_path):
        known = OWN_TRACES / made.name
        assert gzip.decompress(made.read_bytes()) == gzip.decompress(known.read_bytes())


@pytest.mark.thorough
@pytest.mark.parametrize("name", make.CAPTURED)
def test_captured_traces_call_the_same_operators_when_made_again(name, run, tmp_path):
    done = run("capture", *make.CAPTURED[name], "-o", name)
    assert done.returncode == 0, done.stderr
    ours, theirs = (document(folder / name)["tracekit"] for folder in (tmp_path, OWN_TRACES))
    assert ours["parameters"] == theirs["parameters"]
    if ours["torch"] != theirs["torch"]:
        pytest.skip(f"made with PyTorch {theirs['torch']}: another calls other operators")
    with tracekit.load(tmp_path / name) as again, tracekit.load(OWN_TRACES / name) as before:
        assert operators(again) == operators(before)


def test_the_demo_is_a_capture_of_the_gpu():
    demo = Path(tracekit.__file__).with_name("demo.json.gz")
    captured = (GPU_TRACES / f"{name}.json.gz" for name in ("demo", "train-step-small"))
    assert demo.read_bytes() == next(each for each in captured if each.exists()).read_bytes()


@pytest.mark.thorough
def test_a_capture_of_the_demos_program_has_lines_and_modules_and_becomes_the_demo(tmp_path):
    pytest.importorskip("torch")
    from tests.bench import gpu_first

    name, called, options = next(iter(gpu_first._wanted("cpu")))
    capture(name, tmp_path / "made.json.gz", options)
    make.put_demo(tmp_path / "made.json.gz", [tmp_path])
    text = gzip.decompress((tmp_path / f"{called}.json.gz").read_bytes()).decode()
    assert '"host": "host"' in text
    assert not re.search(r'"/(root|home|tmp|opt|work|Users)\b', text)
    with tracekit.load(tmp_path / f"{called}.json.gz") as run:
        assert "Block_1" in run.query("module_time")["module"].to_list()
        places = run.sql("SELECT name FROM python_frames")["name"].to_list()
    assert any(re.fullmatch(r"examples/transformer\.py\(\d+\): step", each) for each in places)


def test_no_captured_trace_says_where_it_was_made():
    paths = [*map(OWN_TRACES.joinpath, make.CAPTURED), *GPU_TRACES.rglob("*.json.gz")]
    assert len(paths) > 40
    for path in paths:
        text = gzip.decompress(path.read_bytes()).decode()
        assert re.search(r'"host(_name)?": "host"', text), path
        assert not re.search(r'"/(root|home|tmp|opt|work|Users)\b', text), path
