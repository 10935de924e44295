"""How often verdicts are right, by the confidence that they state.

Judges random programs with planted one-offs, waiting threads, captures, shifted clocks and missing
events, whose steady regime the simulator knows, and the real traces of tests/bench/VERDICTS.md:

    python -m tests.bench.confidence 1000
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import tracekit
from tests.conftest import SHARED_TRACES
from tests.planted import is_right, planted

TABLE = Path(__file__).with_name("VERDICTS.md")


def expected() -> dict[str, dict[str, str]]:
    """The table of real traces: by name, each column's text."""
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    heads, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(heads, row, strict=True)) for row in rows}


def main(programs: int) -> None:
    """Prints the table."""
    right: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(programs):
            program = planted(seed)
            with tracekit.load(program.write(Path(folder) / "t.json")) as database:
                verdict = database.verdict().verdict
            fits = is_right(program, verdict.regime)
            right["programs", verdict.confidence].append(fits)
            if not fits:
                print(f"seed {seed}: {verdict.confidence} {verdict.regime}", file=sys.stderr)
    for name, row in expected().items():
        file = SHARED_TRACES / f"{name}.json.gz"
        if file.exists():
            with tracekit.load(file) as database:
                verdict = database.verdict().verdict
            fits = verdict.regime == row["regime"]
            right["real traces", verdict.confidence].append(fits)
    print("| | high | medium | low | no regime |\n|---|---|---|---|---|")
    for kind in ("programs", "real traces"):
        cells = [right[kind, level] for level in ("high", "medium", "low", "none")]
        said = " | ".join(f"{sum(each)} of {len(each)}" for each in cells)
        print(f"| {kind} | {said} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
