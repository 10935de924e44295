"""The query files: each header says what it answers, in a form that tools read."""

import re
from collections import Counter
from pathlib import Path

import duckdb

import tracekit
from tests.conftest import OWN_TRACES
from tracekit.database import catalog, constants, facts, packaged, stored
from tracekit.database.remedies import all_remedies
from tracekit.opening import _ASKS_VERDICTS

ALL = sorted(catalog.queries().values(), key=lambda query: query.name)

VIEWS = Path(__file__).parents[2] / "queries" / "views"


def with_vocabulary(sql: str) -> str:
    """The SQL with that of the views and macros that it uses, directly or through others."""
    used, new = set[str](), {sql}
    while new:
        used |= new
        words = {word for each in new for word in re.findall(r"\w+", each)}
        new = {catalog.vocabulary()[each] for each in words & catalog.vocabulary().keys()} - used
    return "\n".join(used)


def test_every_sql_and_csv_file_is_read():
    files = [*packaged.root().glob("*.csv"), *packaged.root().glob("*/*.[sc][qs][lv]")]
    whole = {each.relative_to(packaged.root()).as_posix(): each.read_text() for each in files}
    assert packaged.texts() == whole


def test_every_query_file_documents_itself():
    assert {query.name: found for query in ALL if (found := list(faults(query)))} == {}


def faults(query):
    """Gaps in a file's header, and contradictions to its SQL."""
    if not query.question.endswith("?"):
        yield f"the question has no question mark: {query.question}"
    if not query.columns or not all(column.unit and column.help for column in query.columns):
        yield "a column has no unit or no description"
    body = "\n".join(line for line in query.sql.splitlines() if not line.startswith("--"))
    whole = with_vocabulary(body)
    read = set(re.findall(r"getvariable\('(\w+)'\)", whole))
    if read != {each.name for each in query.parameters}:
        yield f"its parameters are {read}"
    for parameter in query.parameters:
        if parameter.default == "all":
            continue
        name = parameter.name
        found = set(re.findall(rf"getvariable\('{name}'\), ([^\s,]+?)\)(?!\.)", whole))
        default = ", ".join(found)
        judged = constants.thresholds().get(default.removeprefix("thresholds()."))
        if parameter.default != (default if judged is None else str(judged)):
            yield f"the default of {name} is {default}"
    if ";" in body:
        yield "it has a semicolon"


def test_each_question_and_remedy_says_which_version_had_it_first():
    def number(version: str) -> tuple[int, ...]:
        return tuple(map(int, version.split(".")))

    for each in (*catalog.queries().values(), *all_remedies().values()):
        assert (0, 1) <= number(each.since) <= number(tracekit.__version__), each.name


def test_headers_share_what_they_have_in_common():
    parameters, columns = catalog._common()
    asked = {"param": Counter[str](), "column": Counter[str]()}
    for query in ALL:
        shared = catalog._OF_REMEDIES if query.topic == "remedies" else ()
        header = "\n".join([*shared, query.sql.replace("\n--     ", " ")])
        for kind, names in re.findall(r"^-- (param|column)s (.*)", header, flags=re.MULTILINE):
            asked[kind].update(names.split(", "))
        for line in header.splitlines():
            if match := catalog._COLUMN.fullmatch(line):
                assert catalog.Column(*match.groups()) not in columns.values(), (query.name, line)
            elif match := catalog._PARAMETER.fullmatch(line):
                own = catalog._parameter(*match.groups())
                assert own not in parameters.values(), (query.name, line)
    assert {name for name, times in asked["param"].items() if times > 1} == set(parameters)
    assert {name for name, times in asked["column"].items() if times > 1} == set(columns)


def test_columns_of_time_are_integer_nanoseconds():
    for query in ALL:
        for column in query.columns:
            assert (column.unit == "ns") == column.name.endswith("_ns"), (query.name, column.name)
            if column.name.startswith("share"):
                assert column.unit.startswith("fraction of"), (query.name, column.name)


