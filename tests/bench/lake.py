"""The cost of a lake: time and memory to add ranks, and to ask questions about all of them.

python -m tests.bench.lake FOLDER [RANKS ...] [--steps N] [--verdicts]

Makes runs with these numbers of generated ranks in FOLDER, adds each to its own lake, asks each
question in a separate process, and prints tables; with --verdicts, asks the documented questions in
several engines, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from tests.bench.measuring import line, measured
from tests.kit.lakes import write_rank
from tracekit.lake.upkeep import publish

QUESTIONS = (
    "stragglers", "rank_waits", "rank_excess", "rank_clocks", "collective_skew", "overview",
    "run_metrics", "health", "missing", "partition", "launch_stats", "idle_causes",
)  # fmt: skip
ASK = """
import sys, time
from tracekit.run import open_lake
start = time.monotonic()
with open_lake(sys.argv[1]) as lake:
    opened = time.monotonic()
    rows = len(lake.ask(sys.argv[2]))
    asked = time.monotonic()
print(f"open {opened - start:.2f} s, ask {asked - opened:.2f} s, {rows} rows")
"""


def bytes_below(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def ask(lake: Path, question: str) -> str:
    """What a question takes in a process of its own."""
    cost = measured("-c", ASK, lake, question)
    said = (cost.said or "failed").strip()
    return f"{question}: {said}, CPU {cost.cpu_s:.2f} s, {cost.peak_mb:.0f} MB"


def ask_documented(lake: Path) -> None:
    """Prints how long opening and the documented questions take in each engine."""
    publish(str(lake))
    needs = {"chdb": find_spec("chdb"), "spark": shutil.which("java") and find_spec("pyspark")}
    for engine in ("tracekit", "duckdb", "polars", "chdb", "spark"):
        if not needs.get(engine, True):
            print(f"{engine}: is not installed")
            continue
        said = json.loads(measured("-m", "tests.bench.documented", lake, engine).said or "{}")
        print(f"{engine}: opened and asked in {said['seconds']} s, {said['rows']} rows", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("ranks", nargs="*", type=int, default=[8, 64, 512])
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--verdicts", action="store_true")
    given = options.parse_args()
    folder = given.folder.absolute()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for count in given.ranks:
        source, lake = (folder / f"{each}{count}x{given.steps}" for each in ("run", "lake"))
        if not source.exists():
            for rank in range(count):
                write_rank(source, rank, count, steps=given.steps)
        if not lake.exists():
            how = [] if given.verdicts else ["--without-verdicts"]
            cost = measured("-m", "tracekit", "lake", "add", source, "--to", lake, *how)
            took = f"{cost.wall_s:.1f} s", f"{cost.cpu_s / count:.2f} s", f"{cost.peak_mb:.0f} MB"
            before, after = bytes_below(source) / 1e6, bytes_below(lake) / count / 1e3
            print(line(count, f"{before:.1f} MB", *took, f"{after:.0f} kB"), flush=True)
        for question in QUESTIONS:
            print(f"  {count} {ask(lake, question)}", flush=True)
        if given.verdicts:
            ask_documented(lake)


if __name__ == "__main__":
    main()
