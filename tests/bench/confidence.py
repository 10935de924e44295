"""How often verdicts are right, by the confidence that they state.

Judges random programs with planted one-offs, waiting threads, captures, shifted clocks and missing
events, whose steady regime the simulator knows:

    python -m tests.bench.confidence 1000
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import tracekit
from tests.kit.planted import is_right, planted


def of_program(seed: int) -> tuple[int, str, str, bool]:
    """The verdict on a random program: its seed, confidence and regime, and whether it is right."""
    program = planted(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        tracekit.load(program.write(Path(folder) / "t.json")) as database,
    ):
        verdict = database.verdict().verdict
    return seed, verdict.confidence, verdict.regime, is_right(program, verdict.regime)


def main(programs: int) -> None:
    """Prints the table."""
    right: defaultdict[str, list[bool]] = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        for seed, confidence, regime, fits in pool.map(of_program, range(programs), chunksize=10):
            right[confidence].append(fits)
            if not fits:
                print(f"seed {seed}: {confidence} {regime}", file=sys.stderr)
    print("| | high | medium | low | no regime |\n|---|---|---|---|---|")
    cells = [right[level] for level in ("high", "medium", "low", "none")]
    said = " | ".join(f"{sum(each)} of {len(each)}" for each in cells)
    print(f"| programs | {said} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
