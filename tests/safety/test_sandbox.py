"""Untrusted SQL and databases can only read the database."""

import shutil
import time

import duckdb
import pytest
from msgspec.structs import replace

import tracekit
from tests.kit import hostile, traces
from tests.kit.sampling import sample
from tracekit.database import catalog, facts, sandbox, stored

# A statement of each kind that DuckDB's parser knows; {file} is a path that it must not touch.
STATEMENTS = {
    "ALTER": "ALTER TABLE trace ADD COLUMN x INTEGER", "ANALYZE": "ANALYZE trace",
    "ATTACH": "ATTACH '{file}' AS other", "CALL": "CALL pragma_version()",
    "COPY": "COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)",
    "COPY_DATABASE": "COPY FROM DATABASE memory TO other",
    "CREATE": "CREATE TABLE mine (x INTEGER)", "CREATE_FUNC": "CREATE MACRO mine() AS 1",
    "DELETE": "DELETE FROM event_row", "DETACH": "DETACH other", "DROP": "DROP VIEW kernels",
    "EXECUTE": "EXECUTE mine", "EXPORT": "EXPORT DATABASE '{file}'", "EXTENSION": "INSTALL httpfs",
    "INSERT": "INSERT INTO trace BY NAME SELECT * FROM trace", "LOAD": "LOAD httpfs",
    "MERGE_INTO": "MERGE INTO trace USING trace AS t USING (trace_id) WHEN MATCHED THEN DELETE",
    "MULTI": "PIVOT trace ON path", "PRAGMA": "PRAGMA version",
    "PREPARE": "PREPARE mine AS SELECT 1", "SET": "SET enable_external_access = true",
    "TRANSACTION": "COMMIT", "UPDATE": "UPDATE trace SET path = 'x'", "VACUUM": "VACUUM",
    "VARIABLE_SET": "SET VARIABLE x = 1",
}  # fmt: skip
PREFIXES = ["", "EXPLAIN ANALYZE ", "EXPLAIN ", "EXPLAIN (ANALYZE) "]
PREFIXES = sample("ways to explain a statement that is refused", PREFIXES, PREFIXES[:2])
# Statements that only read.
READING = {"SELECT": "SELECT 1", "EXPLAIN": "EXPLAIN SELECT 1"}
# Kinds of statements that have no text.
WITHOUT_TEXT = {"INVALID", "LOGICAL_PLAN", "RELATION"}
MORE_STATEMENTS = [
    "CHECKPOINT", "FORCE CHECKPOINT", "BEGIN", "ROLLBACK", "CREATE TEMP TABLE mine AS SELECT 1",
    "CREATE SECRET mine (TYPE http)", "RESET memory_limit", "USE memory", "UPDATE EXTENSIONS",
    "IMPORT DATABASE '{file}'", "COMMENT ON TABLE trace IS 'x'", "TRUNCATE event_row",
    "WITH a AS (COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)) SELECT 1",
    "WITH a AS (INSERT INTO trace BY NAME SELECT * FROM trace RETURNING *) SELECT * FROM a",
    "WITH a AS (DELETE FROM event_row RETURNING *) SELECT * FROM a",
    "WITH a AS (UPDATE trace SET path = 'x' RETURNING *) SELECT * FROM a",
    "SELECT (WITH a AS (COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)) SELECT 1)",
    "FROM query('WITH a AS (COPY (SELECT 1) TO ''{file}'' (USE_TMP_FILE false)) SELECT 1')",
    "SELECT 1; COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)",
    "FROM enable_logging(storage = 'file', storage_config = {{'path': '{file}'}})",
]  # fmt: skip


def test_every_kind_of_statement_of_this_duckdb_is_tried():
    known = {name for name in dir(duckdb.StatementType) if name.isupper()}
    assert known == STATEMENTS.keys() | READING.keys() | WITHOUT_TEXT
    for kind, statement in (STATEMENTS | READING).items():
        kinds = [each.type.name for each in duckdb.extract_statements(statement)]
        assert kinds == [_PARSED_AS.get(kind, kind)], statement


