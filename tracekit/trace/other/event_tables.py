"""Queries that turn the tables of a profiler's database into events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from tracekit.native.rows import EventQuery, Field, Role, RoleKind, Word
from tracekit.trace.other.sqlite import Tables

# Arguments that link events.
_LINKS = {"device": Field.DEVICE, "stream": Field.STREAM, "correlation": Field.CORRELATION}
_CONSTANT = re.compile(r"'([^']*)'")
# The SQL of a query's column, and its role in the event.
Part = tuple[str, Role]


class TableWords(Struct, frozen=True):
    """How a profiler's tables spell what they say."""

    strings: str
    """The table of texts, with the columns id and value."""
    texts: Sequence[str]
    """Columns with the number of a text."""
    renamed: Mapping[str, str]
    """Columns that are arguments of another name."""
    own: frozenset[str]
    """Columns with an event's times, process and thread, which are no arguments."""


class EventTable(Struct):
    """A table whose rows are events: the SQL of their parts, over rows `t`."""

    table: str
    category: str
    name: str = ""
    pid: str = ""
    """If missing, the rows' globalTid or device gives process and thread."""
    tid: str = "0"
    phase: str = "'X'"
    start: str = "t.start"
    end: str = "t.end"
    where: str = "TRUE"
    args: dict[str, str] = field(default_factory=dict)
    """Arguments computed from columns."""
    more: list[Part] = field(default_factory=list)
    used: Sequence[str] = ()
    """Columns fully covered by the parts above."""
    rows: str = "mine"
    """A relation that adds columns to `mine`, the process's rows."""


def query(tables: Tables, source: EventTable, mine: str, words: TableWords) -> EventQuery:
    """A query for the events in the rows for which `mine` holds."""
    columns = tables.columns[source.table]
    parts = [_number(Field.TS, source.start)]
    if source.end != "t.end" or "end" in columns:
        parts.append((source.end, Role(RoleKind.END)))
    label = {Word.PHASE: source.phase, Word.CATEGORY: source.category, Word.NAME: source.name}
    parts += [_word(place, sql) for place, sql in label.items() if sql]
    if source.pid:
        parts += [_number(Field.PID, source.pid), _number(Field.TID, source.tid)]
    elif "globalTid" in columns:
        parts.append(("t.globalTid", Role(RoleKind.THREAD)))
    for column in columns:
        if column not in {*source.used, *words.own}:
            value = string(column) if column in words.texts else f't."{column}"'
            parts.append(member(words.renamed.get(column, column), value))
    parts += [member(key, value) for key, value in source.args.items()]
    parts += source.more
    selected = [sql for sql, role in parts if role.kind != RoleKind.CONSTANT]
    joins = " ".join(
        f'LEFT JOIN {words.strings} AS "{_joined(column)}" ON "{_joined(column)}".id = t."{column}"'
        for column in words.texts
        if any(string(column) in each for each in selected)
    )
    return EventQuery(
        f"WITH mine AS (SELECT * FROM {source.table} WHERE {mine})",
        selected,
        f"FROM {source.rows} AS t {joins} WHERE ({source.where}) AND {source.start} IS NOT NULL",
        [role for _, role in parts],
    )


def _joined(column: str) -> str:
    return f"text of {column}"


def string(column: str) -> str:
    """The text whose number is in a column, by a join."""
    return f'"{_joined(column)}".value'


def member(key: str, sql: str) -> Part:
    return sql, Role(RoleKind.MEMBER, _LINKS.get(key, -1), f",{json.dumps(key)}:")


def array(key: str, columns: Sequence[str]) -> list[Part]:
    """An argument that is an array of integers."""
    first, *middle, last = columns
    return [
        (first, Role(RoleKind.ITEM, before=f",{json.dumps(key)}:[")),
        *((column, Role(RoleKind.ITEM, before=",")) for column in middle),
        (last, Role(RoleKind.ITEM, before=",", after="]")),
    ]


def _word(place: Word, sql: str) -> Part:
    constant = _CONSTANT.fullmatch(sql)
    return sql, Role(RoleKind.CONSTANT, place, constant[1]) if constant else Role(
        RoleKind.WORD, place
    )


def _number(place: Field, sql: str) -> Part:
    return sql, Role(RoleKind.NUMBER, place)


def cases(column: str, names: Sequence[str], first: int) -> str:
    whens = " ".join(f"WHEN {number} THEN '{name}'" for number, name in enumerate(names, first))
    return f"CASE {column} {whens} ELSE 'Unknown' END"