def test_one_name_for_a_start_and_for_a_launch():
    with duckdb.connect() as connection:
        stored.create_tables(connection, with_views=True)
        listed = connection.execute(
            "SELECT table_name, list(column_name) FROM duckdb_columns() "
            "WHERE NOT internal GROUP BY ALL"
        ).fetchall()
    listed += [(query.name, [column.name for column in query.columns]) for query in ALL]
    for name, columns in listed:
        assert {"end_ns", "dur_ns"}.isdisjoint(columns) or "at_ns" not in columns, name
        ids = {each for each in columns if re.fullmatch(r"launch_\w*id", each)}
        assert {"from_ns", "to_ns"}.isdisjoint(columns) and ids <= {"launch_id"}, name


def test_rows_of_equal_traces_keep_their_order():
    for query in ALL:
        body = "\n".join(line for line in query.sql.splitlines() if not line.startswith("--"))
        limited = r"ORDER BY ((?:(?!ORDER BY).)+?)\s+LIMIT coalesce"
        orders = [body.rpartition("ORDER BY")[2], *re.findall(limited, body, flags=re.DOTALL)]
        if any(column.name == "trace_id" for column in query.columns):
            for order in orders:
                message = f"{query.name}: trace_id has to be in ORDER BY {order}"
                assert re.search(r"\b(trace_id|key|lane)\b", order), message


def test_each_doubt_of_a_question_is_a_known_finding():
    text = "".join(catalog.query(name).sql for name in ("health", "missing"))
    text += "".join(f.rows for f in facts.facts().values() if f.into == "recorder_finding")
    for query in ALL:
        is_free = query.topic in ("trace", "crosscheck")
        assert query.doubts or is_free, f"{query.name}: its header has no line `-- doubts: CODE`"
        unknown = [code for code in query.doubts if f"'{code}'" not in text]
        assert not unknown, f"{query.name}: no findings of `health`: {unknown}"


def test_no_question_hides_a_method_of_the_database():
    assert not set(catalog.queries()) & set(vars(tracekit.Database))


def test_three_questions_alone_read_verdicts_and_make_a_trace_be_judged():
    """A question's relation with the name of such a table would be mistaken for it."""
    asking = {name for name, each in catalog.queries().items() if _ASKS_VERDICTS.search(each.sql)}
    assert asking == {"exposed_collectives", "one_offs", "who_waits"}


def test_a_fact_says_what_a_row_is_and_reads_only_what_it_names():
    found = facts.facts()
    for name, fact in found.items():
        assert fact.row.endswith("."), name
        assert set(fact.reads) < found.keys(), name
        code = re.sub(r"--.*", "", fact.rows)
        read = set(re.findall(r"\b(?:FROM|JOIN) (?:_scratch\.)?(\w+)", code)) & found.keys()
        assert read <= upstream(name), name


def upstream(name: str) -> set[str]:
    """The facts that a fact reads, directly or through others."""
    direct = facts.facts()[name].reads
    return {*direct, *(each for other in direct for each in upstream(other))}


def test_every_view_file_is_built():
    assert {file.stem for file in VIEWS.glob("*.sql")} == set(catalog.VOCABULARY)


def test_the_columns_that_the_vocabulary_lists_are_those_of_the_tables():
    page = (packaged.root() / "README.md").read_text("utf-8")
    part = page.partition("### Columns\n")[2].partition("###")[0]
    said = {
        name: re.findall(r"`(\w+)`", columns)
        for name, columns in re.findall(r"^- `(\w+)`: ((?:.|\n  )+)", part, re.M)
    }
    with tracekit.load(OWN_TRACES / "simulated-overhead-bound.json.gz") as run:
        rows = run.fetch(
            "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
            "WHERE NOT internal AND schema_name = 'main' GROUP BY table_name"
        )[1]
    found = dict(rows)
    assert said and said == {name: found[name] for name in said}
