"""Results of `sql` and `query`: every type in every format, streamed, within limits."""

import csv
import io
import json
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import polars
import pytest
from msgspec.structs import replace

import tracekit
from tests.conftest import OWN_TRACES
from tests.kit import hostile
from tests.kit.forking import LIMIT_S
from tests.kit.processes import on_terminal, ran
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Memory
from tracekit.reporters.terminal import fitted
from tracekit.reporters.units import shown
from tracekit.text import printable, printable_lines

TRACEKIT = [sys.executable, "-m", "tracekit"]
# A value of each type as SQL, as text and as JSON.
VALUES = {
    "map": ("MAP {DATE '2020-01-01': 1}", "{2020-01-01=1}", {"2020-01-01": 1}),
    "ns": (
        "TIMESTAMP_NS '2020-01-01 00:00:00.123456789'",
        "2020-01-01 00:00:00.123456789",
        "2020-01-01 00:00:00.123456789",
    ),
    "infinite_date": ("'infinity'::DATE", "infinity", "infinity"),
    "infinite_time": ("'-infinity'::TIMESTAMP", "-infinity", "-infinity"),
    "zone": (
        "TIMESTAMPTZ '2020-01-01 00:00:00+00'",
        "2020-01-01 00:00:00+00",
        "2020-01-01 00:00:00+00",
    ),
    "decimal": ("1.25::DECIMAL(10, 2)", "1.25", 1.25),
    "nan": ("'nan'::DOUBLE", "nan", None),
    "infinity": ("'inf'::FLOAT", "inf", None),
    "nested": ("{'a': ['-inf'::DOUBLE, 1.5], 'b': 'NaN, Infinity'}", None, None),
    "huge": (f"{2**127 - 1}::HUGEINT", f"{2**127 - 1}", 2**127 - 1),
    "unsigned": (f"{2**128 - 1}::UHUGEINT", f"{2**128 - 1}", f"{2**128 - 1}"),
    "bits": ("'101'::BIT", "101", "101"),
    "interval": ("INTERVAL 90 MINUTE", "01:30:00", "01:30:00"),
    "blob": ("'a\\x00'::BLOB", "a\\x00", "a\\x00"),
    "truth": ("TRUE", "true", True),
    "nothing": ("NULL", "", None),
    "text": ("'a,\"b\"' || chr(10) || 'c'", 'a,"b"\nc', 'a,"b"\nc'),
    "uuid": (
        "'5dbc1f6f-9e7b-4c39-8b63-2c43e2e2a3a0'::UUID",
        "5dbc1f6f-9e7b-4c39-8b63-2c43e2e2a3a0",
        "5dbc1f6f-9e7b-4c39-8b63-2c43e2e2a3a0",
    ),
    "union": ("union_value(k := 2)", "2", "2"),
    "json": ("'{\"a\": 1}'::JSON", '{"a": 1}', '{"a": 1}'),
}
QUERY = "SELECT " + ", ".join(f"{sql[0]} AS {name}" for name, sql in VALUES.items())


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return hostile.good(tmp_path_factory.mktemp("rows"))


@pytest.fixture
def folder(good, tmp_path):
    shutil.copy(good, tmp_path)
    return tmp_path


@pytest.fixture
def sql(run, folder):
    return partial(run, "sql", "good.duckdb")


def test_csv_writes_every_type_as_duckdb_does(sql):
    done = sql(QUERY, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout, newline=""))
    for name, (_, text, _) in VALUES.items():
        if text is not None:
            assert row[name] == text, name


def test_json_writes_every_type_and_is_strict(sql):
    done = sql(QUERY, "--format", "json")
    (row,) = json.loads(done.stdout, parse_constant=pytest.fail)
    for name, (_, _, value) in VALUES.items():
        if name != "nested":
            assert row[name] == value, name
    assert row["nested"] == {"a": [None, 1.5], "b": "NaN, Infinity"}


def test_parquet_keeps_every_digit(folder, sql):
    assert sql(QUERY, "--format", "parquet", "-o", "rows.parquet").returncode == 0
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW r AS FROM '{folder / 'rows.parquet'}'")
        names = ("ns", "infinite_date", "zone", "decimal", "huge", "unsigned", "nan", "map")
        texts = connection.execute(f"SELECT {', '.join(f'{n}::VARCHAR' for n in names)} FROM r")
        assert texts.fetchall() == [tuple(VALUES[name][1] for name in names)]


