"""Databases of other profilers: what they tell does not depend on the order of their rows, which
nsys 2025.6 and later leave as it is."""

import random
import sqlite3

import pytest

import tracekit
from tests.conftest import SHARED_TRACES
from tests.kit.ascend_simulated import ascend
from tests.kit.other_formats import rocpd
from tests.trace.test_nsys import collective, host_and_memory, host_functions, report, two_processes

REAL = SHARED_TRACES / "other/h100-two-gpus.nsys.sqlite"


def shuffled(database, to):
    """The same tables with their rows in another order."""
    to.write_bytes(database.read_bytes())
    choose = random.Random(7)
    with sqlite3.connect(to) as made:
        tables = made.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            rows = made.execute(f"SELECT * FROM {table}").fetchall()
            choose.shuffle(rows)
            made.execute(f"DELETE FROM {table}")
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                made.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    made.close()
    return to


def told(path):
    """What a database tells, without the places of its events."""
    asked = (
        "* EXCLUDE (event_id) FROM event",
        "trace_id, name, start_ns, stream, launch_name, cpu_op FROM gpu_op_origin",
        "* FROM window_partition",
    )
    with tracekit.load(path) as run:
        rows = [run.fetch(f"SELECT {each} ORDER BY ALL")[1] for each in asked]
        return rows, [repr(run.verdict(each).verdict) for each in run.trace_ids()]


@pytest.mark.parametrize("make", [host_functions, host_and_memory, collective, two_processes])
def test_rows_of_a_report_may_be_in_any_order(make, tmp_path):
    path = report(tmp_path, make)
    assert told(shuffled(path, tmp_path / "shuffled.sqlite")) == told(path)


@pytest.mark.parametrize("make", [ascend, rocpd])
def test_rows_of_other_databases_may_be_in_any_order(make, tmp_path):
    path = make(tmp_path / "whole.db")
    assert told(shuffled(path, tmp_path / "shuffled.db")) == told(path)


@pytest.mark.skipif(not REAL.exists(), reason=f"{REAL} is not there")
def test_rows_of_a_real_report_may_be_in_any_order(tmp_path):
    assert told(shuffled(REAL, tmp_path / "shuffled.sqlite")) == told(REAL)