# Some statements are parsed as another kind.
_PARSED_AS = {
    "ANALYZE": "VACUUM", "COPY_DATABASE": "PRAGMA", "CREATE_FUNC": "CREATE", "EXTENSION": "LOAD",
    "VARIABLE_SET": "SET",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sandbox")
    hostile.good(folder)
    return folder


@pytest.fixture(scope="module", params=["a file", "a file, and may spill", "memory"])
def database(request, folder):
    opened = {
        "a file": lambda: tracekit.open_database(folder / "good.duckdb"),
        "a file, and may spill": lambda: tracekit.open_database(
            shutil.copy(folder / "good.duckdb", folder / "spills.duckdb"), spill_mb=100
        ),
        "memory": lambda: tracekit.load(folder / "good.json"),
    }[request.param]()
    with opened:
        yield opened


@pytest.mark.sampled(7)
@pytest.mark.parametrize("explained", PREFIXES)
@pytest.mark.parametrize("statement", [*STATEMENTS.values(), *MORE_STATEMENTS])
def test_a_statement_that_does_more_than_read_is_refused(statement, explained, database, folder):
    # DuckDB lets a query write the database's own paths.
    for name in ("good.duckdb", "good.duckdb.wal", "spills.duckdb", "spills.duckdb.wal", "new"):
        before = {each: each.read_bytes() for each in folder.iterdir()}
        with pytest.raises(tracekit.TracekitError, match=r"read-only|syntax error|Parser Error"):
            database.sql(explained + statement.format(file=folder / name))
        assert {each: each.read_bytes() for each in folder.iterdir()} == before
        if "{file}" not in statement:
            break
    assert database.sql("SELECT count(*) AS n FROM event")["n"].to_list() == [2]


def test_statements_that_only_read_are_answered(database):
    for statement in (
        "SELECT 1",
        "FROM trace",
        "TABLE trace",
        "VALUES (1)",
        "DESCRIBE trace",
        "SHOW TABLES",
        "SUMMARIZE trace",
        "WITH a AS (SELECT 1) FROM a",
        "WITH RECURSIVE a AS (SELECT 1 AS x UNION SELECT x + 1 FROM a WHERE x < 3) FROM a",
        "SELECT 1 UNION SELECT 2",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT 1 AS analyze",
        "EXPLAIN (ANALYZE, FORMAT json) -- é\n SELECT 'COPY'",
        'SELECT \'COPY_QUERY_NODE\' AS "type", \'"function_name":"query"\'',
        "SELECT 1;",
        "PIVOT trace ON form IN ('object') USING count(*)",
    ):
        assert database.sql(statement).height > 0, statement


@pytest.mark.parametrize(
    "source",
    [
        "read_text('{file}')", "read_blob('{file}')", "read_csv('{file}')", "'{file}'",
        "glob('{file}')", "sniff_csv('{file}')", "read_json('{file}')", "read_parquet('{file}')",
        "read_duckdb('{file}')", "parquet_metadata('{file}')", "'http://127.0.0.1:1/x.parquet'",
    ],
)  # fmt: skip
def test_sql_can_read_no_file_and_no_network(source, database, tmp_path):
    path = hostile.secret_in(tmp_path)
    # The parser refuses the function, and the configuration what the function would do.
    for ask in (database.sql, database.fetch):
        with pytest.raises(tracekit.TracekitError, match=r"disabled|does not exist|not allowed"):
            ask(f"SELECT * FROM {source.format(file=path)}")


def test_sql_cannot_read_the_programs_variables(database):
    secret = duckdb.sql("SELECT 1 AS x")  # noqa: F841
    with pytest.raises(tracekit.TracekitError, match="secret does not exist"):
        database.sql("FROM secret")


def test_settings_cannot_be_changed_even_through_the_connection(database):
    for setting in ("enable_external_access", "lock_configuration", "autoload_known_extensions"):
        with pytest.raises(duckdb.InvalidInputException, match=r"locked|disabled"):
            database._connection.execute(f"SET {setting} = true")


def test_a_database_on_disk_cannot_be_written_even_through_the_connection(folder):
    path = folder / "good.duckdb"
    before = path.read_bytes()
    with tracekit.open_database(path) as database:
        for target in (path, f"{path}.wal"):
            with pytest.raises(duckdb.PermissionException):
                database._connection.execute(f"COPY (SELECT 1) TO '{target}' (USE_TMP_FILE false)")
    assert path.read_bytes() == before
    assert not path.with_name("good.duckdb.wal").exists()


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "sql",
    [
        # They read, change or run more than rows.
        "FROM query('SELECT 1')", "FROM checkpoint()", "FROM enable_logging()",
        "SELECT nextval('x')",        "SELECT setseed(1)",
        'FROM SYSTEM.main."Force_Checkpoint"()', "FROM pandas_scan(1, 2, 3)",
        "FROM seq_scan()", "SELECT write_log('x')", "FROM read_text('x')",
        "FROM test_all_types()", "FROM duckdb_secrets()",
        "SELECT current_setting('temp_directory')",
        # They crash DuckDB 2.0.
        """SELECT "IS DISTINCT FROM"({'a': 1, 'b': 'x'}, 5)""", """SELECT "<"([], 'abc')""",
        """SELECT sum(1) OVER (ORDER BY "<"([], 'abc'))""", """SELECT [] .">"('abc')""",
        """SELECT sum(1) FILTER ("="([], 'abc'))""", """FROM event ORDER BY "+"(1, 2)""",
        """SELECT json_serialize_plan('SELECT "<"([], ''abc'')')""",
        "SELECT from_json('1', repeat('[', 400000))", "SELECT from_json_strict('1', '[]')",
        "SELECT json_transform('1', '[]')", "SELECT json_transform_strict('1', '[]')",
        "SELECT json_contains(repeat('[', 400000), '1')", "SELECT variant_keys('1'::JSON)",
        "SELECT repeat('[', 400000)::JSON::VARIANT", "SELECT TRY_CAST('1' AS STRUCT(x VARIANT[]))",
        # They call the function whose name they are given.
        "SELECT list_aggregate([1], 'sum')", "SELECT list_aggr([1], 'variant_group_object')",
        # A later version may have it.
        "SELECT new_in_duckdb_3()",
    ],
)  # fmt: skip
@pytest.mark.parametrize("explained", ["", "EXPLAIN ANALYZE "])
def test_unlisted_functions_are_refused_however_they_are_called(sql, explained, database):
    with pytest.raises(tracekit.TracekitError, match="is not allowed"):
        database.sql(explained + sql)


