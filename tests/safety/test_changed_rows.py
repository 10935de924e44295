"""Databases with the catalog of a load and rows that no load writes: an answer or one line."""

import io
import random
import shutil

import duckdb
import pytest
from click.testing import CliRunner

import tracekit
from tests.conftest import OWN_TRACES
from tracekit.commands import cli
from tracekit.errors import TracekitError

TRACE = OWN_TRACES / "simulated-overhead-bound.json.gz"
COMMANDS = (
    ["analyze", "DB", "--json"],
    ["annotate", "DB", "-o", "OUT.json"],
    ["whatif", "DB", "host*0.5"],
    ["advise", "DB"],
    ["export", "DB", "-o", "OUT.json"],
    ["query", "DB", "health"],
)
# New values for a column, by the beginning of its type.
VALUES = {
    "INTEGER": ["NULL", "99", "-1", "0", "2147483647"],
    "BIGINT": ["NULL", "99", "-1", "0", "{column} + 1", "1000000000000", "9223372036854775807"],
    "UTINYINT": ["NULL", "0", "255"],
    "UBIGINT": ["NULL", "0", "18446744073709551615"],
    "BLOB": ["NULL"],
    "JSON": ["NULL", "'{{}}'", "'[]'", "'3'", "'{{\"a\": null}}'"],
    "VARCHAR": ["NULL", "''", "'x'", "'1'"],
    "ENUM": ["NULL", "enum_first(NULL::{type})", "enum_last(NULL::{type})"],
    "BOOLEAN": ["NULL", "NOT {column}"],
    "DOUBLE": ["NULL", "-1", "'nan'"],
    "MAP": ["NULL", "MAP {{}}"],
}
# For each change, a table that then contradicts others.
REFUSED = {
    "INSERT INTO thread_segment SELECT * FROM thread_segment LIMIT 2000": "thread_segment",
    "DELETE FROM thread_segment WHERE segment = 3": "thread_segment",
    "UPDATE thread_segment SET thread = 9": "thread_segment",
    "UPDATE thread_segment SET event_id = 1000000000000": "thread_segment",
    "UPDATE thread_segment SET end_ns = NULL WHERE segment = 3": "thread_segment",
    "UPDATE thread_segment SET start_ns = end_ns, end_ns = start_ns": "thread_segment",
    "UPDATE thread_slice SET parent_id = -3": "thread_slice",
    "UPDATE thread_slice SET thread = NULL WHERE depth = 1": "thread_slice",
    "UPDATE host_thread SET trace_id = 7": "host_thread",
    "INSERT INTO host_thread FROM host_thread": "host_thread",
    "UPDATE host_thread SET end_ns = 9223372036854775807": "thread_segment",
    "DELETE FROM event_row WHERE event_id = 3": "event_row",
    "INSERT INTO event_row FROM event_row": "event_row",
    "UPDATE event_row SET event_id = 9223372036854775807 WHERE event_id = 3": "event_row",
    "UPDATE event_row SET label_id = 5": "event_row",
    "UPDATE trace SET trace_id = 3": "event_row",
    "UPDATE trace SET events = events + 1": "event_row",
    "DELETE FROM trace": "event_row",
    "INSERT INTO label FROM label": "label",
    "UPDATE label SET label_id = NULL": "label",
    "UPDATE slice_label SET label_id = 5": "slice_label",
    "INSERT INTO slice_label FROM slice_label": "slice_label",
    "UPDATE gpu_ops SET event_id = 1000000000000": "gpu_ops",
    "UPDATE gpu_ops SET launch_id = -1": "gpu_ops",
    "UPDATE gpu_timeline SET host_event_id = 1000000000000": "gpu_timeline",
    "UPDATE thread_slice SET module_id = 1000000000000": "thread_slice",
    "UPDATE windows SET trace_id = 2": "windows",
    "INSERT INTO trace_span FROM trace_span": "trace_span",
}


