"""All pages of the site and their order."""

from __future__ import annotations

from typing import Any

from docs.generate import commands, judging, python, questions, remedies, schema, sources

# Titles come from the pages.
_TUTORIAL = ("tour", "walkthrough", "diagnosis")
_EXPLANATION = (
    "definitions", "units", "settings", "work", "verdict", "replay", "stability", "formats",
    "limits", "performance", "verdicts", "known-work", "measurements", "thresholds", "security",
    "contributing",
)  # fmt: skip


def pages() -> dict[str, str]:
    """The Markdown of each page, by its path."""
    return {
        **sources.copied(),
        **remedies.remedy_pages(),
        **questions.question_pages(),
        "reference/commands.md": commands.commands_page(),
        "reference/schema.md": schema.schema_page(),
        "reference/json.md": judging.json_page(),
        "reference/python.md": python.python_page(),
        "explanation/thresholds.md": judging.thresholds_page(),
    }


def linked_files() -> dict[str, bytes]:
    """Pictures and programs that pages link to, by their path."""
    return sources.linked_files()


def navigation() -> list[dict[str, Any]]:
    """The tabs of the site with their pages, as MkDocs' `nav` has them."""
    asked = ["index", *questions.topics()]
    fixes = ["index", *remedies.all_remedies()]
    return [
        {"tracekit": ["index.md"]},
        {"Tutorial": [f"tutorial/{name}.md" for name in _TUTORIAL]},
        {
            "How to": [
                *sources.guides(),
                {"What to change": [f"howto/remedies/{name}.md" for name in fixes]},
            ]
        },
        {
            "Reference": [
                "reference/commands.md",
                "reference/vocabulary.md",
                "reference/schema.md",
                {"Questions": [f"reference/questions/{name}.md" for name in asked]},
                "reference/json.md",
                "reference/python.md",
            ]
        },
        {"Explanation": [f"explanation/{name}.md" for name in _EXPLANATION]},
    ]
