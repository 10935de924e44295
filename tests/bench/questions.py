"""Times each named question on a loaded trace, and `analyze` as a whole.

python questions.py TRACE [RUNS]: the best of RUNS runs (default 3), on all cores. NOTES.md has
figures.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import tracekit
from tracekit.database import catalog


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest run."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def main(path: str, runs: int) -> None:
    def analyze() -> None:
        with tracekit.load(path) as database:
            database.verdict()

    print(f"{best_of(runs, analyze):8.3f} s  load and verdict")
    with tracekit.load(path) as database:
        for question in catalog.queries().values():
            seconds = best_of(runs, lambda sql=question.sql: database.fetch(sql))
            late = "  over 100 ms" if seconds > 0.1 else ""
            print(f"{1000 * seconds:8.1f} ms  {question.name}{late}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
