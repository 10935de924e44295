"""ADVICE.md: the first three lines of the fix list on real traces, as tests/answers.json has them,
each with a remark. `make answers ACCEPT=1` renews the lines and keeps the remarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracekit.text import duration, percent, printable

TABLE = Path(__file__).with_name("ADVICE.md")
SHOWN = 3
_NOTHING = "-"


def first_cells(answer: dict[str, Any]) -> list[str]:
    """The table's cells for an answer: the first lines of its fix list."""
    shown = [_cell(each) for each in answer.get("advice", [])[:SHOWN]]
    return [*shown, *[_NOTHING] * (SHOWN - len(shown))]


def _cell(advice: dict[str, Any]) -> str:
    """A line of the fix list, in a few words."""
    saved = "once" if advice["share"] is None else percent(advice["share"])
    place = f" at {printable(advice['where'])}" if advice["where"] else ""
    text = f"{advice['remedy']}{place}: {saved}, {duration(advice['saves_ns'])}"
    return text.replace("|", "\\|")


def advised() -> dict[str, list[str]]:
    """The table's cells, by trace: the first lines, then the remark."""
    return {cells[0]: cells[1:] for line in TABLE.read_text().splitlines() if (cells := _row(line))}


def renew(answers: dict[str, Any]) -> None:
    """Rewrites the table's lines of advice by the answers."""
    lines = TABLE.read_text().splitlines()
    for number, line in enumerate(lines):
        if cells := _row(line):
            renewed = [cells[0], *first_cells(answers[cells[0]]), cells[-1]]
            lines[number] = f"| {' | '.join(renewed)} |"
    TABLE.write_text("\n".join(lines) + "\n")


def _row(line: str) -> list[str] | None:
    """The cells of a trace's row; None for any other line."""
    cells = [each.strip() for each in line.replace("\\|", "\0").split("|")[1:-1]]
    if len(cells) != SHOWN + 2 or cells[0] in ("trace", "---"):
        return None
    return [each.replace("\0", "\\|") for each in cells]
