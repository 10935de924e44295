"""Facts: tables that many questions need, derived once after loading.

queries/facts/NAME.sql creates a table and selects its rows. Its header describes a row and lists
the inputs:

-- fact: what a row is
-- needs: other facts that its rows read, unless one of these reads them, too
-- of: such facts, too; if one of them has no rows, this one has none, and nothing is planned
-- when: a condition on the table slice_label: if it holds for no name, there are no rows
-- into: another fact, which gets the rows
-- by: walk: the walk of the host's stacks (tracekit/ingest/derived.py) adds rows
-- by: NAME: the function of that name fills the table
-- scope: all: a row may be about several traces

A table of the database `_scratch` is dropped after the last fact that reads it. Its rows may define
its columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property, partial
from graphlib import TopologicalSorter

import duckdb
from msgspec import Struct

from tracekit.database import catalog, constants, names

_SCRATCH = "_scratch."
_SCRATCHED = re.compile(rf"\b{re.escape(_SCRATCH)}(?P<name>\w+)\b(?: AS (?P<alias>\w+))?(?! AS\n)")
_WALK = "walk"
_END_OF_TABLE = "\n);\n"
# Tables of `_scratch` with fewer rows are kept until all facts are built: dropping takes longer.
_LARGE_ROWS = 50_000
# The fact that other facts' conditions read.
_LABELS = "slice_label"


class Fact(Struct, frozen=True):
    """A derived relation."""

    name: str
    row: str
    """What a row is."""
    table: str
    """The statement that creates the empty table; empty: `rows` creates it, or the table belongs to
    another fact."""
    into: str
    """The other fact that gets the rows; empty: none."""
    rows: str
    """The SQL that selects its rows; empty: a function writes them all."""
    needs: tuple[str, ...]
    of: tuple[str, ...]
    when: str
    by: str
    """Which function adds its rows; empty: none."""
    spans_traces: bool
    is_scratch: bool

    @property
    def place(self) -> str:
        """The table that gets the rows, with its schema."""
        if self.into:
            return facts()[self.into].place
        return f"{_SCRATCH}{self.name}" if self.is_scratch else self.name

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its SQL reads."""
        return (*self.of, *self.needs, *((self.into,) if self.into else ()))


def parse_fact(name: str, text: str) -> Fact:
    """Reads a file of queries/facts."""
    text = constants.with_thresholds(text)
    lines = (line.removeprefix("-- ").partition(": ") for line in catalog.header(text))
    head = {key: value.replace("\n", " ") for key, _, value in lines}
    sql = names.spelled(text)
    into = head.get("into", "")
    table, end, rows = ("", "", sql) if into else sql.rpartition(_END_OF_TABLE)
    return Fact(
        name,
        head["fact"],
        table + end,
        into,
        rows.strip(),
        _names(head.get("needs", "")),
        _names(head.get("of", "")),
        head.get("when", ""),
        head.get("by", "").partition(":")[0],
        head.get("scope") == "all",
        f"CREATE TABLE {_SCRATCH}" in sql,
    )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


@cache
def facts() -> dict[str, Fact]:
    """All facts, by name, each after those that it reads."""
    parsed = {name: parse_fact(name, text) for name, text in catalog.sql_texts("facts").items()}
    reads = {name: fact.reads for name, fact in parsed.items()}
    return {name: parsed[name] for name in TopologicalSorter(reads).static_order()}


def tables() -> str:
    """The statements that create the empty tables."""
    return "\n".join(fact.table for fact in facts().values() if not fact.is_scratch)


def emptied(some: Iterable[Fact]) -> str:
    """The statements that recreate the tables of some facts."""
    statements = "\n".join(fact.table for fact in some if not fact.is_scratch)
    return statements.replace("CREATE TABLE", "CREATE OR REPLACE TABLE")


def over_traces() -> dict[str, Fact]:
    """The facts whose rows may be about several traces, by name."""
    return {name: fact for name, fact in facts().items() if fact.spans_traces}


def rows_over_traces() -> dict[str, str]:
    """The SQL of all rows of each table of such facts, by name; what is dropped after loading is a
    part of it."""
    inner: dict[str, str] = {}
    rows: dict[str, list[str]] = {}
    for fact in over_traces().values():
        sql = _SCRATCHED.sub(lambda found: _inside(found, inner), fact.rows)
        if fact.is_scratch:
            inner[fact.name] = sql.partition(" AS\n")[2]
        elif sql:
            rows.setdefault(fact.into or fact.name, []).append(f"({sql})")
    return {name: " UNION ALL ".join(some) for name, some in rows.items()}


def _inside(found: re.Match[str], inner: Mapping[str, str]) -> str:
    """The rows of an intermediate table in the place of its name."""
    name, alias = found["name"], found["alias"]
    if name not in inner:
        return found[0]
    return f"({inner[name]}) AS {alias or name}"


def about_one_trace() -> list[str]:
    """The tables of facts whose rows are about one trace each."""
    return [
        name
        for name, fact in facts().items()
        if fact.table and not fact.is_scratch and not fact.spans_traces
    ]


