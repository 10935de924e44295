"""The page of thresholds, and that of JSON Schemas."""

from __future__ import annotations

import importlib
import importlib.util
import json

from docs.generate.markdown import code, fence, page, prose, table
from tracekit.thresholds import TABLE


def _rows(*, settable: bool) -> list[tuple[str, str, str, str]]:
    return [
        (
            f"<span id='{each.name}'></span>{code(each.name)}",
            code(str(each.default)),
            prose(each.meaning),
            prose(each.source),
        )
        for each in TABLE.values()
        if each.is_settable == settable
    ]


def thresholds_page() -> str:
    head = ("name", "value", "meaning", "source")
    return page(
        "# Thresholds",
        "All numbers that decide something, from queries/thresholds.csv. Shares are of the window. "
        "A source `ours` means that we chose the number.",
        "## Thresholds that a user can set",
        "`--threshold NAME=VALUE` sets one for a run and for its queries.",
        table(head, _rows(settable=True)),
        "## Thresholds that are the same in every run",
        "Tables in a database depend on them. SQL reads them as `thresholds().NAME`.",
        table(head, _rows(settable=False)),
    )


def json_page() -> str:
    """The output of commands with --json: its schemas, if this version has them."""
    head = "# JSON output"
    if importlib.util.find_spec("tracekit.schemas") is None:
        return page(
            head,
            "`analyze`, `advise`, `whatif` and others print JSON with `--json`. "
            "[Where each number is defined](vocabulary.md#where-each-number-is-defined) "
            "lists its keys.",
        )
    outputs = importlib.import_module("tracekit.schemas")
    return page(
        head,
        "`tracekit schema COMMAND` prints these JSON Schemas. "
        "[Where each number is defined](vocabulary.md#where-each-number-is-defined) says which "
        "file computes a number.",
        *(
            page(
                f"## tracekit {name}",
                fence(json.dumps(outputs.schema(name), indent=2), "json"),
            ).strip()
            for name in outputs.commands()
        ),
    )
