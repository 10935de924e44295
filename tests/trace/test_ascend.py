"""Databases of torch_npu and msprof: what is left of them without a table, a column or a key."""

import gzip
import json
import sqlite3
import sys

import pytest

import tracekit
from tests.kit.ascend_simulated import BEGIN, COLUMNS, ascend, of_timeline
from tests.kit.json_forms import FORMS
from tests.kit.processes import ran
from tests.safety.test_fuzz_formats import read
from tests.trace.test_forms import FORMS as SHARED_FORMS
from tests.trace.test_forms import device_time, needs_forms
from tracekit.trace.other.ascend import category_of, input_dims

EVENTS = (
    "SELECT category, name, pid, tid, ts_ns, dur_ns, correlation FROM event WHERE phase = 'X'"
    " ORDER BY ALL"
)
STEPS = "SELECT step, start_ns, dur_ns FROM steps ORDER BY 1"
VIEW = SHARED_FORMS / "ascend-trace-view.json.gz"
OPS = "SELECT name, stream FROM gpu_ops ORDER BY start_ns"
FOUR = [("MatMulV2", 2), ("Memcpy HtoD", 3), ("Add", 2), ("hcom_allReduce__428_0_1", 9)]


def loaded(tmp_path, *statements):
    return tracekit.load(ascend(tmp_path / "msprof_20261201.db", *statements), verdicts=False)


def ascend_view(path):
    """A database with the events of a timeline of torch_npu's."""
    return of_timeline(path, json.loads(gzip.decompress(VIEW.read_bytes())))


@needs_forms
def test_a_database_and_a_timeline_of_the_same_events_say_the_same(tmp_path):
    found = []
    for path in (VIEW, ascend_view(tmp_path / "ascend_pytorch_profiler_0.db")):
        with tracekit.load(path) as run:
            verdict = run.verdict().verdict
            ops = "SELECT kind, name, start_ns, dur_ns, device_id, stream, launch_name FROM gpu_ops"
            (window,) = run.ask("partition", kind="gpu_active")
            found.append(
                [device_time(run), window, verdict.regime, verdict.bottleneck,
                 sorted(run.fetch(ops)[1]), run.fetch(STEPS)[1]]
            )  # fmt: skip
    assert found[0] == found[1]
    assert found[1][0] == (79, 5_248_000, 632_000) and found[1][2] == "overhead-bound"


@pytest.mark.parametrize(
    ("statement", "ops"),
    [
        ("DROP TABLE PYTORCH_API", FOUR),
        ("DROP TABLE CANN_API", FOUR),
        ("DROP TABLE COMPUTE_TASK_INFO", None),
        # The call tells which tasks are a collective's; which is the main one is unknown.
        ("DROP TABLE COMMUNICATION_TASK_INFO", [*FOUR[:3], (FOUR[3][0], 9)]),
        ("DROP TABLE MEMCPY_INFO", [FOUR[0], ("MEMCPY_ASYNC", 3), *FOUR[2:]]),
        ("DROP TABLE TASK", [(FOUR[3][0], None)]),
        ("DELETE FROM TASK WHERE connectionId = 13", [*FOUR[:3], (FOUR[3][0], None)]),
        ("ALTER TABLE COMMUNICATION_OP DROP COLUMN deviceId", FOUR),
        ("UPDATE TASK SET startNs = NULL, endNs = 'x' WHERE globalTaskId = 2",
         [FOUR[0], FOUR[1], FOUR[3]]),
        ("UPDATE TASK SET startNs = 'x' WHERE globalTaskId = 2", [FOUR[0], FOUR[1], FOUR[3]]),
        ("UPDATE MEMCPY_INFO SET memcpyOperation = 65535",
         [FOUR[0], ("MEMCPY_ASYNC", 3), *FOUR[2:]]),
    ],
)  # fmt: skip
def test_without_a_part_the_rest_is_read(statement, ops, tmp_path):
    if ops is None:
        ops = [("AI_CORE", 2), FOUR[1], ("AI_VECTOR_CORE", 2), FOUR[3]]
    with loaded(tmp_path, statement) as run:
        assert run.fetch(OPS)[1] == [(name, stream or 0) for name, stream in ops]


@pytest.mark.parametrize("table", ["TASK", "PYTORCH_API", "CANN_API", "COMMUNICATION_OP"])
def test_times_that_are_texts_are_exact(table, tmp_path):
    """MindStudio Insight declares the times of PYTORCH_API as texts."""
    (tmp_path / "texts").mkdir()
    texts = [
        f"ALTER TABLE {table} RENAME COLUMN {name} TO old_{name}" for name in ("startNs", "endNs")
    ]
    texts += [f"ALTER TABLE {table} ADD COLUMN {name} TEXT" for name in ("startNs", "endNs")]
    texts += [f"UPDATE {table} SET startNs = old_startNs, endNs = old_endNs"]
    with loaded(tmp_path) as run, loaded(tmp_path / "texts", *texts) as same:
        assert same.fetch(EVENTS)[1] == run.fetch(EVENTS)[1]


