"""Questions about threads that share the interpreter."""

import pytest

from tests.conftest import trace_file
from tests.kit import traces
from tests.kit.traces import frame, gpu_op, launch, recorded


def test_python_of_several_threads_is_contested_where_it_overlaps(tmp_path):
    events = [
        gpu_op(0, 10, 9),
        frame("train.py(1): step", 0, 100),
        launch(60, 5, 1),
        gpu_op(70, 10, 1),
        frame("loader.py(3): decode", 40, 50) | {"tid": 7},
        frame("threading.py(359): wait", 120, 10) | {"tid": 7},
        frame("other.py(1): process", 0, 100) | {"pid": 5, "tid": 8},
    ]
    with traces.load(tmp_path, events) as run:
        rows = {row["tid"]: row for row in run.ask("python_threads")}
    main, loader, other = rows[100], rows[7], rows[8]
    assert (main["launches"], main["python_ns"], main["contested_ns"]) == (1, 95_000, 45_000)
    assert (loader["launches"], loader["python_ns"], loader["contested_ns"]) == (0, 60_000, 45_000)
    # The device waited for Python from 10 to 60 us.
    assert (main["gpu_idle_ns"], loader["gpu_idle_ns"]) == (50_000, 20_000)
    assert (loader["top_frame"], loader["top_frame_ns"]) == ("loader.py(3): decode", 50_000)
    assert (other["contested_ns"], other["gpu_idle_ns"]) == (0, 0)


@pytest.mark.parametrize("name", ["mi300x-resnet-checkpoint"])
def test_contested_time_is_that_of_the_recorded_frames(name, shared_database):
    """Autograd's thread runs Python only while the main thread is in run_backward."""
    first, second = shared_database(f"{name}.json.gz").ask("python_threads")
    outer = [
        e for e in recorded(trace_file(f"{name}.json.gz"))
        if e["cat"] == "python_function" and "run_backward" in e["name"]
    ]  # fmt: skip
    assert {e["tid"] for e in outer} == {second["tid"]}
    assert first["contested_ns"] == second["contested_ns"] == first["python_ns"]
    assert second["contested_ns"] < sum(e["end"] - e["begin"] for e in outer)
    assert "run_backward" in second["top_frame"]
