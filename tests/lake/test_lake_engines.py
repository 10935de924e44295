"""The documented questions have the same answers in every engine, whatever runs are called."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import polars
import pytest

from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.lakes import add, ranks_with_files, statuses
from tests.kit.ranks_simulated import Job
from tracekit.lake.runs import read_run, read_runs
from tracekit.lake.storage import Storage
from tracekit.lake.upkeep import PUBLISHED, compact_runs, is_compact, publish
from tracekit.lake.workers import Processes
from tracekit.run import open_lake

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed (the extra `lake`)")

PAGE = (Path(__file__).parents[2] / "examples" / "lake.md").read_text()
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
RUNS = ["0042", "42"]
TABLES = ["run_figures", "verdict", "answer_idle_causes", "collective", "advice"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A published lake of two runs; then a rank of one was replaced, one came to the other, and one
    is unfinished."""
    folder = tmp_path_factory.mktemp("engines")
    lake = folder / "lake"
    for number, run in enumerate(RUNS):
        (folder / run).mkdir()
        job = Job(data=2, steps=2, late={1: number * MS}, seed=10 * number)
        ranks_simulated.write(folder / run, job)
    assert not add(lake, folder / "0042", judges=True).failed
    assert not add(lake, folder / "42" / "rank1.json").failed
    publish(str(lake))
    # Half of a rank: its files are written, and nothing names them.
    half = next((lake / "tables" / "run_figures").glob("*.parquet"))
    shutil.copy(half, half.with_name(f"{'0' * 32}.parquet"))
    changed = folder / "0042" / "rank0.json"
    changed.write_text(changed.read_text().replace("aten::linear", "aten::longer"))
    assert statuses(add(lake, changed, folder / "42", judges=True)) == ["replaced", "added"]
    return lake


def rounded(rows):
    return [tuple(float(f"{each:.9g}") if isinstance(each, float) else each for each in row)
            for row in rows]  # fmt: skip


@pytest.fixture(scope="module")
def expected(lake):
    """What tracekit answers."""
    with open_lake(str(lake)) as opened:
        opened.session._connection.execute("USE lake")
        found = [rounded(opened.session._connection.execute(each).fetchall()) for each in QUESTIONS]
    assert len(found) == 5
    assert {row[0]: row[1] for row in found[0]} == dict.fromkeys(RUNS, 2)
    assert all(found)
    return found


def delta_files(lake, table):
    return deltalake.DeltaTable(str(lake / "tables" / table)).file_uris()


def test_duckdb_answers_the_same(lake, expected):
    with duckdb.connect() as connection:
        for table in TABLES:
            files = delta_files(lake, table)
            connection.execute(f"CREATE VIEW {table} AS FROM read_parquet({files})")
        found = [rounded(connection.execute(each).fetchall()) for each in QUESTIONS]
    assert found == expected


def test_polars_answers_the_same(lake, expected):
    frames = {each: polars.scan_delta(str(lake / "tables" / each)) for each in TABLES}
    with polars.SQLContext(frames) as context:
        found = [rounded(context.execute(each).collect().rows()) for each in QUESTIONS]
    assert found == expected


def test_clickhouse_answers_the_same(lake, expected, tmp_path):
    pytest.importorskip("chdb", reason="chdb is not installed")
    asked = [re.sub(r"FROM (\w+)", rf"FROM deltaLakeLocal('{lake}/tables/\1')", each)
             for each in QUESTIONS]  # fmt: skip
    # Its threads do not end well in a process that goes on.
    code = """
import chdb, json, sys
server = chdb.connect(sys.argv[1])
for question in sys.argv[2:]:
    print(json.dumps(json.loads(str(server.query(question, "JSONCompact")))["data"]))
"""
    # It reads files below its folder alone.
    done = subprocess.run(
        [sys.executable, "-c", code, f"{tmp_path}/server?user_files_path={lake}", *asked],
        capture_output=True, text=True, check=False, timeout=120, cwd=lake,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [numbers(each) for each in lines] == [numbers(each) for each in expected]


def numbers(rows):
    """Rows with all numbers as floats: ClickHouse writes large ones as text."""
    return rounded([[row[0], *map(number, row[1:])] for row in rows])


def number(value):
    is_number = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
    return float(value) if is_number else value


@pytest.mark.thorough
def test_spark_answers_the_same(lake, expected):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    spark = (
        sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )  # fmt: skip
    try:
        for table in TABLES:
            files = delta_files(lake, table)
            spark.read.parquet(*files).createOrReplaceTempView(table)
        found = [rounded(map(tuple, spark.sql(each).collect())) for each in QUESTIONS]
    finally:
        spark.stop()
    assert found == expected


def test_a_published_table_names_what_readers_see_and_nothing_else(lake):
    for table in filter(lambda name: (lake / "tables" / name).exists(), PUBLISHED):
        named = {Path(each).name for each in delta_files(lake, table)}
        seen = {
            Path(held.path(table)).name
            for run in read_runs(Storage(str(lake))) for held in run.groups
            if table in held.files
        }  # fmt: skip
        assert named == seen, table


def test_compacted_runs_have_one_group_and_say_the_same(lake, tmp_path):
    copy = shutil.copytree(lake, tmp_path / "lake")
    before = told(copy)
    assert not is_compact(read_run(Storage(str(copy)), "42"))
    assert compact_runs(str(copy), Processes(1), RUNS) > 0
    assert all(is_compact(run) for run in read_runs(Storage(str(copy))))
    assert len(ranks_with_files(copy)) == 2 * len(RUNS)
    assert told(copy) == before
    assert compact_runs(str(copy), Processes(1), RUNS) == 0


def told(lake):
    with open_lake(str(lake)) as opened:
        return [opened.query(name).rows() for name in ("stragglers", "idle_causes", "top_kernels")]