@pytest.fixture
def changed(judged, tmp_path):
    """Makes a copy with changed rows."""

    def make(statement):
        path = tmp_path / "changed.duckdb"
        shutil.copy(judged, path)
        with duckdb.connect(str(path)) as connection:
            connection.execute(statement)
        return path

    return make


@pytest.mark.sampled(2)
@pytest.mark.parametrize("statement", REFUSED)
def test_rows_that_would_mislead_the_code_are_refused_on_opening(changed, statement):
    path = changed(statement)
    with pytest.raises(TracekitError) as refused:
        tracekit.open_database(path)
    assert f"{path}: its rows contradict each other (" in str(refused.value)
    assert str(refused.value).endswith("): load the trace again")
    assert REFUSED[statement] in str(refused.value)


def test_only_errors_of_tracekits_own_code_are_blamed_on_rows(changed):
    path = changed("UPDATE gpu_ops SET device_id = device_id + 1")
    said = f"{path}: its rows contradict each other, or tracekit has a bug (KeyError: 0): "
    with pytest.raises(TracekitError) as raised, tracekit.open_database(path) as run:
        run.verdicts(window="all")
    assert str(raised.value) == f"{said}load its traces again"
    assert isinstance(raised.value.__cause__, KeyError)
    # A user's errors stay as they are, and those of users who call tracekit wrongly.
    errors = (
        IndexError("own"), KeyError("own"), duckdb.IOException("own"), TracekitError("said"),
        KeyboardInterrupt(), OSError("disk"), io.UnsupportedOperation("closed"),
    )  # fmt: skip
    for error in errors:
        with pytest.raises(type(error)) as raised, tracekit.open_database(path) as run:
            # They are raised at once: the file is not read again.
            path.rename(path.with_name("away"))
            raise error
        path.with_name("away").rename(path)
        assert raised.value is error
    calls = (
        lambda run: run.no_such_question, lambda run: run.plot.no_such_figure,
        lambda run: tracekit.no_such_name, lambda run: run.top_kernels(1, 2, 3),
        lambda run: run.session.memoized(0, io.BytesIO().fileno),
    )  # fmt: skip
    for call in calls:
        kinds = (AttributeError, TypeError, OSError)
        with pytest.raises(kinds), tracekit.open_database(path) as run:
            call(run)


@pytest.mark.slow
@pytest.mark.sampled(60)
@pytest.mark.parametrize("number", range(180))
def test_a_database_with_changed_rows_gives_an_answer_or_one_line(
    judged, changed, tmp_path, number
):
    chance = random.Random(number)
    with duckdb.connect(str(judged), read_only=True) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
            " AND table_name IN (SELECT table_name FROM duckdb_tables()) ORDER BY ALL"
        ).fetchall()
    table, column, kind = chance.choice(columns)
    where = chance.choice(["", " WHERE rowid % 3 = 1"])
    (values,) = (found for name, found in VALUES.items() if kind.startswith(name))
    value = chance.choice(values).format(column=column, type=kind)
    statement = chance.choice(
        [f"UPDATE {table} SET {column} = {value}{where}"] * 4
        + [f"INSERT INTO {table} FROM {table} LIMIT 2000", f"DELETE FROM {table}{where}"]
    )
    try:
        path = changed(statement)
    except duckdb.ConstraintException:
        return
    arguments = [
        str({"DB": path, "OUT.json": tmp_path / "out.json"}.get(each, each))
        for each in chance.choice(COMMANDS)
    ]
    done = CliRunner().invoke(cli, arguments)
    if done.exception is not None:
        assert isinstance(done.exception, TracekitError), (statement, arguments)
        assert len(str(done.exception)) < 1000


def test_an_internal_error_of_duckdb_is_one_line(judged):
    stack = (
        "INTERNAL Error: Attempted to access index 3\n\nStack Trace:\n" + "/usr/lib/x(+1)\n" * 99
    )

    def fail(cursor):
        raise duckdb.InternalException(stack)

    with tracekit.open_database(judged) as database, pytest.raises(TracekitError) as raised:
        database.stream("SELECT 1", {}, fail)
    assert str(raised.value) == "SQL: INTERNAL Error: Attempted to access index 3"
