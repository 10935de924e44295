"""VERDICTS.md: the labels of the real traces beside tests/answers.json.

`make answers ACCEPT=1` renews the page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.diagnosis.score import labels, mark, table
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


def page(answers: dict[str, Any]) -> str:
    """The page, of the answers in the form of tests/answers.json."""
    rows = []
    for case in labels():
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
    agree = sum(row[-2] == "-" for row in rows)
    return (
        f"# Verdicts and the fix list on {len(rows)} real traces\n\n{_ABOUT}\n\n"
        f"{agree} of {len(rows)} agree in all of these columns.\n\n"
        f"{table(_COLUMNS, rows, is_padded=False)}\n"
    )