def test_a_table_shows_every_type(sql):
    done = sql(QUERY)
    assert done.returncode == 0
    for name in ("ns", "infinite_date", "zone", "map", "union"):
        assert VALUES[name][1] in done.stdout
    assert "40,000" in sql("SELECT 40000 AS n").stdout


def test_columns_with_the_same_name_get_distinct_names(folder, sql):
    query = "SELECT 1 AS a, 2 AS a, 3 AS A, 4 AS a_1"
    expected = {"a": 1, "a_1": 2, "A_2": 3, "a_1_1": 4}
    assert json.loads(sql(query, "--format", "json").stdout) == [expected]
    assert sql(query, "--format", "csv").stdout == "a,a_1,A_2,a_1_1\n1,2,3,4\n"
    assert sql(query, "--format", "parquet", "-o", "names.parquet").returncode == 0
    assert polars.read_parquet(folder / "names.parquet").to_dicts() == [expected]
    with tracekit.open_database(folder / "good.duckdb") as database:
        assert database.sql(query).to_dicts() == [expected]


def test_an_empty_result_is_valid_in_every_format(folder, sql):
    for form in ("csv", "json", "parquet"):
        done = sql("SELECT 1 AS a WHERE FALSE", "--format", form, "-o", f"none.{form}")
        assert done.returncode == 0
        assert duckdb.sql(f"SELECT count(*) FROM '{folder}/none.{form}'").fetchall() == [(0,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_an_endless_result_stops_when_its_reader_does(form, folder):
    command = f"{' '.join(TRACEKIT)} sql good.duckdb 'FROM range(1e10::BIGINT)' --format {form}"
    done = ran("bash", "-c", f"set -o pipefail; {command} | head -2", cwd=folder)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= (form == "table")


def test_max_rows_limits_the_rows(sql):
    for form in ("table", "csv", "json"):
        done = sql("FROM range(1e10::BIGINT)", "--max-rows", "3", "--format", form)
        assert done.returncode == 0
        assert "the first 3 rows" in done.stderr
        assert done.stdout.count("\n") == {"table": 4, "csv": 4, "json": 5}[form]
    for wrong in (["--max-rows", "0"], ["--timeout", "0"], ["--spill-mb", "-1"]):
        done = sql("SELECT 1", *wrong)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_more_rows_than_the_limit_of_a_file_are_refused(folder, monkeypatch, capsys):
    from tracekit.reporters import rows

    monkeypatch.setattr(rows, "FILE_ROWS", 10)
    with tracekit.open_database(folder / "good.duckdb") as database:
        target = str(folder / "many.csv")
        with pytest.raises(tracekit.TracekitError, match="more than 10 rows: --max-rows"):
            rows.render(database, "FROM range(11)", {}, "csv", target)
        assert not Path(target).exists()
        assert rows.render(database, "FROM range(10)", {}, "csv", target) == 10


SLOW = {
    "recursive": "WITH RECURSIVE r AS (SELECT 1 x UNION ALL SELECT x + 1 FROM r) FROM r WHERE x=0",
    "product": "SELECT sum(a * b) FROM range(1e6::BIGINT) t(a), range(1e6::BIGINT) s(b)",
    "sleep": "SELECT pg_sleep(6000)",
    "sort": "SELECT a FROM range(1e9::BIGINT) t(a) ORDER BY hash(a), a",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("slow", SLOW)
def test_a_query_ends_at_its_timeout(slow, folder, sql):
    options = ["--memory-mb", "400", "--format", "csv", "-o", "slow.csv"] if slow == "sort" else []
    # None of them would end within the limit of a test.
    done = sql(SLOW[slow], "--timeout", "1", *options)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "tracekit: the query took longer than 1 s: allow more time (--timeout)"
    ]
    assert not (folder / "slow.csv").exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("slow", SLOW)
def test_ctrl_c_ends_a_query(slow, folder):
    options = ["--memory-mb", "400", "--format", "csv", "-o", "slow.csv"] if slow == "sort" else []
    # The program says when the query starts, so that the test does not depend on its speed.
    program = (
        "import sys\n"
        "from tracekit.database.session import Session\n"
        "from tracekit.__main__ import main\n"
        "stream = Session.stream\n"
        "def telling(*arguments):\n"
        "    print('begun', file=sys.stderr, flush=True)\n"
        "    return stream(*arguments)\n"
        "Session.stream = telling\n"
        "main()"
    )
    asked = subprocess.Popen(
        [sys.executable, "-c", program, "sql", "good.duckdb", SLOW[slow], *options],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert asked.stderr is not None
    assert asked.stderr.readline() == b"begun\n"
    time.sleep(0.5)
    asked.send_signal(signal.SIGINT)
    assert asked.wait(LIMIT_S) == 130
    assert asked.stderr.read().strip() == b""
    assert not list(folder.glob("*slow.csv*"))


def test_a_query_that_needs_more_memory_or_disk_says_what_to_allow(sql):
    query = "SELECT count(DISTINCT (a, hash(a))) FROM range(10_000_000) AS t(a)"
    done = sql(query, "--memory-mb", "400", "--spill-mb", "10")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--memory-mb" in done.stderr and "--spill-mb" in done.stderr


def test_a_load_may_take_more_memory_while_its_connection_is_at_work():
    with duckdb.connect() as connection:
        memory = Memory(connection, None)
        endless = "SELECT sum(hash(i)) FROM range(1000000000000) AS t(i)"
        with ThreadPoolExecutor(1) as thread:
            working = thread.submit(connection.execute, endless)
            time.sleep(0.2)
            try:
                assert memory.more()
            finally:
                while not working.done():
                    connection.interrupt()
                    time.sleep(0.05)


def test_closed_standard_output_is_reported_in_one_line(folder):
    command = f"{' '.join(TRACEKIT)} sql good.duckdb 'SELECT 1' --format csv >&-"
    done = ran("bash", "-c", command, cwd=folder)
    said = "tracekit: cannot write: standard output is closed\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_rows_written_to_the_path_of_standard_output_are_appended(folder):
    asked = [
        f"{' '.join(TRACEKIT)} sql good.duckdb \"SELECT '{word}' AS w\" --format csv -o /dev/stdout"
        for word in ("first", "second")
    ]
    done = ran("bash", "-c", f"({' && '.join(asked)}) >both.txt", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    # The second output did not replace the first.
    assert (folder / "both.txt").read_text() == "w\nfirst\nw\nsecond\n"


def test_text_cannot_control_a_terminal_or_draw_over_other_lines():
    assert printable("a\u061cb\u202ec\x1b[31m") == "a\ufffdb\ufffdc\ufffd[31m"
    assert printable("e" + "\u0301" * 100) == "e" + "\u0301" * 4
    assert printable("Zoe\u0308 \u05e9\u05bc\u05c1") == "Zoe\u0308 \u05e9\u05bc\u05c1"


# Invisible characters by Unicode: one of each range, and controls.
HIDDEN = "\x1b\x9b\r\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u200b\u200d\u202e\u2060\u2066\u3164"
HIDDEN += "\ufe0f\ufeff\uffa0\ufff0\ufff9\U0001bca0\U0001d173\U000e0001\U000e0041\U000e0100"


def test_hidden_characters_are_shown_as_replaced():
    for character in HIDDEN:
        assert printable(f"a{character}b") == "a\ufffdb", hex(ord(character))
    assert printable_lines("a\n\tb\x1b\n") == "a\n\tb\ufffd\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_on_a_terminal_cannot_control_it_and_stay_exact_in_a_pipe(form, folder, sql):
    text = f"{HIDDEN}=1+1\u00e9"
    query = f"""SELECT '{text}' AS "n\u202eame", 'x' AS x FROM range(2)"""
    piped = sql(query, "--format", form).stdout
    if form == "json":
        assert [row["n\u202eame"] for row in json.loads(piped)] == [text, text]
    else:
        rows = list(csv.reader(io.StringIO(piped, newline="")))
        assert rows == [["n\u202eame", "x"], [text, "x"], [text, "x"]]
    command = [*TRACEKIT, "sql", "good.duckdb", query, "--format", form]
    shown, status, _ = on_terminal(*command, cwd=folder)
    assert status == 0
    assert not set(HIDDEN) & set(shown)
    assert "n\ufffdame" in shown and "=1+1\u00e9" in shown


# -- units -----------------------------------------------------------------------------------------


def test_a_table_of_a_question_has_units_and_files_stay_exact(folder, run):
    asked = ("query", "good.duckdb", "top_kernels")
    exact = list(csv.DictReader(io.StringIO(run(*asked, "--format", "csv").stdout)))
    done = run(*asked, COLUMNS="200")
    units = next(line.split() for line in done.stdout.splitlines() if " name " in f" {line} ")
    assert units.count("(us)") == 5
    total = exact[0]["total_ns"]
    assert f"{int(total) / 1000:,.3f}" in done.stdout


@pytest.mark.parametrize(
    ("unit", "values", "head", "cells"),
    [
        ("ns", [1_500_000, 2_000_000, 12], "total (ms)", ["1.500", "2.000", "<0.001"]),
        ("ns", [0, None, 7], "total (ns)", ["0", "", "7"]),
        ("bytes", [2_048_000_000], "total (GB)", ["2.048"]),
        ("fraction of the window", [0.25, 0.00001], "total (%)", ["25.0", "<0.1"]),
        ("id", [1_234, 5], "total", ["1234", "5"]),
        ("count", [1_234], "total", ["1,234"]),
    ],
)
def test_a_column_has_one_unit_that_reads_well(unit, values, head, cells):
    name = "total_ns" if unit == "ns" else "total_bytes" if unit == "bytes" else "total"
    found = shown([name], [[each] for each in values], {name: unit})
    assert " ".join(str(found.columns[0].header).split()) == head
    assert [str(row[0]) for row in found.rows] == cells


def test_names_keep_the_end_that_tells_them_apart():
    assert fitted("transformers/models/bert/model.py(12): forward", 20).endswith("(12): forward")
    assert fitted("void cutlass::Kernel2<cutlass_80_gemm>(Params)", 20) == "cutlass_80_gemm"
    names = ["module/a.py(1): " + "x" * 200, "y" * 200]
    found = shown(["name", "n"], [[each, 10**9] for each in names], {"name": "text", "n": "count"})
    assert found.within(40) is not None
    assert found.within(14) is None
    [[path]] = shown(
        ["path"], [[["Compiled", "void at::native::k<4>(int)"]]], {"path": "text"}
    ).rows
    assert str(path) == "Compiled, k"
    assert path.fit(path.name, 10) == "...iled, k"


def test_a_narrow_table_says_once_what_all_rows_share_before_it_leaves_columns_out():
    rows = [["host_late", each, 10**9 + each, 10**9, each] for each in range(1000, 1003)]
    units = {"gap": "count", "peak_at_ns": "ns", "other": "count", "n": "count"}
    found = replace(shown(["why", *units], rows, units), spare=1)
    assert found.within(60).notes == []
    narrow = found.within(28)
    assert narrow.notes == ["In all rows: other 1,000,000,000, why host_late"]
    assert found.within(14).notes[1:] == ["Left out at this width (--columns chooses): peak_at_ns"]
    assert replace(found, spare=0).within(28) is None


def test_sql_finds_every_view_of_a_trace_in_memory(cases_database):
    with tracekit.load(OWN_TRACES / "simulated-overhead-bound.json.gz") as in_memory:
        for sql in (
            "SELECT count(*) > 0 FROM KERNELS",
            "FROM (SELECT count(*) >= 0 FROM host_segment)",
            "SHOW TABLES",
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal ORDER BY ALL",
        ):
            assert in_memory.sql(sql).rows() == cases_database.sql(sql).rows()


def test_a_query_that_needs_more_memory_gets_it_if_its_session_may_ask_for_more():
    asked = []
    with duckdb.connect(config={"memory_limit": "20MB", "temp_directory": ""}) as connection:

        def more_memory():
            connection.execute("SET memory_limit = '1GB'")
            asked.append(None)
            return len(asked) < 2

        large = "SELECT length(string_agg(repeat('x', 1000), '')) FROM range(50_000)"
        with pytest.raises(TracekitError, match="more memory"):
            Session(connection.cursor(), "small").fetch(large)
        session = Session(connection.cursor(), "growing", more_memory=more_memory)
        assert session.fetch(large)[1] == [(50_000_000,)]
        assert len(asked) == 1
