"""A how-to page for each remedy, from its header."""

from __future__ import annotations

from docs.generate.markdown import code, fence, page, prose, table
from tracekit.database.remedies import Remedy, all_remedies


def _page(remedy: Remedy) -> str:
    facts = [
        ("lessens", ", ".join(map(code, remedy.causes))),
        ("effort", prose(remedy.effort)),
        ("needs", prose(remedy.needs)),
        ("since", prose(remedy.since)),
    ]
    sections = [
        f"## {title}\n\n{fence(text, 'python') if is_code else prose(text)}"
        for title, text, is_code in remedy.sections
    ]
    found_by = remedy.name.replace("-", "_")
    return page(
        f"# {prose(remedy.title)}",
        fence(f"tracekit advise --how {remedy.name}", "sh"),
        table(("", ""), facts),
        *sections,
        "## Sources",
        "\n".join(f"- <{source}>" for source in remedy.sources),
        "## How it is found",
        f"By [{code(found_by)}](../../reference/questions/remedies.md#{found_by}). "
        f"`tracekit whatif TRACE remedy:{remedy.name}` replays it."
        if remedy.has_query
        else "It has no question of its own: it is about one-off events."
        if remedy.once
        else "It has no question of its own: it changes the whole run.",
    )


def remedy_pages() -> dict[str, str]:
    """The pages by path: one for each remedy, and their list."""
    known = all_remedies()
    pages = {f"howto/remedies/{name}.md": _page(remedy) for name, remedy in known.items()}
    pages["howto/remedies/index.md"] = page(
        "# What to change",
        "`tracekit advise TRACE` lists which of these apply, where, and what each would save.",
        table(
            ("remedy", "what to do", "lessens", "effort"),
            [
                (
                    f"[{code(name)}]({name}.md)",
                    prose(remedy.title),
                    ", ".join(map(code, remedy.causes)),
                    prose(remedy.effort),
                )
                for name, remedy in known.items()
            ],
        ),
    )
    return pages
