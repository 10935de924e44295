"""Lakes: asked like a database, by tracekit and by others."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from msgspec.structs import replace

from tests.kit.lakes import add, rank_events, statuses, write_rank
from tests.kit.processes import invoke, ran
from tests.kit.sampling import sample
from tracekit.database import catalog
from tracekit.database.stored import create_tables
from tracekit.errors import TracekitError
from tracekit.lake import layout, tables
from tracekit.lake.comparing import history
from tracekit.lake.runs import read_run
from tracekit.lake.storage import Storage
from tracekit.run import open_lake
from tracekit.verdict import rows
from tracekit.verdict.model import Analysis


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two runs of four ranks, `monday` and `tuesday`, and a lake of them, in which
    monday is judged."""
    folder = tmp_path_factory.mktemp("made")
    for run, late_us in (("monday", 30), ("tuesday", 10)):
        for rank in range(4):
            write_rank(folder / run, rank, late_us=late_us)
        added = add(folder / "lake", folder / run, judges=run == "monday")
        assert statuses(added) == ["added"] * 4
    return folder


def test_rows_say_their_run_and_rank(made):
    asked = ("query", f"{made}/lake")
    done = invoke(*asked, "partition", "--format", "csv", "--columns", "kind,span_ns")
    assert done.exit_code == 0, done.stderr
    done = invoke(*asked, "run_metrics", "--format", "csv")
    header, *rows = done.stdout.splitlines()
    assert header.startswith("run,rank,trace_id,steps")
    assert [row.split(",")[:2] for row in sorted(rows)] == [
        [name, str(rank)] for name in ("monday", "tuesday") for rank in range(4)
    ]


def test_the_answers_of_a_lake_have_the_columns_of_their_questions_and_the_run(made):
    # No question is planned: its columns alone decide.
    with duckdb.connect() as connection, open_lake(f"{made}/lake") as lake:
        connection.execute("CREATE TABLE trace (trace_id INTEGER, run VARCHAR, rank BIGINT)")
        for question in catalog.queries().values():
            names = [column.name for column in question.columns]
            if "trace_id" not in names:
                continue
            empty = "SELECT " + ", ".join(f'0 AS "{name}"' for name in names)
            shown = connection.sql(lake.shown_sql(replace(question, sql=empty), {"top": 1}))
            beside = [name for name in ("run", "rank") if name not in names]
            assert shown.columns == beside + names, question.name


def test_a_part_of_a_lake_is_chosen_by_its_path(made):
    with open_lake(f"{made}/lake/run=tuesday/rank=2") as lake:
        assert lake.fetch("SELECT run, rank FROM trace")[1] == [("tuesday", 2)]
    with pytest.raises(TracekitError, match="no such run; its runs are monday, tuesday"):
        open_lake(f"{made}/lake/run=friday")
    with pytest.raises(TracekitError, match="no such rank; its ranks are: rank=0, rank=1, rank=2"):
        open_lake(f"{made}/lake/run=tuesday/rank=99")
    # An error of the caller passes through.
    with pytest.raises(KeyError), open_lake(f"{made}/lake"):
        raise KeyError("of the caller")


def test_a_part_of_a_lake_has_no_rows_of_other_ranks(made):
    with open_lake(f"{made}/lake/run=monday/rank=1") as lake:
        names = [row[0] for row in lake.fetch(
            "SELECT view_name FROM duckdb_views() WHERE schema_name = 'lake'")[1]]  # fmt: skip
        assert {"gpu_ops", "thread_slice", "verdict", "answer_missing"} <= set(names)
        for table in names:
            ranks = lake.fetch(f"SELECT DISTINCT run, rank FROM lake.{table}")[1]
            assert ranks in ([], [("monday", 1)]), table


def test_tables_of_a_lake_have_the_columns_of_those_of_a_database(made):
    with duckdb.connect() as plain, open_lake(f"{made}/lake") as lake:
        create_tables(plain)
        for (table,) in plain.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            wanted = plain.table(table).columns + ["run", "labels"] * (table == "trace")
            assert lake.fetch(f"FROM {table} LIMIT 0")[0] == wanted, table


