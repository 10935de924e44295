"""The meanings of names: the spellings in queries/names, as SQL expressions and a view.

A row in these files gives names that match `pattern` a `meaning` in one respect, the `facet`, for
events of `kinds` (of any kind, if empty). Within a facet, the match with the lowest rank decides;
traits are an exception: an event has every trait that matches.

Plugins may add such files. A database records which plugins' patterns match its names; the stored
view contains tracekit's patterns.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tracekit import plugins
from tracekit.database import packaged
from tracekit.errors import TracekitError, explained
from tracekit.plugins import Plugin

# Functions that facts may call, each with its facet and the meaning of names that no pattern
# matches. A kind follows from the category, too.
_FUNCTIONS = {
    "event_kind": ("kind", "'other'"),
    "call_of": ("call", "'other'"),
    "slice_activity": ("activity", "'untraced'"),
    "kernel_class": ("class", "'other'"),
    "work_kind": ("work", "NULL"),
    "compiled_part": ("compiled", "NULL"),
    "expert_part": ("expert", "NULL"),
    "number_format": ("format", "NULL"),
    "attention_backend": ("backend", "NULL"),
    "collective_type": ("collective", "NULL"),
    "device_lane": ("lane", "NULL"),
    "sampled_measure": ("sample", "NULL"),
    "frame_phase": ("phase", "NULL"),
    "server_role": ("server", "NULL"),
    "traits_of": ("trait", ""),
}
_CALL = re.compile(rf"({'|'.join(_FUNCTIONS)})\((?:('?\w+'?), )?(\w+)\)")
# What the patterns of a kind match.
_OF_CATEGORY = "concat(lower({}), '/', {})"
# A pattern that lists names: "^aten::(add|mul)_?$".
_LISTING = re.compile(r"\^([\w:]*)(?:\(([\w:|]+)\)([\w:]*?))?(_\?)?\$")
# Facets for names of one kind only, so that the kind needs no test.
_OF_ONE_KIND = {
    "call", "class", "work", "expert", "format", "backend", "collective", "lane", "sample", "phase",
    "server",
}  # fmt: skip


class Spelling(NamedTuple):
    """A row of queries/names."""

    vendor: str
    """The file: a vendor of devices, or kernels, operators and ranges."""
    facet: str
    kinds: str
    rank: int
    pattern: str
    meaning: str
    source: str


@cache
def spellings() -> tuple[Spelling, ...]:
    """All spellings, by facet and rank."""
    rows = []
    for vendor in packaged.stems("names", ".csv"):
        lines = packaged.text(f"names/{vendor}.csv").splitlines()
        for facet, kinds, rank, *rest in list(csv.reader(lines))[1:]:
            rows.append(Spelling(vendor, facet, kinds, int(rank), *rest))
    return tuple(sorted(rows, key=lambda each: (each.facet, each.rank)))


@cache
def spellings_of_plugins() -> dict[Plugin, list[Spelling]]:
    """Each plugin's spellings: the files VENDOR.csv in its folder, without files that have a wrong
    row."""
    by_plugin: dict[Plugin, list[Spelling]] = {}
    for plugin, file in plugins.files("names", "*.csv"):
        with plugin.leaving_out(plugins.named(file)):
            rows = [*_checked(file)]
            by_plugin[plugin] = by_plugin.get(plugin, []) + rows
    return {plugin: rows for plugin, rows in by_plugin.items() if rows}


def _checked(file: Path) -> Iterator[Spelling]:
    import duckdb

    facets = {facet for facet, _ in _FUNCTIONS.values()}
    meanings = {
        (spelling.facet, spelling.meaning) for spelling in spellings() if spelling.facet in facets
    }
    kinds = {meaning for facet, meaning in meanings if facet == "kind"}
    for number, row in enumerate([*csv.reader(plugins.text(file).splitlines())][1:], 2):
        with explained(f"line {number}", TypeError, ValueError, duckdb.Error):
            facet, of_kinds, rank, *rest = row
            each = Spelling(file.stem, facet, of_kinds, int(rank), *rest)
            duckdb.execute("SELECT regexp_matches('', $1)", [each.pattern])
        if (each.facet, each.meaning) not in meanings:
            raise TracekitError(
                f"line {number}: {each.meaning!r} is not a {each.facet} in tracekit"
            )
        if not set(each.kinds.split()) <= kinds:
            raise TracekitError(f"line {number}: {each.kinds!r} are not kinds of events")
        yield each


def matching(rows: Iterable[Spelling]) -> str:
    """SQL over `kind`, `category` and `name` that tests whether one of these patterns matches."""
    by_kind = groupby(
        sorted(rows, key=lambda row: (row.facet == "kind", row.kinds)),
        lambda row: (row.facet == "kind", row.kinds),
    )
    return " OR ".join(
        _condition(kinds, "kind", same, _OF_CATEGORY.format("category", "name") if of else "name")
        for (of, kinds), same in by_kind
    )


def spelled(sql: str) -> str:
    """The SQL with each call of these functions as an expression: `call_of(name)`, or
    `traits_of(kind, name)` where patterns depend on the kind."""
    return _CALL.sub(lambda found: _meaning(*found.groups()), sql)


def listed() -> str:
    """SQL that defines the view `spelling`: all rows. DuckDB reads them faster as one text."""
    rows = json.dumps([row._asdict() for row in spellings()])
    types = json.dumps([dict.fromkeys(Spelling._fields, "VARCHAR") | {"rank": "INTEGER"}])
    return (
        "CREATE OR REPLACE VIEW spelling AS SELECT unnest("
        f"from_json({literal(rows)}, {literal(types)}), recursive := true);"
    )


@cache
def _meaning(function: str, kind: str, name: str) -> str:
    facet, otherwise = _FUNCTIONS[function]
    added = (row for rows in spellings_of_plugins().values() for row in rows)
    # At equal rank, tracekit's pattern decides.
    known = sorted((*spellings(), *added), key=lambda row: row.rank)
    rows = [row for row in known if row.facet == facet]
    if facet == "trait":
        return _traits(rows, kind, name)
    text = _OF_CATEGORY.format(kind, name) if facet == "kind" else name
    listed = {row.pattern: names_of(row.pattern) for row in rows if facet == "work"}
    whens = []
    patterns = (row for row in rows if not listed.get(row.pattern))
    for _, same in groupby(patterns, lambda row: (row.rank, row.meaning, row.kinds)):
        group = list(same)
        meaning = "NULL" if group[0].meaning == "none" else literal(group[0].meaning)
        kinds = "" if facet in _OF_ONE_KIND else group[0].kinds
        whens.append(f"WHEN {_condition(kinds, kind, group, text)} THEN {meaning}")
    found = f"CASE {' '.join(whens)} ELSE {otherwise} END"
    by_name = {each: row.meaning for row in rows[::-1] for each in listed.get(row.pattern, ())}
    return f"coalesce({_looked_up(name, by_name)}, {found})" if by_name else found


def names_of(pattern: str) -> tuple[str, ...]:
    """The names that a pattern lists; none if it is more than a list."""
    parts = [_LISTING.fullmatch(part) for part in re.split(r"(?<=\$)\|(?=\^)", pattern)]
    return tuple(
        f"{part[1]}{each}{part[3] or ''}{end}"
        for part in parts
        if part and all(parts)
        for each in (part[2] or "").split("|")
        for end in (("", "_") if part[4] else ("",))
    )


def _looked_up(name: str, meanings: Mapping[str, str]) -> str:
    """Looks a name up in one text with a line for each: DuckDB plans that much faster than a
    condition for each meaning."""
    lines = "".join(f"\n{each}\t{meaning}" for each, meaning in meanings.items())
    after = f"split_part({literal(lines)}, concat(chr(10), {name}, chr(9)), 2)"
    return f"nullif(split_part({after}, chr(10), 1), '')"


def _traits(rows: list[Spelling], kind: str, name: str) -> str:
    """The list of a name's traits, tested only with the patterns for its kind."""
    whens = []
    for event_kind in sorted({word for row in rows for word in row.kinds.split()}):
        mine = (row for row in rows if event_kind in row.kinds.split())
        by_meaning = groupby(sorted(mine, key=lambda row: row.meaning), lambda row: row.meaning)
        tests = {meaning: _condition("", kind, same, name) for meaning, same in by_meaning}
        traits, found = ", ".join(map(literal, tests)), ", ".join(tests.values())
        whens.append(f"WHEN {literal(event_kind)} THEN list_where([{traits}], [{found}])")
    return f"CASE {kind} {' '.join(whens)} ELSE [] END"


def _condition(kinds: str, kind: str, rows: Iterable[Spelling], text: str) -> str:
    """The patterns as one constant regular expression, which DuckDB compiles once per query; it
    compiles any other expression once per row."""
    pattern = "|".join(f"(?:{row.pattern})" for row in rows)
    matches = f"regexp_matches({text}, {literal(pattern)})"
    if not kinds:
        return matches
    return f"({kind} IN ({', '.join(map(literal, kinds.split()))}) AND {matches})"


def literal(text: str) -> str:
    """The text as SQL."""
    return "'" + text.replace("'", "''") + "'"
