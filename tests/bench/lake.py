"""The cost of a lake: time and memory to add ranks, and to ask questions about all of them.

python -m tests.bench.lake FOLDER [RANKS ...] [--steps N]
python -m tests.bench.lake FOLDER --compacted RUNS

Makes runs with these numbers of generated ranks in FOLDER, adds each to its own lake, asks each
question in a separate process, and prints tables. With --compacted, makes a lake with that number
of runs of 512 ranks, as compaction leaves them, and asks it the documented questions in several
engines.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

import duckdb
from msgspec.structs import replace

from tests.bench.measuring import line, measured
from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.lakes import add, write_rank
from tests.kit.ranks_simulated import Job
from tracekit.lake.layout import MARK, Group
from tracekit.lake.runs import LakeRun, change_run, new_token, read_runs
from tracekit.lake.storage import Storage
from tracekit.lake.upkeep import compact_runs, publish
from tracekit.lake.workers import Processes
from tracekit.lake.writing import PARQUET

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


def compacted(folder: Path, runs: int) -> Path:
    """A lake of many runs of 512 ranks, each the copy of 64, as compaction leaves them."""
    source, made, lake = folder / "lake64", folder / "run64", folder / f"compacted{runs}"
    if lake.exists():
        return lake
    if not source.exists():
        made.mkdir(parents=True, exist_ok=True)
        ranks_simulated.write(made, Job(data=64, steps=3, late={5: 9 * MS}))
        add(source, made, judges=True)
        compact_runs(str(source), Processes(1), ["run64"])
    (run,) = read_runs(Storage(str(source)))
    store = Storage(str(lake))
    store.write(MARK, (source / MARK).read_bytes())
    for number in range(runs):
        name, first, held = f"night{number:02d}", number * 512, []
        context = LakeRun(str(lake), name, 0, ()).context
        for each in run.groups:
            token, files = new_token(), {}
            given = [rank for rank in each.ranks if rank.rank is not None]
            given.sort(key=lambda rank: rank.rank or 0)
            ranks = [
                replace(rank, run=name, rank=at, name=f"rank={at}", trace_id=first + at + 1)
                for n in range(8)
                for rank in given
                for at in [64 * n + (rank.rank or 0)]
            ]
            for table in each.files:
                path = lake / "tables" / table / f"{token}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                duckdb.execute(
                    f"COPY (SELECT '{name}' AS run, n * 64 + rank AS rank, "
                    f"({first} + n * 64 + rank + 1)::INTEGER AS trace_id, "
                    f"* EXCLUDE (run, rank, trace_id, n) "
                    f"FROM '{source / each.path(table)}', range(8) AS t(n) "
                    f"ORDER BY n, rank) TO '{path}' ({PARQUET})"
                )
                files[table] = path.stat().st_size
            judged = None if each.context is None else context
            held.append(Group(name, token, token, ranks, files, judged))
        change_run(store, name, lambda before, parts=held: replace(before, groups=tuple(parts)))
    return lake


def ask_documented(lake: Path, one: str) -> None:
    """Prints how long opening and the documented questions take in each engine."""
    start = time.monotonic()
    publish(str(lake))
    print(f"published in {time.monotonic() - start:.1f} s")
    for part in (lake, lake / f"run={one}"):
        print(part.name, ask(part, "run_metrics"))
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
    options.add_argument("--compacted", type=int, metavar="RUNS")
    given = options.parse_args()
    folder = given.folder.absolute()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if given.compacted:
        ask_documented(compacted(folder, given.compacted), "night03")
        return
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


if __name__ == "__main__":
    main()