def test_ranks_of_one_run_are_compared_with_each_other_alone(made):
    with open_lake(f"{made}/lake") as lake:
        held = {
            (name, row["rank"]): row["held_up_ns"]
            for row in lake.ask("stragglers", top=10**6) if row["step"] == 1
            for name in [next(r.run for r in lake.ranks if r.trace_id == row["trace_id"])]
        }  # fmt: skip
    assert held["monday", 1] == 3 * 30_000
    assert held["tuesday", 1] == 3 * 10_000
    assert held["monday", 0] == held["tuesday", 0] == 0


def test_sql_reads_only_what_the_lake_opened(made, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with open_lake(f"{made}/lake/run=monday") as lake:
        (inside,) = [
            f"{made}/lake/{each.path('trace')}"
            for each in lake.parts[0].groups
            if each.context is None
        ]
        other = next(
            each for each in Path(f"{made}/lake/tables/trace").iterdir() if str(each) != inside
        )
        for reading in (f"read_csv('{secret}')", f"read_parquet('{other}')",
                        f"glob('{made}/lake/*')", "read_text('/etc/hostname')"):  # fmt: skip
            with pytest.raises(TracekitError, match="is not allowed"):
                lake.sql(f"FROM {reading}")
            with pytest.raises(TracekitError, match="disabled by configuration"):
                lake.fetch(f"FROM {reading}")
        for writing_ in (f"COPY (SELECT 1) TO '{inside}'", "ATTACH 'x.duckdb'", "SET threads = 1",
                         f"WITH a AS (COPY (SELECT 1) TO '{inside}') FROM a"):  # fmt: skip
            with pytest.raises(TracekitError):
                lake.sql(writing_)
        assert lake.sql("SELECT count(*) AS n FROM trace")["n"][0] == 4


# Values of any kind for any field of a manifest or a stored verdict.
ODD = [
    None, True, 0, -1, 5, 2**40, 2**64, 1e400, float("nan"), 0.5, "", "x", "../../etc", "NULL",
    "\ud800", "rank=9", [], [[]], {}, {"a": 1}, {"../trace": 5}, {"trace": 5}, {"trace": "x"},
]  # fmt: skip


def changed_anywhere(value, odd):
    """Copies of a JSON value in which one part, at any depth, is replaced by an odd value or
    removed."""
    yield from (each for each in odd if each != value or type(each) is not type(value))
    if isinstance(value, dict):
        for key in value:
            yield {name: each for name, each in value.items() if name != key}
            yield from (value | {key: new} for new in changed_anywhere(value[key], odd))
    if isinstance(value, list):
        for place, each in enumerate(value[:2]):
            for new in changed_anywhere(each, odd):
                yield [*value[:place], new, *value[place + 1 :]]


def test_a_manifest_is_a_checked_record_or_refused(made):
    folder = made / "lake" / "manifests" / "monday"
    path = next(each for each in folder.iterdir() if len(each.stem) == 32)
    sound = json.loads(path.read_text())
    other = json.dumps(sound | {"layout": 7, "files": {}}).encode()
    with pytest.raises(TracekitError, match="another version of tracekit wrote this"):
        layout.read_group(other, f"manifests/monday/{path.name}")
    refused = kept = 0
    for changed in changed_anywhere(sound, ODD):
        path = "manifests/monday/x.json"
        with suppress(Exception):
            path = f"{layout.run_folder(changed['run'])}/{changed['token']}.json"
        try:
            group = layout.read_group(json.dumps(changed).encode(), path)
        except TracekitError as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        kept += 1
        # What was taken has the types that it should have, and its paths stay in the lake.
        for rank in group.ranks:
            assert all(isinstance(each, str) for each in (rank.run, rank.source.url, rank.name))
            assert all(type(n) is int for n in (rank.trace_id, rank.tables, rank.source.size))
        assert ".." not in Path(group.path("trace")).parts + Path(group.key).parts
        assert group.context is not None or any(
            each.tables != catalog.FORMAT for each in group.ranks
        ) or group.files.keys() >= tables.NEEDED  # fmt: skip
    assert refused > 400
    assert kept > 20
    for text in (b"[" * 100_000, b"\xff", b"", b'{"a":'):
        for read in (layout.read_group, layout.read_version):
            with pytest.raises(TracekitError, match="is not a lake's manifest"):
                read(text, "manifests/monday/00000001.json")
    for groups in ('[{"token": "../../etc", "without": []}]', "{}", '[{"token": 1}]'):
        with pytest.raises(TracekitError, match="is not a"):
            layout.read_version(f'{{"groups": {groups}}}'.encode(), "x")


def test_a_stored_verdict_is_a_checked_record_or_refused(made):
    with open_lake(f"{made}/lake/run=monday/rank=0") as lake:
        sound = json.loads(lake.fetch("SELECT analysis FROM verdict WHERE is_main")[1][0][0])
    every = list(changed_anywhere(sound, ODD))
    kept = 0
    for changed in every[:: len(every) // 400]:
        with suppress(ValueError):
            assert isinstance(rows.read(json.dumps(changed)), Analysis)
            kept += 1
    assert 0 < kept < 300
    for text in (None, "null", "[" * 100_000, "{"):
        with pytest.raises(ValueError):
            rows.read(text)


@pytest.fixture
def copied(made, tmp_path):
    """A copy of the lake, to change it."""
    return shutil.copytree(made / "lake", tmp_path / "lake")


def change_rows(path, change):
    """Writes the rows of a table's file with other columns."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS FROM read_parquet('{path}')")
        connection.execute(f"COPY (SELECT {change} FROM rows) TO '{path}' (FORMAT parquet)")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("table", "changed", "command"),
    [
        ("answer_partition", "* REPLACE (-9223372036854775807 AS device_id)", "advise RANK"),
        ("verdict", "* REPLACE (replace(analysis, 'regime', 'rule') AS analysis)",
         "analyze RANK"),
        ("answer_overview", "* REPLACE (NULL AS devices)", "analyze RANK --window all"),
        ("verdict", "* REPLACE ('null' AS analysis)", "analyze RUN"),
        ("answer_overview", "* EXCLUDE path", "query overview RUN"),
        ("gpu_ops", "* REPLACE ('x' AS dur_ns)", "query top_kernels RUN"),
    ],
    ids=str,
)  # fmt: skip
def test_rows_of_a_lake_that_contradict_each_other_are_refused_in_one_line(
    copied, refused, table, changed, command
):
    for path in (copied / "tables" / table).iterdir():
        change_rows(path, changed)
    part = {"RUN": "lake/run=monday", "RANK": "lake/run=monday/rank=0"}
    said = refused(*(part.get(word, word) for word in command.split()))
    assert said.startswith("tracekit: ")


def test_a_lake_of_a_later_layout_is_reported_and_not_changed(tmp_path, refused):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / layout.MARK).write_text('{"layout": 3}')
    write_rank(tmp_path / "in", 0)
    for command in (("query", "lake", "overview"), ("lake", "add", "in", "--to", "lake"),
                    ("lake", "clean", "lake"), ("fleet", "lake")):  # fmt: skip
        assert "a later version of tracekit made this lake" in refused(*command)
    assert [each.name for each in (tmp_path / "lake").iterdir()] == [layout.MARK]


def test_a_rank_of_a_lake_is_analyzed_and_exported_like_a_trace(made, tmp_path):
    rank = f"{made}/lake/run=monday/rank=3"
    told = json.loads(invoke("analyze", rank, "--json").stdout)
    assert (told["trace"]["rank"], told["trace"]["world_size"]) == (3, 4)
    assert invoke("export", rank, "-o", tmp_path / "back.json").exit_code == 0
    back = json.loads((tmp_path / "back.json").read_text())["traceEvents"]
    assert back == rank_events(3)


@pytest.mark.thorough
def test_printing_a_stored_verdict_loads_few_modules_and_local_lakes_no_extra(made, tmp_path):
    write_rank(tmp_path / "run", 0)
    code = f"""
import sys
from tracekit.commands import main
sys.modules["fsspec"] = sys.modules["ray"] = None
sys.argv = ["tracekit", "analyze", "{made}/lake/run=monday/rank=0"]
try:
    main()
finally:
    own = [name for name in sys.modules if name.partition(".")[0] == "tracekit"]
    print(len(own), "tracekit.replay.graph" in own, "tracekit.verdict.judge" in own)
    from tests.kit.lakes import add
    from tracekit.run import open_lake
    assert not add("{tmp_path}/lake", "{tmp_path}/run").failed
    assert open_lake("{tmp_path}/lake").fetch("SELECT count(*) FROM event")[1] == [(18,)]
"""
    done = ran("python", "-c", code)
    assert (done.returncode, done.stderr) == (0, "")
    loaded, *machinery = done.stdout.splitlines()[-1].split()
    assert int(loaded) <= 62
    assert machinery == ["False", "False"]


def test_a_question_is_asked_about_each_rank_separately(made, run, refused):
    part = f"{made}/lake/run=monday"
    done = run("lake", "ask", part, "partition", "--param", "kind=gpu_active", "--format", "csv",
               "--workers", "1")  # fmt: skip
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.startswith("run,trace_id,rank,")
    assert [row.split(",")[2] for row in rows] == ["0", "1", "2", "3"]
    together = run("query", part, "partition", "--param", "kind=gpu_active", "--format", "csv")
    assert sorted(together.stdout.splitlines()[1:]) == sorted(rows)
    refused("lake", "ask", part, "partition", "--param", "x=1")


def of_another_version(lake, change):
    """Makes the ranks of Monday in a lake those of another version of tracekit, whose small tables
    have other columns (`change`)."""
    for held in read_run(Storage(str(lake)), "monday").groups:
        if held.context is None:
            change_rows(lake / held.path("run_figures"), change)
        group = json.loads((lake / held.key).read_text())
        group["ranks"] = [each | {"tables": 7} for each in group["ranks"]]
        (lake / held.key).write_text(json.dumps(group))


def test_ranks_of_another_version_keep_their_figures_and_verdicts(copied, run):
    of_another_version(copied, "* EXCLUDE copied_bytes")
    with open_lake(str(copied)) as lake:
        (note,) = lake.notes
        assert note.startswith(
            "4 of 8 ranks are from another version of tracekit: only their figures"
        )
        rows = lake.query("run_metrics").select("run", "rank", "span_ns", "copied_bytes").rows()
        assert sorted(rows) == [
            (name, rank, 100_000, copied_bytes)
            for name, copied_bytes in (("monday", None), ("tuesday", 0)) for rank in range(4)
        ]  # fmt: skip
        assert lake.fetch("SELECT DISTINCT run FROM lake.gpu_ops")[1] == [("tuesday",)]
        assert [each.run for each in history(lake).runs] == ["monday", "tuesday"]
    done = run("analyze", f"{copied}/run=monday")
    assert done.returncode == 0, done.stderr
    assert "4 of 4 ranks are from another version" in done.stderr
    assert "No verdict on all together: another version of tracekit wrote 4" in done.stdout


def test_questions_that_need_events_are_refused_for_such_ranks(copied, run, tmp_path):
    of_another_version(copied, "*")
    commands = ("advise", "export -o e.json", "whatif host*0.5", "report -o p")
    for command in sample("commands that need events", commands, commands[:2]):
        name, *given = command.split()
        done = run(name, f"{copied}/run=monday/rank=0", *given)
        assert (done.returncode, done.stdout) == (2, "")
        assert "events cannot be read: run `tracekit lake add`" in done.stderr.splitlines()[-1]
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]


@pytest.mark.thorough
def test_ranks_that_cannot_be_read_are_left_out_until_they_are_added_again(copied, made, refused):
    of_another_version(copied, "* REPLACE ('x' AS span_ns)")
    with open_lake(str(copied)) as lake:
        rows = lake.query("run_metrics").select("run", "rank").rows()
        assert sorted(rows) == [("tuesday", rank) for rank in range(4)]
        (note,) = lake.notes
        assert "4 of 8 ranks are left out: another version of tracekit wrote them" in note
    said = refused("query", f"{copied}/run=monday", "run_metrics")
    assert "another version of tracekit wrote these 4 ranks" in said
    assert statuses(add(copied, made / "monday")) == ["replaced"] * 4
    with open_lake(str(copied)) as lake:
        assert lake.notes == []
        assert len(lake.query("run_metrics")) == 8