class Builder:
    """Fills the tables of facts of one database.

    `until_done` runs a step, and repeats it if memory runs out. `add_names` creates the views and
    macros that SQL mentions. `fill_by` has the functions that fill tables, by name.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        until_done: Callable[[Callable[[], object]], object],
        add_names: Callable[[str], object],
        fill_by: Mapping[str, Callable[[duckdb.DuckDBPyConnection], object]],
    ) -> None:
        self._connection = connection
        self._fill_by = fill_by
        self._add_names = add_names
        self._until_done = until_done
        self._empty: set[str] = set()
        self._large: set[str] = set()

    def build(
        self, walk: Callable[[duckdb.DuckDBPyConnection], object], *, over_traces: bool = True
    ) -> None:
        """Fills all tables, which must be empty; without `over_traces`, only those whose rows are
        about one trace. `walk` adds the rows from the walk of the host's stacks, in its own thread
        with its own cursor."""
        before, walked, meanwhile, after = (
            [fact for fact in phase if over_traces or not fact.spans_traces] for phase in _phases()
        )
        # For intermediate tables, visible to all connections.
        self._connection.execute("ATTACH ':memory:' AS _scratch")
        self._fill(before + walked)
        with self._connection.cursor() as cursor, ThreadPoolExecutor(1) as thread:
            walking = thread.submit(self._until_done, partial(walk, cursor))
            self._fill(meanwhile)
            walking.result()
        for fact in walked:
            self._drop_read_by(fact)
        self._fill(after)
        self._connection.execute("DETACH _scratch")
        self._mark_plugins()

    def build_over_traces(self) -> None:
        """Refills the tables whose rows may be about several traces."""
        spanning = [*over_traces().values()]
        self._connection.execute(emptied(spanning))
        self._connection.execute("ATTACH ':memory:' AS _scratch")
        self._fill(spanning)
        self._connection.execute("DETACH _scratch")

    def _mark_plugins(self) -> None:
        """Records the traces in which plugins' spellings may have determined the meanings of
        names."""
        for plugin, rows in names.spellings_of_plugins().items():
            words = {"plugin": names.literal(plugin.of_version), "matches": names.matching(rows)}
            self._connection.execute(catalog.render_template("write_plugin_names", **words))

    def _fill(self, some: list[Fact]) -> None:
        for fact in some:
            if fact.is_scratch and fact.table:
                self._connection.execute(fact.table)
            if fill := self._fill_by.get(fact.by):
                self._until_done(partial(fill, self._connection))
            if fact.rows:
                count = 0 if self._is_empty(fact) else self._count(fact)
                if not count:
                    self._empty.add(fact.name)
                if fact.is_scratch and count >= _LARGE_ROWS:
                    self._large.add(fact.name)
            if fact.rows or fact.by != _WALK:
                self._drop_read_by(fact)

    def _drop_read_by(self, fact: Fact) -> None:
        """Drops the large intermediate tables that this fact was the last to read."""
        if self._large:
            for name in self._large.intersection(_last_read().get(fact.name, ())):
                self._connection.execute(f"DROP TABLE {_SCRATCH}{name}")
                self._large.remove(name)

    def _is_empty(self, fact: Fact) -> bool:
        """Whether the fact certainly has no rows, without running its query."""
        is_impossible = bool(fact.when) and fact.name not in self._possible
        return is_impossible or not self._empty.isdisjoint(fact.of)

    def _count(self, fact: Fact) -> int:
        """Fills a table; returns the number of its rows."""
        sql = f"INSERT INTO {fact.place}\n{fact.rows}" if fact.table or fact.into else fact.rows
        self._add_names(sql)
        counts: list[tuple[int]] = []
        self._until_done(lambda: counts.extend(self._connection.execute(sql).fetchall()))
        return counts[0][0]

    @cached_property
    def _possible(self) -> set[str]:
        """The facts whose condition holds for some name."""
        conditions = {fact.name: fact.when for fact in facts().values() if fact.when}
        asked = ", ".join(f"bool_or({condition})" for condition in conditions.values())
        self._add_names(asked)
        # A trace without slices has no label, but conditions on other tables may hold.
        every = f"(FROM {_LABELS} UNION ALL BY NAME SELECT NULL::BIGINT AS label_id)"
        rows = self._connection.execute(f"SELECT {asked} FROM {every}").fetchall()
        return {name for name, holds in zip(conditions, rows[0], strict=True) if holds}


def _phases() -> tuple[list[Fact], list[Fact], list[Fact], list[Fact]]:
    """The facts that the walk needs, those that it adds rows to, those that can be built while it
    runs, and those that read its rows."""
    ordered = list(facts().values())
    needed, waiting = set[str](), set[str]()
    for fact in reversed(ordered):
        if fact.by == _WALK or fact.name in needed:
            needed.update(fact.reads)
    for fact in ordered:
        if fact.by == _WALK or not waiting.isdisjoint(fact.reads):
            waiting.add(fact.name)
    walked = [fact for fact in ordered if fact.by == _WALK]
    free = [fact for fact in ordered if fact.name not in waiting]
    return (
        [fact for fact in free if fact.name in needed],
        walked,
        [fact for fact in free if fact.name not in needed],
        [fact for fact in ordered if fact.name in waiting and fact.by != _WALK],
    )


@cache
def _last_read() -> dict[str, list[str]]:
    """For each fact, the intermediate tables that no later one reads. A fact without SQL reads what
    it needs."""
    last = {}
    for fact in (fact for phase in _phases() for fact in phase):
        read = _SCRATCHED.findall(fact.rows) if fact.rows else [(name,) for name in fact.reads]
        last.update({name: fact.name for name, *_ in read})
    found: dict[str, list[str]] = {}
    for name, reader in last.items():
        found.setdefault(reader, []).append(name)
    return found
