"""Time and memory of `tracekit analyze` on traces with thousands of a kind.

    python -m tests.bench.shapes [SHAPE ...] [--sizes 500,1000,2000]

For each shape (tests/ingest/test_many_of_a_kind.py) and size, prints the seconds and the peak
memory of a process that analyzes the trace, and of one that writes its database, with its size.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.ingest.test_many_of_a_kind import SHAPES
from tests.kit import traces


def measure_command(*arguments: str) -> tuple[float, float]:
    """Seconds and peak MB of a `tracekit` command."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "tracekit", *arguments], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tracekit {' '.join(arguments)}: exit status {process.returncode}")
    # Linux counts kibibytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return time.perf_counter() - begun, usage.ru_maxrss * unit / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--sizes", default="500,1000,2000")
    given = parser.parse_args()
    for name in given.shapes or SHAPES:
        for size in map(int, given.sizes.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                trace = traces.write(Path(folder) / "trace.json", SHAPES[name](size))
                database = Path(folder) / "run.duckdb"
                seconds, mb = measure_command("analyze", str(trace), "--json")
                load_seconds, load_mb = measure_command("load", str(trace), "-o", str(database))
                kept_mb = database.stat().st_size / 1e6
            print(
                f"{name:17} {size:6,}  analyze {seconds:6.2f} s {mb:6.0f} MB"
                f"  load {load_seconds:6.2f} s {load_mb:6.0f} MB  database {kept_mb:6.1f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
