"""The tables and views of a database in words: what a row is, and the columns with their units."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tracekit.database import catalog, facts, packaged
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    from tracekit.database.session import Session

_ASKED = re.compile(
    r"\s*(?:\.schema|\.tables|(?:desc|describe|show)\b(?!\s+select\b))\s*([\w\s]*?)\s*;?\s*",
    re.IGNORECASE,
)
_ROW = re.compile(r"^\| (`.*?) \| (.*) \|$", re.MULTILINE)
_DEFINED = re.compile(
    r"^CREATE (?:OR REPLACE )?(TABLE|VIEW|MACRO)(?: IF NOT EXISTS)? (?:\w+\.)?(\w+)", re.MULTILINE
)
_COMMENTED = re.compile(r"^    (?:.*, )?(\w+) +[A-Z][^-\n]*?,? *-- (.*)$", re.MULTILINE)
_UNITS = {"_ns": "ns", "_bytes": "bytes", "_bytes_per_s": "bytes/s", "_flops": "FLOPs"}


def asked(statement: str) -> str | None:
    """The words of a statement that asks for the schema, such as `.schema kernels`; None: another
    statement."""
    found = _ASKED.fullmatch(statement)
    return None if found is None else re.sub(r"^(all )?tables$", "", found[1], flags=re.IGNORECASE)


def schema(session: Session, words: str) -> str:
    """The tables with what a row is; with words, the columns of the table of that name, or else
    of the tables whose names have the words, or else the columns that have them.

    Raises:
        TracekitError: when nothing has the words.
    """
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in session.fetch(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE NOT internal AND schema_name = 'main' ORDER BY table_name, column_index"
    )[1]:
        tables.setdefault(table, []).append((column, kind))
    wanted = words.lower().split()
    if not wanted:
        width = max(map(len, tables))
        return "".join(
            f"{each:<{width}}  {rows().get(each, '')}".rstrip() + "\n" for each in tables
        )
    named = [words] if words in tables else [t for t in tables if catalog.contains_all(t, wanted)]
    chosen = {
        table: [each for each in columns if named or catalog.contains_all(each[0], wanted)]
        for table, columns in tables.items()
        if not named or table in named
    }
    parts = [_columns(table, columns) for table, columns in chosen.items() if columns]
    if not parts:
        raise TracekitError(f"no table or column contains {words!r}: .schema lists the tables")
    return "\n".join(parts)


def _columns(table: str, columns: list[tuple[str, str]]) -> str:
    # The values of an ENUM are in the column's meaning.
    lines = [(name, kind.partition("('")[0], *described(table, name)) for name, kind in columns]
    widths = [max(len(line[at]) for line in lines) for at in range(3)]
    heading = f"{table}: {rows()[table]}" if table in rows() else table
    text = (
        "  " + "  ".join((*map(str.ljust, line[:3], widths), line[3])).rstrip() for line in lines
    )
    return "\n".join((heading, *text)) + "\n"


def described(table: str, column: str) -> tuple[str, str]:
    """The unit and the meaning of a column."""
    unit, meaning = _common().get(column, ("", ""))
    by_name = next((unit for end, unit in _UNITS.items() if column.endswith(end)), "")
    return by_name or unit, comments().get((table, column)) or meaning


@cache
def _common() -> dict[str, tuple[str, str]]:
    return {each.name: (each.unit, each.help) for each in catalog.common_columns()}


@cache
def rows() -> dict[str, str]:
    """What a row of each table or view is, from queries/README.md or a fact's header."""
    found = {name: fact.row for name, fact in facts.facts().items()}
    for names, text in _ROW.findall((packaged.root() / "README.md").read_text("utf-8")):
        listed = re.findall(r"`(\w+)`", names)
        meanings = text.split("; ")
        for place, name in enumerate(listed):
            is_own = len(meanings) == len(listed)
            found[name] = meanings[place] if is_own else text
    return found


@cache
def comments() -> dict[tuple[str, str], str]:
    """The comment beside a column where its table is created."""
    texts = [catalog.schema("tables"), *(fact.table for fact in facts.facts().values())]
    parts = re.split(_DEFINED, "\n".join(texts))
    # The text before the first definition; then, for each, its kind, its name and its text.
    return {
        (parts[place + 1], column): said
        for place in range(1, len(parts), 3)
        for column, said in _COMMENTED.findall(parts[place + 2])
    }
