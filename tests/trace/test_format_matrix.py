"""docs/howto/other-profilers.md: what each format tells, held against files of it."""

import pickle
import re
from pathlib import Path

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit.json_forms import FORMS
from tests.kit.snapshots import snapshot, trained
from tests.trace import test_formats, test_xplane
from tests.trace.test_ascend import ascend_view

PAGE = Path(__file__).parents[2] / "docs/howto/other-profilers.md"
DATA = Path(__file__).parents[1] / "data"
SHARED = [SHARED_TRACES / "other", SHARED_TRACES / "forms", DATA / "jax"]
COLUMNS = ("operators", "launches", "device ops", "copies", "graphs", "counters", "memory",
           "ranges", "Python", "verdict")  # fmt: skip
MADE = {"tpu.xplane.pb": test_xplane.TPU, "tensorflow.xplane.pb": test_xplane.TENSORFLOW}
# Files of each format; a name without an ending is a case of test_formats.
FILES = {
    "torch.profiler": ["simulated-program-23.json.gz", "cpu-mlp-eager.json.gz",
                       "simulated-input-bound.json.gz"],
    "PyTorch's `.pftrace`": ["simulated-program-30.pftrace"],
    "memory snapshot": ["s.pickle"],
    "Nsight Systems": ["left_out", "host_and_memory", "h100-two-gpus.nsys.sqlite"],
    "rocprofv3, rocpd": ["rocprof", "rocpd4"],
    "XPlane": ["xplane", "tpu.xplane.pb", "tensorflow.xplane.pb",
               "jax-te-attention.xplane.pb"],
    "JAX's `.trace.json.gz`": ["jax-cpu-step.trace.json.gz", "jax.json", "jax-trace-json.json.gz"],
    "Ascend": ["ascend.json", "ascend-trace-view.json.gz"],
    "Ascend's database": ["ascend_db", "ascend-trace-view.db"],
    "Proton, time line": ["proton.json", "streams.chrome_trace"],
    "Proton, tree": ["tree.hatchet"],
    "autograd profiler": ["autograd.json"],
    "TensorFlow 1": ["tensorflow.json"],
    "torch.compile's events": ["begin_end.json"],
    "VizTracer": ["viztracer.json"],
}  # fmt: skip
_FOUND = """
    SELECT bool_or(kind = 'cpu_op'), (SELECT count(*) > 0 FROM launch_call),
           (SELECT count(*) > 0 FROM gpu_ops), bool_or(kind = 'memcpy'),
           bool_or(call = 'launch_graph') OR bool_or(name LIKE 'CUDA graph %'),
           (SELECT count(*) > 0 FROM label WHERE phase = 'C') OR bool_or(kind = 'counter_range'),
           (SELECT count(*) > 0 FROM allocation), bool_or(kind = 'annotation'),
           bool_or(kind = 'python')
    FROM slice_label"""


def path_of(name, folder):
    if name in FORMS:
        (folder / name).write_bytes(FORMS[name])
    elif name == "s.pickle":
        (folder / name).write_bytes(pickle.dumps(snapshot(trained(2))))
    elif name in MADE:
        (folder / name).write_bytes(MADE[name])
    elif name == "ascend-trace-view.db":
        return ascend_view(folder / name)
    elif name in test_formats.FILES:
        return test_formats.write(folder, name)
    else:
        return next(each / name for each in (DATA, *SHARED) if (each / name).exists())
    return folder / name


def cells():
    """The table's cells, by format and column."""
    rows = re.findall(r"^\| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    table = [row.split(" | ") for row in rows]
    start = next(n for n, row in enumerate(table) if row[1:] == list(COLUMNS))
    found = {row[0]: row[1:] for row in table[start + 1 :] if len(row) == len(COLUMNS) + 1}
    return {name: dict(zip(COLUMNS, row, strict=True)) for name, row in found.items()}


def test_each_format_has_a_row():
    assert list(cells()) == list(FILES)


@pytest.mark.skipif(not SHARED_TRACES.exists(), reason=f"{SHARED_TRACES} is not there")
@pytest.mark.parametrize("name", FILES)
def test_a_format_tells_what_its_row_says(name, tmp_path):
    told = dict.fromkeys(COLUMNS, False)
    for number, each in enumerate(FILES[name]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with tracekit.load(path_of(each, folder)) as run:
            (found,) = run.fetch(_FOUND)[1]
            verdict = run.verdict(run.trace_ids()[0])
            seen = [*found, verdict.verdict.regime != "unknown" or verdict.memory is not None]
        told = {
            column: told[column] or bool(has) for column, has in zip(COLUMNS, seen, strict=True)
        }
    assert {column: cell != "-" for column, cell in cells()[name].items()} == told
