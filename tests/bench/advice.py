"""The first three lines of the fix list on each of the real traces: the table of ADVICE.md.

    python -m tests.bench.advice FOLDER

prints the table anew, with the remarks of the one in the repository. FOLDER has the traces.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tracekit
from tracekit.advice.model import Advice
from tracekit.text import duration, percent, printable

TABLE = Path(__file__).with_name("ADVICE.md")
SHOWN = 3
_NOTHING = "-"


def cell(advice: Advice) -> str:
    """A line of the fix list, in a few words."""
    saved = "once" if advice.share is None else percent(advice.share)
    place = f" at {printable(advice.where)}" if advice.where else ""
    text = f"{advice.remedy}{place}: {saved}, {duration(advice.saves_ns)}"
    return text.replace("|", "\\|")


def first_cells(advice: list[Advice]) -> list[str]:
    """The table's cells for a fix list: its first lines."""
    shown = [cell(each) for each in advice[:SHOWN]]
    return [*shown, *[_NOTHING] * (SHOWN - len(shown))]


def advised() -> dict[str, list[str]]:
    """The table's cells, by trace: the first lines, then the remark."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    found = {}
    for line in lines:
        cells = [each.strip() for each in line.replace("\\|", "\0").split("|")[1:-1]]
        cells = [each.replace("\0", "\\|") for each in cells]
        if len(cells) == SHOWN + 2 and cells[0] not in ("trace", "---"):
            found[cells[0]] = cells[1:]
    return found


def main() -> None:
    """Prints the table."""
    known = advised()
    print("| trace | first | second | third | read beside the raw events |")
    print("|---|---|---|---|---|")
    for trace in sorted(Path(sys.argv[1]).glob("*.json.gz")):
        name = trace.name.removesuffix(".json.gz")
        remark = known.get(name, [""])[-1]
        with tracekit.load(trace) as run:
            cells = first_cells(run.verdict().advice)
        print(f"| {' | '.join([name, *cells, remark])} |")


if __name__ == "__main__":
    main()