def test_listed_functions_exist_and_operators_work_as_operators(database):
    names = "SELECT lower(function_name) FROM duckdb_functions() UNION SELECT lower(type_name)"
    _, rows = database.fetch(f"{names} FROM duckdb_types()")
    listed = sandbox._allowed()
    assert listed.functions | listed.types <= {row[0] for row in rows}
    for expression in (
        "1 + 2 * 3 - -4 // 5 % 6 ^ 2 / 1", "'a' || 'b' LIKE 'a%' ESCAPE '$'", "'a' ^@ 'b'",
        "'a' NOT ILIKE 'b' AND 'a' SIMILAR TO 'b' OR NOT 'a' ~ 'b'", "'a' GLOB '*'", "~1 & 2 | 3",
        "1 IS DISTINCT FROM 2", "1 < 2 AND 2 BETWEEN 1 AND 3", "[1] @> [1]", "abs(-1) << 2 >> 1",
        """'{"a": [1]}'::JSON->'a'->>0""", "[x + 1 for x in [1, 2] if x > 1]", "{'a': 1}.a",
        "DATE '2020-01-01' + INTERVAL 1 DAY", "extract(year FROM current_date)", "[1, 2][1:]",
        "now() AT TIME ZONE 'UTC'", "(SELECT sum(x) OVER () FROM range(3) AS t(x) LIMIT 1)",
        "list_transform([1], lambda x: x + 1)", "MAP {'a': 1}['a']",
        "'a'.upper()",
    ):  # fmt: skip
        assert database.fetch(f"SELECT {expression}")[1]
        database.require_select(f"SELECT {expression}")


