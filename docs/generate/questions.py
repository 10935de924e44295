"""The pages of named questions, one for each topic, from the headers of their SQL."""

from __future__ import annotations

from docs.generate.markdown import code, fence, page, prose, table
from tracekit.database.catalog import TOPICS, Query, queries


def topics() -> dict[str, list[Query]]:
    """The questions of each topic that has some."""
    found: dict[str, list[Query]] = {topic: [] for topic in TOPICS}
    for query in queries().values():
        found[query.topic].append(query)
    return {topic: members for topic, members in found.items() if members}


def _section(query: Query) -> str:
    doubts = ", ".join(f"[{code(each)}](trace.md#health)" for each in query.doubts)
    return page(
        f"## {query.name} {{ #{query.name} }}",
        prose(query.question),
        table(
            ("parameter", "type", "default", "what it is"),
            [
                (code(each.name), prose(each.type), code(each.default), prose(each.help))
                for each in query.parameters
            ],
        ),
        table(
            ("column", "unit", "what it is"),
            [(code(each.name), prose(each.unit), prose(each.help)) for each in query.columns],
        ),
        f"Doubtful if the trace has one of these findings: {doubts}" if doubts else "",
        fence(query.sql, "sql"),
    ).strip()


def question_pages() -> dict[str, str]:
    """The pages by path: one for each topic, and their list."""
    pages = {
        f"reference/questions/{topic}.md": page(
            f"# {TOPICS[topic]}",
            f"Each of these runs as `tracekit query TRACE NAME`, and in Python as `run.NAME()`. "
            f"Its file is queries/{topic}/NAME.sql.",
            *map(_section, members),
        )
        for topic, members in topics().items()
    }
    index = [
        page(
            f"## {TOPICS[topic]}",
            table(
                ("name", "question"),
                [
                    (f"[{code(each.name)}]({topic}.md#{each.name})", prose(each.question))
                    for each in members
                ],
            ),
        ).strip()
        for topic, members in topics().items()
    ]
    pages["reference/questions/index.md"] = page("# Questions", *index)
    return pages
