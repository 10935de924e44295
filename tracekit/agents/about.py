"""What can be told without a trace: the questions there are, and how to apply a remedy."""

from __future__ import annotations

from typing import Any

from tracekit.advice.catalogue import Remedy
from tracekit.agents.answers import Fitted, Page, document_that_fits, text_of
from tracekit.database import catalog
from tracekit.database.catalog import Query


def described(question: Query) -> dict[str, Any]:
    """A question with its parameters, its columns with their units, and its SQL."""
    return {
        "name": question.name,
        "question": question.question,
        "parameters": [
            f"{each.name} ({each.type}, default {each.default}): {each.help}"
            for each in question.parameters
        ],
        "columns": [f"{each.name} ({each.unit}): {each.help}" for each in question.columns],
        "sql": question.sql.splitlines(),
    }


def without_sql(about: dict[str, Any], name: str, page: Page) -> Fitted:
    """What is to be told about a question; its SQL only where it fits."""
    if len(text_of(about)) <= page.characters:
        return about, []
    found, left_out = document_that_fits({k: v for k, v in about.items() if k != "sql"}, page)
    return found, [*left_out, f"sql: read the resource tracekit://queries/{name}"]


def listed(topic: str | None, page: Page) -> Fitted:
    """The questions by topic, or those of one topic; if they do not fit, the topics."""
    found: dict[str, dict[str, str]] = {each: {} for each in catalog.TOPICS}
    for each in catalog.queries().values():
        found[each.topic][each.name] = each.question
    asked = {"questions": {each: found[each] for each in found if topic in (None, each)}}
    if len(text_of(asked)) <= page.characters:
        return asked, []
    names = {each: list(found[each]) for each in found if topic in (None, each)}
    if len(text_of(names)) <= page.characters:
        return {"names": names}, ["what the questions ask: query with a name tells"]
    return {"topics": list(names)}, ["the questions: query with a topic lists those of the topic"]


def words(remedy: Remedy) -> dict[str, Any]:
    """How to apply a remedy."""
    told = ("name", "title", "effort", "needs", "risks", "check")
    return {each: getattr(remedy, each) for each in told} | {
        "doubts": remedy.caveat,
        "doubts": remedy.caveat,
        "before": remedy.before.splitlines(),
        "after": remedy.after.splitlines(),
        "sources": list(remedy.sources),
    }