def test_the_sql_of_every_question_is_allowed(folder, monkeypatch):
    # Nothing gets another name meanwhile, so each kind is listed once.
    listed, known = sandbox._names, {}

    def names(cursor, kind):
        if kind not in known:
            known[kind] = listed(cursor, kind)
        return known[kind]

    monkeypatch.setattr(sandbox, "_names", names)
    with tracekit.open_database(folder / "good.duckdb") as database:
        for question in catalog.queries().values():
            database.require_select(question.sql)


DEEP = 3_200


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {'(' * DEEP}1{')' * DEEP}", f"SELECT {'(' * DEEP}", f"SELECT {'[' * DEEP}",
        f"FROM {'(' * DEEP}a{' JOIN a)' * DEEP}", f"SELECT {'abs(' * DEEP}1{')' * DEEP}",
        f"""SELECT {"{'a': " * DEEP}""", f"SELECT ')))' {'(' * DEEP} /* ))) */ ')'",
        f"SELECT {'1,' * 25_000}1", f"EXPLAIN ({'ANALYZE, ' * 2_000}FORMAT json) SELECT 1",
        f"FROM a{' JOIN a ON 1' * 2_000}", "SELECT '\ud800'",
    ],
)  # fmt: skip
def test_sql_that_takes_long_to_parse_is_refused_before(sql, database):
    began_s = time.process_time()
    with pytest.raises(tracekit.TracekitError) as refused:
        database.sql(sql)
    assert len(str(refused.value).splitlines()) == 1
    assert time.process_time() - began_s < 3


def test_brackets_in_texts_and_comments_do_not_count(database):
    sql = f"SELECT '{'(' * 100}' AS \"{'[' * 100}\" -- {'{' * 100}"
    assert database.sql(sql).item() == "(" * 100


@pytest.mark.sampled(9)
@pytest.mark.parametrize("attempt", hostile.ATTEMPTS)
def test_a_database_with_anything_else_in_it_is_refused_and_only_its_rows_are_copied(
    attempt, tmp_path, run
):
    path, copy = hostile.make_hostile(tmp_path, attempt), tmp_path / "copy.duckdb"
    with pytest.raises(tracekit.TracekitError, match=r"good\.duckdb") as refused:
        tracekit.open_database(path)
    said = [str(refused.value)]
    if attempt in hostile.TRACES_ARE_WHOLE:
        with tracekit.load(path, copy, verdicts=False) as database:
            assert database.fetch("SELECT events FROM trace")[1] == [(2,)]
    else:
        with pytest.raises(tracekit.TracekitError) as refused:
            tracekit.load(path, copy)
        assert not copy.exists()
        said.append(str(refused.value))
    done = run("sql", str(path), "SELECT 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "good.duckdb" in done.stderr
    for each in (*said, done.stderr):
        assert len(each.splitlines()) == 1
        assert hostile.SECRET not in each


def test_the_stored_format_is_up_to_date():
    # After a change of tables, facts or views, run python -m tracekit.database.stored
    assert (stored.format_number(), stored.digest(stored.ours())) == (
        catalog.FORMAT,
        catalog.DIGEST,
    )


def test_other_rules_make_another_format(monkeypatch):
    changed = dict(facts.facts())
    changed["gpu_ops"] = replace(changed["gpu_ops"], rows=changed["gpu_ops"].rows + " LIMIT 1")
    monkeypatch.setattr(facts, "facts", lambda: changed)
    assert stored.format_number() != catalog.FORMAT


def test_a_database_that_another_duckdb_lists_differently_is_opened(folder, monkeypatch):
    monkeypatch.setattr("tracekit.database.catalog.DIGEST", "of another version")
    with tracekit.open_database(folder / "good.duckdb") as database:
        assert database.trace_ids() == [1]


def test_the_log_of_a_crashed_client_is_noticed_before_anything_is_replaced(tmp_path, run):
    path = hostile.good(tmp_path)
    before = path.read_bytes()
    logs = ((".wal", []), (".wal.checkpoint", ["--append"]), (".wal.recovery", ["--resume"]))
    for ending, more in logs:
        log = path.with_name(path.name + ending)
        log.write_bytes(b"changes")
        done = run("load", "good.json", "-o", "good.duckdb", *more)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert log.name in done.stderr
        assert path.read_bytes() == before
        log.unlink()
    assert traces.load(tmp_path, hostile.EVENTS).trace_ids() == [1]
