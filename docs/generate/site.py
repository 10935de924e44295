"""All pages of the site and their order."""

from __future__ import annotations

from typing import Any

from docs.generate import commands, judging, python, questions, remedies, schema, sources

# Titles come from the pages.
_TUTORIAL = ("walkthrough", "diagnosis")
_HOWTO = ("lake", "cluster", "workloads")
_EXPLANATION = ("definitions", "replay", "verdicts", "measurements", "thresholds", "security")


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


def pictures() -> dict[str, bytes]:
    """The bytes of each picture, by its path."""
    return sources.pictures()


def navigation() -> list[dict[str, Any]]:
    """The tabs of the site with their pages, as MkDocs' `nav` has them."""
    asked = ["index", *questions.topics()]
    fixes = ["index", *remedies.catalogue()]
    return [
        {"tracekit": ["index.md"]},
        {"Tutorial": [f"tutorial/{name}.md" for name in _TUTORIAL]},
        {
            "How to": [
                *(f"howto/{name}.md" for name in _HOWTO),
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
