"""tracekit's SQL: schema, views and named questions."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from string import Template

from msgspec import Struct
from msgspec.structs import replace

from tracekit import plugins
from tracekit.database import constants, packaged
from tracekit.errors import TracekitError, explained
from tracekit.plugins import Plugin
from tracekit.text import suggestion

Value = str | int | float | bool | None

# The files of queries/views. Each may use what the files before it define.
VOCABULARY = (
    "measures", "names", "intervals", "categories", "devices", "host", "units", "windows", "origin",
    "inside", "paths", "places", "memory", "queue", "peaks", "graphs", "work", "serving", "grids",
    "collectives", "cpu", "runs", "hta",
)  # fmt: skip

# The tables that judging fills.
VERDICTS = ("verdict", "evidence", "one_off", "advice", "host_wait")

# The folders of queries with their subjects, in listing order.
TOPICS = {
    "trace": "Contents of the trace, and reasons to doubt its numbers",
    "time": "Where device time goes",
    "idle": "Why the device is idle",
    "host": "What the host does",
    "memory": "Bytes: copied, allocated, read and written",
    "roofline": "Work compared with the device's peaks",
    "communication": "Collectives, and comparisons between ranks",
    "graphs": "CUDA graphs",
    "remedies": "Possible changes, and the parts of the run that each would affect",
    "replay": "The run as a graph of host and device work, which what-if replays",
    "counters": "Hardware counters",
    "diff": "Comparisons of two traces",
    "sweep": "Workloads at many sizes and in many variants",
    "crosscheck": "Numbers by the rules of other tools",
}


def schema(name: str) -> str:
    """The SQL of queries/schema/NAME.sql, which only Python runs."""
    return constants.with_thresholds(packaged.text(f"schema/{name}.sql"))


def render_template(name: str, **values: object) -> str:
    """The SQL of queries/schema/NAME.sql with its $words replaced by values."""
    # $words in comments only explain them.
    sql = "\n".join(line for line in schema(name).splitlines() if not line.startswith("--"))
    return Template(sql).substitute(values)


@cache
def vocabulary() -> dict[str, str]:
    """The statements that create macros and views, by name, each after those that it uses:
    constants that Python uses too, then those of queries/views.

    Thresholds are inlined as numbers: DuckDB plans the questions 17 % faster than with struct
    lookups.
    """
    texts = (constants.with_thresholds(packaged.text(f"views/{name}.sql")) for name in VOCABULARY)
    statements = {}
    for text in (constants.macros(), *texts):
        for part in text.split(_CREATE)[1:]:
            # A macro or view, its name, and what it is.
            name = part.split(maxsplit=2)[1].partition("(")[0]
            statements[name] = _CREATE + part[: part.index(_END) + 1]
    return statements


def sql_texts(topic: str) -> dict[str, str]:
    """The SQL files of a folder, by name without the ending."""
    return {name: packaged.text(f"{topic}/{name}.sql") for name in packaged.stems(topic)}


@cache
def remedy_texts() -> dict[str, str]:
    """The texts of queries/remedies and plugins' remedies, by file name without ending. A remedy
    without a query is only a header."""
    added = {name: each.sql for name, each in _added().items() if each.topic == "remedies"}
    return sql_texts("remedies") | added


# Integers that parameters take: instants of DuckDB's 64 bits with room to add, parts of an
# interval, and numbers and counts.
_MOST_NS, _MOST_BINS, _MOST_COUNT = 2**62, 100_000, 2**31 - 1
_CALL = re.compile(r"\b([a-z]\w*)\s*\(\s*\)")
_FORMAT_FILE = packaged.root() / "schema" / "format.txt"

# A number made from all tables, facts and views (tracekit/database/stored.py), stored in each
# database, and the digest of the catalog that such a database has. Queries work only on databases
# of this format.
FORMAT, DIGEST = (
    kind(line)
    for kind, line in zip((int, str), _FORMAT_FILE.read_text("ascii").split(), strict=True)
)


def write_format(number: int, digest: str) -> None:
    _FORMAT_FILE.write_text(f"{number}\n{digest}\n", encoding="ascii")


class Parameter(Struct, frozen=True):
    """A DuckDB variable that a query reads, and the default in its SQL.

    If the SQL says `thresholds().NAME`, `default` is that number.
    """

    name: str
    type: str
    default: str
    help: str

    @property
    def shown_default(self) -> Value:
        """The default if it is a number; otherwise None."""
        return int(self.default) if self.default.isdecimal() else None

    def convert(self, value: Value) -> Value:
        if self.type != "integer" or value is None:
            return value
        try:
            number = int(value)
        except (ValueError, OverflowError):
            number = None
        if number is None or (isinstance(value, float) and number != value):
            raise TracekitError(f"parameter {self.name} is an integer, not {value!r}")
        least, most = self.range
        if not least <= number <= most:
            raise TracekitError(
                f"parameter {self.name} is from {least:,} to {most:,}, not {str(number)[:40]}"
            )
        return number

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and largest integer allowed: others would make the SQL fail or run
        forever."""
        if self.name.endswith("_segment"):
            return 0, 2**63 - 1
        if self.name.endswith("_ns"):
            return -_MOST_NS, _MOST_NS
        return (1, _MOST_BINS) if self.name == "bins" else (0, _MOST_COUNT)


