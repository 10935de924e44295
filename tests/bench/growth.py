"""How the cost of loading a trace, and of the first verdict on the database, grows with its events.

    make bench

Each row is a generated trace (tests/bench/generate.py). Both commands are processes of their own:
wall and CPU time with start-up and imports, and peak resident memory.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.bench.generate import write
from tests.bench.measuring import head, line, measured

# An event takes about this many bytes of JSON.
_EVENT_BYTES = 268
COLUMNS = (
    "events", "JSON, MB", "load, s", "CPU, s", "peak memory, MB", "MB/s", "events/s", "on disk",
    "verdict, s", "CPU, s", "peak memory, MB", "events/s",
)  # fmt: skip


def main() -> None:
    print(f"{os.cpu_count()} cores\n", *head(COLUMNS), sep="\n")
    for exponent in range(3, 8):
        with tempfile.TemporaryDirectory() as name:
            trace, database = Path(name) / "trace.json", Path(name) / "out.duckdb"
            events = write(trace, 10**exponent * _EVENT_BYTES)
            n_bytes = trace.stat().st_size
            loads = ("load", "--no-verdict", trace, "-o", database)
            costs = [
                measured("-m", "tracekit", *arguments)
                for arguments in (loads, ("analyze", database))
            ]
            assert all(cost.said is not None for cost in costs), "a command failed"
            load, verdict = costs
            print(
                line(
                    f"{events:,}",
                    f"{n_bytes / 1e6:,.1f}",
                    *(f"{value:.2f}" for value in (load.wall_s, load.cpu_s)),
                    f"{load.peak_mb * 1.048576:,.0f}",
                    *(f"{amount / load.wall_s:,.0f}" for amount in (n_bytes / 1e6, events)),
                    f"{database.stat().st_size / n_bytes:.2f} of the JSON",
                    *(f"{value:.2f}" for value in (verdict.wall_s, verdict.cpu_s)),
                    f"{verdict.peak_mb * 1.048576:,.0f}",
                    f"{events / verdict.wall_s:,.0f}",
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
