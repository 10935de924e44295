"""The page of tables, views and macros, from the database's catalog and the SQL's own comments."""

from __future__ import annotations

import re

from docs.generate.markdown import code, page, prose, table
from docs.generate.sources import ROOT, read
from tracekit.database import catalog, described, facts

_TRACE = "tests/data/simulated-overhead-bound.json.gz"
_DEFINED = re.compile(
    r"^CREATE (?:OR REPLACE )?(TABLE|VIEW|MACRO)(?: IF NOT EXISTS)? (?:\w+\.)?(\w+)", re.MULTILINE
)


def _sources() -> dict[str, tuple[str, str]]:
    """The file that defines a name, and the comment right above the definition."""
    found = {}
    texts = {"queries/schema/tables.sql": catalog.schema("tables")} | {
        f"queries/views/{name}.sql": read(f"queries/views/{name}.sql")
        for name in catalog.VOCABULARY
        if (ROOT / f"queries/views/{name}.sql").exists()
    }
    texts |= {
        f"queries/facts/{name}.sql": read(f"queries/facts/{name}.sql") for name in facts.facts()
    }
    for file, text in texts.items():
        for definition in _DEFINED.finditer(text):
            lines = text[: definition.start()].rstrip("\n").split("\n")
            comment: list[str] = []
            while lines and lines[-1].startswith("-- "):
                comment.insert(0, lines.pop().removeprefix("-- "))
            # The comment above the first definition is about the whole file.
            is_own = not text[: definition.start()].startswith("\n".join([*lines, "-- "]).lstrip())
            found[definition[2]] = file, " ".join(comment) if is_own or len(comment) < 4 else ""
    return found


def schema_page() -> str:
    import tracekit

    with tracekit.load(ROOT / _TRACE) as run:
        _, columns = run.fetch(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE NOT internal AND database_name = current_database() AND schema_name = 'main' "
            "ORDER BY table_name, column_index"
        )
        _, macros = run.fetch(
            "SELECT DISTINCT function_name, parameters, function_type FROM duckdb_functions() "
            "WHERE NOT internal AND function_type IN ('macro', 'table_macro') "
            "ORDER BY function_name"
        )
    sources = _sources()
    relations: dict[str, list[tuple[str, str]]] = {}
    for relation, column, kind in columns:
        relations.setdefault(relation, []).append((column, kind))
    sections = [
        page(
            f"### {name} {{ #{name} }}",
            " ".join(
                part
                for part in (
                    prose(
                        f"A row is {described.rows()[name]}." if name in described.rows() else ""
                    ),
                    f"Defined in {sources[name][0]}." if name in sources else "",
                )
                if part
            ),
            table(
                ("column", "type", "unit", "what it is"),
                [
                    (code(column), code(kind), *map(prose, described.described(name, column)))
                    for column, kind in members
                ],
            ),
        ).strip()
        for name, members in sorted(relations.items())
    ]
    functions = [
        (
            code(f"{name}({', '.join(parameters)})"),
            "rows" if kind == "table_macro" else "a value",
            prose(sources[name][1]) if name in sources else "",
            prose(sources[name][0]) if name in sources else "",
        )
        for name, parameters, kind in macros
    ]
    return page(
        "# Tables, views and macros",
        "All times are integer nanoseconds (`_ns`), all sizes are bytes. "
        "[The SQL vocabulary](vocabulary.md) is a shorter way in, and says where each number is "
        "defined.",
        "## Tables and views",
        *sections,
        "## Macros",
        table(("macro", "gives", "what it is", "file"), functions),
    )