class Column(Struct, frozen=True):
    """A column that a query returns."""

    name: str
    unit: str
    help: str


class Query(Struct, frozen=True):
    """A question and the SQL that answers it."""

    name: str
    topic: str
    question: str
    sql: str
    parameters: tuple[Parameter, ...] = ()
    columns: tuple[Column, ...] = ()
    # Codes of findings (queries/trace/health.sql) that make the result doubtful.
    doubts: tuple[str, ...] = ()
    # The first version of tracekit that has it.
    since: str = ""
    # The plugin that provides it; None: tracekit.
    plugin: Plugin | None = None

    @property
    def as_function(self) -> str:
        """The statement that makes it a table function, for one connection. Its parameters are
        variables (SET VARIABLE top = 5)."""
        return f"CREATE OR REPLACE TEMP MACRO {self.name}() AS TABLE {self.sql.rstrip()}"

    @property
    def description(self) -> str:
        """The question, its parameters and its columns, for a reader."""
        lines = [self.question, ""]
        for one in self.parameters:
            lines.append(f"{one.name} ({one.type}, default {one.default}): {one.help}")
        lines += ["", "Columns of each row:"]
        lines += [f"{each.name} ({each.unit}): {each.help}" for each in self.columns]
        lines += ["", f"Since version {self.since}."] if self.since else []
        return "\n".join(lines)

    def check_parameters(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The given parameter values, converted to the parameters' types.

        Raises:
            TracekitError: for an unknown parameter or a value of the wrong type.
        """
        by_name = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in by_name:
                takes = ", ".join(by_name) or "none"
                raise TracekitError(
                    f"query {self.name} has no parameter {name!r}; it takes: {takes}"
                    + suggestion(name, by_name)
                )
        return {name: by_name[name].convert(value) for name, value in given.items()}

    def check_columns(self, names: Sequence[str]) -> list[str]:
        """Checks that all names are columns of the answer, and returns them.

        Raises:
            TracekitError: for an unknown column.
        """
        known = [column.name for column in self.columns]
        for name in names:
            if name not in known:
                raise TracekitError(
                    f"query {self.name} has no column {name!r}; it has {', '.join(known)}"
                    + suggestion(name, known)
                )
        return list(names)


_CREATE, _END = "CREATE OR REPLACE ", ";\n"
_QUESTION = "-- question: "
_NAMES = re.compile(r"-- (param|column)s (.*)")
_WHEN = "-- when: "
_UNLESS, _FRAMEWORKS = "-- unless: ", "-- frameworks: "
_PARAMETER = re.compile(r"-- param (\w+) \((\w+), default (.*?)\): (.*)")
_COLUMN = re.compile(r"-- column (\w+) \((.*?)\): (.*)")
_DOUBTS = "-- doubts: "
# The columns of each query in queries/remedies, and the order of its rows.
_OF_REMEDIES = (
    "-- params trace",
    "-- columns trace_id, place, detail, target, event_id, pid, tid, start_ns, dur_ns, factor",
)
_ORDER_OF_REMEDIES = "ORDER BY trace_id, place, start_ns, target, pid, tid\n"
# The header lines of all other queries, without the line `_OF_SEVERAL`.
_OF_A_TRACE = ("-- params trace", "-- columns trace_id")
_OF_SEVERAL = "-- of: several traces"


def _parameter(name: str, type_of: str, default: str, help: str) -> Parameter:
    judged = constants.thresholds().get(default.removeprefix("thresholds()."))
    return Parameter(name, type_of, default if judged is None else str(judged), help)


@cache
def _common() -> tuple[dict[str, Parameter], dict[str, Column]]:
    """The parameters and columns of queries/columns.csv, by name; parameters have a default."""
    parameters, columns = {}, {}
    lines = packaged.text("columns.csv").splitlines()
    for name, unit, default, meaning in list(csv.reader(lines))[1:]:
        if default:
            parameters[name] = _parameter(name, unit, default, meaning)
        else:
            columns[name] = Column(name, unit, meaning)
    return parameters, columns


def common_columns() -> Iterable[Column]:
    """The columns that queries/columns.csv describes."""
    return _common()[1].values()


def limits_rows(question: Query) -> bool:
    """Whether `top` limits the number of rows. If it counts something else, the header says so."""
    return _common()[0]["top"] in question.parameters


def header(sql: str) -> list[str]:
    """The comments before the first line of SQL. An empty comment line, or one indented by four
    more spaces, continues the one before."""
    comments: list[str] = []
    for line in takewhile(lambda line: line.startswith("--"), sql.splitlines()):
        if line == "--" or line.startswith("--     "):
            comments[-1] += "\n" + line[7:]
        else:
            comments.append(line)
    return comments


def parse_query(name: str, topic: str, sql: str) -> Query:
    """Reads a query file's header.

    The first line is `-- question: ...`, followed by `-- since: VERSION` of tracekit. Then come, in
    the order in which the query takes and returns them, `-- params NAME, NAME` and `-- columns
    NAME, NAME` for those that queries/columns.csv describes, and `-- param NAME (TYPE, default X):
    what` and `-- column NAME (UNIT): what` for those whose meaning here differs. Then come `--
    when: CONDITION` (see `conditions`), `-- doubts: CODE, CODE` (findings of the query `health`
    that make the result doubtful) and any other comment lines, up to the first line of SQL. A
    comment line indented by four more spaces continues the line before. All remedies take and
    return the same, in the same order: their headers describe only what differs, and their SQL
    neither sorts nor leaves out the traces that the header excludes (see `_unless`). Any other
    query takes the parameter `trace` and returns `trace_id` first, unless its header says `-- of:
    several traces`.

    Raises:
        TracekitError: queries/columns.csv does not describe a name that the header takes from it.
    """
    question, doubts, since = "", "", ""
    parameters: dict[str, Parameter] = {}
    columns: dict[str, Column] = {}
    common_parameters, common_columns = _common()
    shared = () if _OF_SEVERAL in sql else _OF_A_TRACE
    comments = header(sql)
    if topic == "remedies":
        shared = _OF_REMEDIES
        if unless := _unless(comments):
            excluded = f"SELECT trace_id FROM setting WHERE {unless}"
            sql = f"FROM (\n{sql.rstrip()}\n)\nWHERE trace_id NOT IN ({excluded})"
        sql = f"{sql.rstrip()}\n{_ORDER_OF_REMEDIES}"
    for line in (comment.replace("\n", " ") for comment in (*shared, *comments)):
        if line.startswith(_QUESTION):
            question = line.removeprefix(_QUESTION)
        elif line.startswith("-- since: "):
            since = line.removeprefix("-- since: ")
        elif match := _NAMES.fullmatch(line):
            names = match[2].split(", ")
            described = common_parameters if match[1] == "param" else common_columns
            if unknown := [each for each in names if each not in described]:
                raise TracekitError(
                    f"queries/{topic}/{name}.sql: queries/columns.csv has no {match[1]} "
                    f"{unknown[0]}; describe it in the header: `-- {match[1]} {unknown[0]} (...)`"
                )
            if match[1] == "param":
                parameters |= {each: common_parameters[each] for each in names}
            else:
                columns |= {each: common_columns[each] for each in names}
        elif match := _PARAMETER.fullmatch(line):
            parameters[match[1]] = _parameter(*match.groups())
        elif match := _COLUMN.fullmatch(line):
            columns[match[1]] = Column(*match.groups())
        elif line.startswith(_DOUBTS):
            doubts = line.removeprefix(_DOUBTS)
    codes = tuple(code.strip() for code in doubts.split(",") if code.strip())
    takes, returns = tuple(parameters.values()), tuple(columns.values())
    return Query(name, topic, question, sql, takes, returns, codes, since)


@cache
def _topics() -> dict[str, str]:
    """The topic of each named query, grouped by topic."""
    return {
        name: topic
        for topic in TOPICS
        for name in (*packaged.stems(topic), *(n for n, a in _added().items() if a.topic == topic))
        if topic != "remedies" or remedy_texts()[name].startswith(_QUESTION)
    }


def _text(name: str, topic: str) -> str:
    return _added()[name].sql if name in _added() else packaged.text(f"{topic}/{name}.sql")


def plugin_of(name: str) -> Plugin | None:
    """The plugin that provides the query or remedy with this file name; None: tracekit."""
    return _added()[name].plugin if name in _added() else None


@cache
def _added() -> dict[str, plugins.PluginQuery]:
    """The queries and remedies of plugins, by file name."""
    return plugins.added_queries(TOPICS, _own_names, _check)


def _own_names() -> Iterator[str]:
    return (name for topic in TOPICS for name in packaged.stems(topic))


def _check(name: str, topic: str, sql: str) -> None:
    """Checks the header of a plugin's query or remedy.

    Raises:
        TracekitError: when its header or its thresholds are wrong.
    """
    parsed = parse_query(name, topic, sql)
    if (topic != "remedies" or parsed.question) and not (parsed.question and parsed.columns):
        raise TracekitError("its header has no question, or no columns")
    with explained("there is no threshold with this name", KeyError):
        constants.with_thresholds(sql)


def texts_of_plugins() -> dict[str, str]:
    """The SQL that plugins add, by file name."""
    return {name: each.sql for name, each in _added().items()}


def queries() -> dict[str, Query]:
    """All named queries, by name, grouped by topic."""
    return {name: query(name) for name in _topics()}


def called(sql: str) -> list[Query]:
    """The questions that SQL calls as table functions."""
    return [query(name) for name in dict.fromkeys(_CALL.findall(sql.lower())) if is_query(name)]


def variables(called: Iterable[Query], given: Mapping[str, Value]) -> dict[str, Value]:
    """The given parameters of the questions that SQL calls, converted to their types.

    Raises:
        TracekitError: when no question has such a parameter, or a value is of the wrong type.
    """
    known = {one.name: one for question in called for one in question.parameters}
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "none: it calls no question, such as top_kernels()"
            raise TracekitError(f"the SQL has no parameter {name!r}; it takes: {takes}")
    return {name: known[name].convert(value) for name, value in given.items()}


def is_query(name: str) -> bool:
    """Whether a query has this name."""
    return name in _topics()


def functions() -> str:
    """Statements that make each question a table function on a connection to a database."""
    return "".join(f"{each.as_function};\n" for each in queries().values())


def matching(words: str) -> list[Query]:
    """The queries whose name or question contains all the words."""
    return [
        each
        for each in queries().values()
        if contains_all(f"{each.name} {each.question}", words.split())
    ]


def contains_all(text: str, words: Iterable[str]) -> bool:
    """Whether a text contains all words; names may be written with spaces."""
    searched = text.lower()
    spaced = searched.replace("_", " ")
    return all(each.lower() in searched or each.lower() in spaced for each in words)


def _unless(comments: Iterable[str]) -> str:
    """The condition on the table `setting` by which a remedy's header excludes traces: `-- unless:
    CONDITION`, or another framework than those of `-- frameworks: NAME, NAME`; empty: none."""
    conditions = []
    for line in (comment.replace("\n", " ") for comment in comments):
        if line.startswith(_UNLESS):
            conditions.append(line.removeprefix(_UNLESS))
        elif line.startswith(_FRAMEWORKS):
            known = ", ".join(f"'{each}'" for each in line.removeprefix(_FRAMEWORKS).split(", "))
            conditions.append(f"name = 'framework' AND value NOT IN ({known})")
    return " OR ".join(conditions)


class Condition(Struct, frozen=True):
    """Whether a query may have rows."""

    when: tuple[str, ...]
    """SQL on the table slice_label: each has to hold for some name."""
    unless: str
    """SQL on the table setting: it must not hold for each trace; empty: none."""


@cache
def conditions() -> dict[str, Condition]:
    """The conditions in the headers of queries, by query name: `-- when: ...`, with semicolons
    between several, and the settings that exclude a remedy."""
    found = {}
    for name, topic in _topics().items():
        comments = header(_text(name, topic))
        when = next((each for each in comments if each.startswith(_WHEN)), "")
        parts = tuple(when.removeprefix(_WHEN).replace("\n", " ").split("; ")) if when else ()
        unless = _unless(comments) if topic == "remedies" else ""
        if parts or unless:
            found[name] = Condition(parts, unless)
    return found


@cache
def query(name: str) -> Query:
    """The query called `name`.

    Raises:
        TracekitError: when no query has that name.
    """
    topic = _topics().get(name)
    if topic is None:
        similar = suggestion(name, _topics())
        raise TracekitError(
            "there is no query named "
            f"{name!r}{similar or '; `tracekit query --list` shows all names'}"
        )
    loaded, plugin = parse_query(name, topic, _text(name, topic)), plugin_of(name)
    return (
        replace(loaded, question=plugin.mark(loaded.question), plugin=plugin) if plugin else loaded
    )
