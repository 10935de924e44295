"""VERDICTS.md and ADVICE.md: the labels of the real traces beside tests/answers.json.

`make answers ACCEPT=1` renews both pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.diagnosis.score import Answer, Case, Mark, labels, mark, table
from tests.bench.diagnosis.tools import answer_of
from tracekit.text import percent

FOLDER = Path(__file__).parents[1]
_SHOWN = 3
_ABOUT = """\
The labels are those of tests/bench/diagnosis/real.csv: an expert wrote them from the raw
events of each trace, and committed them before reading the verdict. The answers are those of
tests/answers.json. `make answers ACCEPT=1` renews this page."""
_VERDICTS = "trace", "regime", "said", "held up by", "said", "at most", "said", "differs in", "why"
_ADVICE = "trace", "first change", "saves", "said first", "then", "differs in"


def verdicts(answers: dict[str, Any]) -> str:
    """The page of verdicts."""
    rows = []
    for case, answer, marked in _compared(answers):
        wrong = _wrong(marked, ("regime", "cause", "too sure"))
        rows.append(
            [
                case.name, " or ".join(case.regime), answer.regime or "-",
                " or ".join(case.causes) or "-", answer.cause or "-",
                case.confidence, answer.confidence or "-", wrong, case.why,
            ]
        )  # fmt: skip
    return _page("Verdicts", _VERDICTS, rows)


def advice(answers: dict[str, Any]) -> str:
    """The page of advice."""
    rows = []
    for case, _, marked in _compared(answers):
        said = [
            f"{each['remedy'].replace('-', '_')}: {_saves(each['share'])}"
            for each in answers[case.name].get("advice", [])[:_SHOWN]
        ]
        rows.append(
            [
                case.name, " or ".join(case.changes),
                " to ".join(map(percent, case.saves)) if case.saves else "-",
                said[0] if said else "none", ", ".join(said[1:]) or "-",
                _wrong(marked, ("first change", "list", "price")),
            ]
        )  # fmt: skip
    return _page("The fix list", _ADVICE, rows)


def _compared(answers: dict[str, Any]) -> list[tuple[Case, Answer, Mark]]:
    found = [(case, answer_of(answers[case.name])) for case in labels() if case.name in answers]
    return [(case, answer, mark(case, answer)) for case, answer in found]


def _wrong(marked: Mark, kinds: tuple[str, ...]) -> str:
    return ", ".join(each for each in marked.failures if each.startswith(kinds)) or "-"


def _saves(share: float | None) -> str:
    return "once" if share is None else percent(share)


def _page(title: str, columns: tuple[str, ...], rows: list[list[str]]) -> str:
    at = columns.index("differs in")
    agree = sum(row[at] == "-" for row in rows)
    return (
        f"# {title} on {len(rows)} real traces\n\n{_ABOUT}\n\n"
        f"{agree} of {len(rows)} agree in all of these columns.\n\n"
        f"{table(columns, rows, is_padded=False)}\n"
    )


PAGES = {"VERDICTS.md": verdicts, "ADVICE.md": advice}


def renew(answers: dict[str, Any]) -> None:
    """Writes both pages."""
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(answers))
