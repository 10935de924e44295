"""The meanings of names: the spellings in queries/names, as SQL macros and a view.

Each row of these files says that a name which matches `pattern` has `meaning` in one respect, the
`facet`, if it is the name of an event of one of `kinds` (of any, if they are empty). Among a
facet's matches, the one with the lowest rank decides; an event has each trait that matches.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import NamedTuple

from tracekit.database import packaged

# The macro for each facet, and the meaning of a name that no pattern matches. A kind follows from
# the category, too.
_MACROS = {
    "kind": ("event_kind(category, name)", "'other'"),
    "call": ("call_of(name)", "'other'"),
    "activity": ("slice_activity(kind, name)", "'untraced'"),
    "class": ("kernel_class(name)", "'other'"),
    "work": ("work_kind(name)", "NULL"),
    "compiled": ("compiled_part(kind, name)", "NULL"),
    "expert": ("expert_part(name)", "NULL"),
    "collective": ("collective_type(name)", "NULL"),
}
_TRAITS = "trait"
# Facets for names of one kind only, so that the kind needs no test.
_OF_ONE_KIND = {"call", "class", "work", "expert", "collective"}


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
    found = []
    for vendor in packaged.stems("names", ".csv"):
        lines = packaged.text(f"names/{vendor}.csv").splitlines()
        for facet, kinds, rank, *rest in list(csv.reader(lines))[1:]:
            found.append(Spelling(vendor, facet, kinds, int(rank), *rest))
    return tuple(sorted(found, key=lambda each: (each.facet, each.rank)))


def macros() -> str:
    """SQL that defines a macro for each facet, and the view `spelling`."""
    by_facet = {facet: list(rows) for facet, rows in groupby(spellings(), lambda row: row.facet)}
    made = [_facet(facet, by_facet[facet]) for facet in _MACROS]
    made.append(_traits(by_facet[_TRAITS]))
    listed = ",\n".join(f"({', '.join(_literal(value) for value in row)})" for row in spellings())
    columns = ", ".join(Spelling._fields)
    made.append(
        f"CREATE OR REPLACE VIEW spelling AS FROM (VALUES {listed}) AS spelling({columns});"
    )
    return "\n".join(made)


def _facet(facet: str, rows: list[Spelling]) -> str:
    macro, otherwise = _MACROS[facet]
    text = "concat(lower(category), '/', name)" if facet == "kind" else "name"
    whens = []
    for _, same in groupby(rows, lambda row: (row.rank, row.meaning, row.kinds)):
        group = list(same)
        meaning = "NULL" if group[0].meaning == "none" else _literal(group[0].meaning)
        kinds = "" if facet in _OF_ONE_KIND else group[0].kinds
        whens.append(f"WHEN {_condition(kinds, group, text)} THEN {meaning}")
    return f"CREATE OR REPLACE MACRO {macro} AS CASE {' '.join(whens)} ELSE {otherwise} END;"


def _traits(rows: list[Spelling]) -> str:
    """The macro that lists the traits of a name."""
    cases = []
    for meaning, same in groupby(sorted(rows, key=lambda row: row.meaning), lambda r: r.meaning):
        by_kinds = groupby(sorted(same, key=lambda row: row.kinds), lambda row: row.kinds)
        conditions = " OR ".join(_condition(kinds, group, "name") for kinds, group in by_kinds)
        cases.append(f"CASE WHEN {conditions} THEN {_literal(meaning)} END")
    return (
        "CREATE OR REPLACE MACRO traits_of(kind, name) AS "
        f"string_split(concat_ws(' ', {', '.join(cases)}), ' ');"
    )


def _condition(kinds: str, rows: Iterable[Spelling], text: str) -> str:
    """The patterns as one constant regular expression, which DuckDB compiles once per query; it
    compiles any other expression once per row."""
    pattern = "|".join(f"(?:{row.pattern})" for row in rows)
    matches = f"regexp_matches({text}, {_literal(pattern)})"
    if not kinds:
        return matches
    return f"(kind IN ({', '.join(map(_literal, kinds.split()))}) AND {matches})"


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
