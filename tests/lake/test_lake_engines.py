"""The documented questions have the same answers in every engine, whatever runs are called."""

import json
import shutil
from pathlib import Path

import pytest

from tests.bench.documented import QUESTIONS, asker
from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.lakes import add, ranks_with_files, statuses
from tests.kit.processes import ran
from tests.kit.ranks_simulated import Job
from tracekit.errors import TracekitError
from tracekit.lake.runs import read_run, read_runs
from tracekit.lake.storage import Storage
from tracekit.lake.upkeep import PUBLISHED, compact_runs, mergeable, publish
from tracekit.lake.workers import Processes
from tracekit.run import open_lake

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed (the extra `lake`)")

ROOT = Path(__file__).parents[2]
RUNS = ["0042", "42", "2026-11-23"]
# 2026-11-16, a Monday.
MONDAY_S = 1_794_787_200
DAY_S = 86_400


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A published lake of three runs, four days apart, all but `42` judged. In all but the first,
    the host `west` is late. After publishing, a rank was replaced, two were added, and another
    addition was left unfinished."""
    folder = tmp_path_factory.mktemp("engines")
    lake = folder / "lake"
    for number, run in enumerate(RUNS):
        (folder / run).mkdir()
        job = Job(data=2, steps=2, late={number % 2: 2 * number * MS}, seed=10 * number)
        hosts = ("east", "west") if number % 2 else ("west", "east")
        began_ns = (MONDAY_S + 4 * DAY_S * number) * 1_000_000_000
        ranks_simulated.write(folder / run, job, hosts, baseTimeNanoseconds=began_ns)
    changed = folder / "0042" / "rank0.json"
    assert not add(lake, changed, folder / RUNS[2], judges=True).failed
    assert not add(lake, folder / "42" / "rank1.json").failed
    publish(str(lake))
    # Half of a rank: its files are written, and nothing names them.
    half = next((lake / "tables" / "run_figures").glob("*.parquet"))
    shutil.copy(half, half.with_name(f"{'0' * 32}.parquet"))
    changed.write_text(changed.read_text().replace("aten::linear", "aten::longer"))
    assert sorted(statuses(add(lake, folder / "0042", judges=True))) == ["added", "replaced"]
    assert statuses(add(lake, folder / "42")) == ["added"]
    return lake


def rounded(rows):
    return [tuple(float(f"{each:.9g}") if isinstance(each, float) else each for each in row)
            for row in rows]  # fmt: skip


@pytest.fixture(scope="module")
def expected(lake):
    """What tracekit answers."""
    with open_lake(str(lake)) as opened:
        connection = opened.session._connection
        connection.execute("USE lake")
        found = [rounded(connection.execute(each).fetchall()) for each in QUESTIONS]
    assert len(found) == 9
    assert {row[0]: row[1] for row in found[1]} == dict.fromkeys(RUNS, 2)
    assert all(found)
    repeated, collectives, (late,), weeks, slow = (found[i] for i in (0, 4, 6, 7, 8))
    # Rank 1 of the last run waits for rank 0 in both of its steps.
    unit_ns = {row[0]: row[2] for row in repeated}
    last = {rank: total for run, rank, _, total in collectives if run == RUNS[2]}
    assert late[:3] == (RUNS[2], "rank 0", 1)
    assert late[3] == pytest.approx((last[1] - last[0]) / 2 / unit_ns[RUNS[2]], rel=1e-3)
    first = (unit_ns[RUNS[0]] + unit_ns[RUNS[1]]) / 2
    assert weeks == [
        ("step", MONDAY_S + 7 * DAY_S, 2, unit_ns[RUNS[2]]), ("step", MONDAY_S, 4, first)
    ]  # fmt: skip
    assert [row[:3] for row in slow] == [("west", 3, 2)]
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_an_engine_of_this_process_answers_the_same(engine, lake, expected):
    ask = asker(str(lake), engine)
    assert [rounded(ask(each)) for each in QUESTIONS] == expected


@pytest.mark.parametrize("engine", ["chdb", pytest.param("spark", marks=pytest.mark.thorough)])
def test_an_engine_of_its_own_process_answers_the_same(engine, lake, expected):
    package = {"chdb": "chdb", "spark": "pyspark"}[engine]
    pytest.importorskip(package, reason=f"{package} is not installed")
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    done = ran("python", "-m", "tests.bench.documented", lake, engine, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])["answers"]
    assert [numbers(each) for each in answers] == [numbers(each) for each in expected]


def numbers(rows):
    """Rows with all numbers as floats: ClickHouse writes large ones as text."""
    return rounded([[row[0], *map(number, row[1:])] for row in rows])


def number(value):
    is_number = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
    return float(value) if is_number else value


def test_a_published_table_names_what_readers_see_and_nothing_else(lake):
    for table in filter(lambda name: (lake / "tables" / name).exists(), PUBLISHED):
        files = deltalake.DeltaTable(str(lake / "tables" / table)).file_uris()
        named = {Path(each).name for each in files}
        seen = {
            Path(held.path(table)).name
            for run in read_runs(Storage(str(lake))) for held in run.groups
            if table in held.files
        }  # fmt: skip
        assert named == seen, table


@pytest.mark.parametrize("text", ["", "{", "\0" * 99, '{"add": 1}'])
def test_a_damaged_log_of_a_table_is_an_error_that_says_how_to_publish_again(lake, tmp_path, text):
    """As a power failure leaves it."""
    copy = shutil.copytree(lake, tmp_path / "lake")
    log = copy / "tables" / "verdict" / "_delta_log"
    for each in log.iterdir():
        each.write_text(text)
    told = rf"tables/verdict: cannot be published .* remove {log}, and run `tracekit lake"
    with pytest.raises(TracekitError, match=told) as said:
        publish(str(copy))
    assert "\n" not in str(said.value)
    shutil.rmtree(log)
    publish(str(copy))
    test_a_published_table_names_what_readers_see_and_nothing_else(copy)


@pytest.mark.thorough
def test_compacted_runs_have_one_group_and_say_the_same(lake, tmp_path):
    copy = shutil.copytree(lake, tmp_path / "lake")
    before = told(copy)
    assert mergeable(read_run(Storage(str(copy)), "42"))
    assert compact_runs(str(copy), Processes(1), RUNS) > 0
    assert not any(mergeable(run) for run in read_runs(Storage(str(copy))))
    assert len(ranks_with_files(copy)) == 2 * len(RUNS)
    assert told(copy) == before
    assert compact_runs(str(copy), Processes(1), RUNS) == 0


def told(lake):
    with open_lake(str(lake)) as opened:
        return [opened.query(name).rows() for name in ("stragglers", "idle_causes", "top_kernels")]
