"""VERDICTS.md: the labels of the real traces beside tests/answers.json.

`make answers ACCEPT=1` renews the page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.diagnosis.score import Case, labels, mark, table
from tests.bench.diagnosis.tools import answer_of
from tracekit.text import percent

PAGE = Path(__file__).parents[1] / "VERDICTS.md"
_SHOWN = 3
_ABOUT = """\
The labels are those of tests/bench/diagnosis/real.csv: an expert wrote them from the raw events of
each trace, and committed them before reading the verdict and the fix list. The answers (`said`) are
those of tests/answers.json. `make answers ACCEPT=1` renews this page."""
_COLUMNS = (
    "trace", "regime", "said", "held up by", "said", "at most", "said", "first change", "saves",
    "said first", "then", "differs in", "why",
)  # fmt: skip


_SECOND = """\
Another expert read the raw events without knowing tracekit's rules, labels or answers (second.csv).
Experts differ, too: the first one's labels above and these agree on fewer first changes than on
verdicts."""


def page(answers: dict[str, Any]) -> str:
    """The page, of the answers in the form of tests/answers.json."""
    first, second = (_rows(labels(reading), answers) for reading in ("real", "second"))
    return (
        f"# Verdicts and the fix list on {len(first)} real traces\n\n{_ABOUT}\n\n"
        f"{_table(first)}\n## A second reading\n\n{_SECOND}\n\n{_table(second)}"
    )


def _table(rows: list[list[str]]) -> str:
    agree = sum(row[-2] == "-" for row in rows)
    wrong = [
        f"{word} {sum(word in row[-2] for row in rows)}"
        for word in ("regime", "cause", "first change", "too sure", "price")
    ]
    return (
        f"{agree} of {len(rows)} agree in all of these columns; "
        f"differences: {', '.join(wrong)}.\n\n"
        f"{table(_COLUMNS, rows, is_padded=False)}\n"
    )


def _rows(cases: list[Case], answers: dict[str, Any]) -> list[list[str]]:
    rows = []
    for case in cases:
        if case.name not in answers:
            continue
        answer, advice = answer_of(answers[case.name]), answers[case.name].get("advice", [])
        shares = ["once" if each["share"] is None else percent(each["share"]) for each in advice]
        said = [
            f"{each['remedy'].replace('-', '_')}: {share}"
            for each, share in zip(advice[:_SHOWN], shares, strict=False)
        ]
        rows.append(
            [
                case.name, " or ".join(case.regime), answer.regime or "-",
                " or ".join(case.causes) or "-", answer.cause or "-",
                case.confidence, answer.confidence or "-", " or ".join(case.changes),
                " to ".join(map(percent, case.saves)) if case.saves else "-",
                said[0] if said else "none", ", ".join(said[1:]) or "-",
                ", ".join(mark(case, answer).failures) or "-", case.why,
            ]
        )  # fmt: skip
    return rows