def test_texts_without_a_key_have_one_meaning(tmp_path):
    (tmp_path / "bare").mkdir()
    bare = [
        "CREATE TABLE bare (id INTEGER, value TEXT)",
        "INSERT INTO bare SELECT * FROM STRING_IDS UNION ALL SELECT id, value FROM STRING_IDS",
        "DROP TABLE STRING_IDS",
        "ALTER TABLE bare RENAME TO STRING_IDS",
    ]
    with loaded(tmp_path) as run, loaded(tmp_path / "bare", *bare) as same:
        assert same.fetch(EVENTS)[1] == run.fetch(EVENTS)[1]


@pytest.mark.parametrize("table", COLUMNS)
def test_any_column_may_be_missing_or_odd(table, tmp_path):
    path = tmp_path / "ascend_pytorch_profiler_0.db"
    for column in COLUMNS[table].split(", "):
        name = column.split()[0]
        odd = ("NULL", "'x'", "x'ff00'", "-1", "9223372036854775807", "1e300")
        for statement in (
            f"ALTER TABLE {table} DROP COLUMN {name}",
            *(f"UPDATE OR IGNORE {table} SET {name} = {value}" for value in odd),
        ):
            path.unlink(missing_ok=True)
            try:
                ascend(path, statement)
            except sqlite3.Error:
                # SQLite keeps a key's column, and its type.
                continue
            read(path)


def test_steps_are_those_of_a_table_where_no_operators_are(tmp_path):
    asked = "SELECT step, start_ns, dur_ns, pid FROM steps"
    with loaded(tmp_path, "DELETE FROM PYTORCH_API") as run:
        assert run.fetch(asked)[1] == [(3, BEGIN, 100_000, 50)]


def test_health_says_which_tables_are_left_out(tmp_path):
    with loaded(tmp_path) as run:
        found = {each["code"]: each for each in run.ask("health")}
    assert found["left_out"]["count"] == 1 and "AICORE_FREQ" in found["left_out"]["message"]


def test_a_database_without_events_or_with_damage_is_refused_in_one_line(tmp_path):
    drops = [f"DROP TABLE {each}" for each in ("PYTORCH_API", "CANN_API", "TASK", "MSTX_EVENTS",
                                               "COMMUNICATION_OP")]  # fmt: skip
    cut = ascend(tmp_path / "ascend_pytorch_profiler_0.db")
    cut.write_bytes(cut.read_bytes()[:40_000])
    for path, reason in (
        (ascend(tmp_path / "analysis.db", *drops), "not from a supported profiler"),
        (cut, "malformed"),
    ):
        done = ran(sys.executable, "-m", "tracekit", "analyze", path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert reason in done.stderr and "Traceback" not in done.stderr


def test_a_timeline_and_a_database_tell_of_inputs_alike(tmp_path):
    text = FORMS["ascend.json"].replace(
        b'"cat": "cpu_op", "args": {}', b'"cat": "cpu_op", "args": {"Input Dims": "4,8;\\r\\n8,16"}'
    )
    (tmp_path / "trace_view.json").write_bytes(text)
    with tracekit.load(tmp_path / "trace_view.json", verdicts=False) as run:
        assert run.fetch("SELECT DISTINCT input_dims FROM cpu_ops")[1] == [("[[4,8],[8,16]]",)]


def test_words_of_tasks_and_shapes():
    for task, category in (
        ("AI_CORE", "kernel"), ("MIX_AIC", "kernel"), ("KERNEL_AICPU", "kernel"),
        ("MEMCPY_ASYNC", "memcpy"), ("SDMA_SQE", "memcpy"), ("PCIE_DMA_SQE", "memcpy"),
        ("EVENT_RECORD_SQE", "sync"), ("Notify Wait", "sync"), ("WRITE_VALUE_SQE", "sync"),
        ("Write Value", "sync"), ("CAPTURE_WAIT", "sync"), ("PLACE_HOLDER_SQE", "sync"),
        ("MODEL_MAINTAINCE", "sync"),
    ):  # fmt: skip
        assert category_of(task) == f"npu_{category}", task
    assert input_dims("4,8;;2") == [[4, 8], [], [2]] and input_dims("") == [[]]
    for odd in ("a", "1,,2", "1 2", "9" * 5_000, ",1"):
        assert input_dims(odd) == odd
