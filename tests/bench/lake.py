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
import resource
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import duckdb
from msgspec.structs import replace

from tests.kit import ranks_simulated
from tests.kit.atoms import MS
from tests.kit.lakes import write_rank
from tests.kit.ranks_simulated import Job
from tracekit.lake.layout import MARK, Group
from tracekit.lake.runs import LakeRun, change_run, new_token, read_runs
from tracekit.lake.storage import Storage
from tracekit.lake.upkeep import compact_runs, publish
from tracekit.lake.workers import Processes
from tracekit.lake.writing import PARQUET

QUESTIONS = (
    "stragglers",
    "rank_waits",
    "rank_excess",
    "rank_clocks",
    "collective_skew",
    "overview",
    "run_metrics",
    "health",
    "missing",
    "partition",
    "launch_stats",
    "idle_causes",
)
ASK = """
import json, resource, sys, time
from tracekit.run import open_lake
start = time.monotonic()
with open_lake(sys.argv[1]) as lake:
    opened, before = time.monotonic(), time.process_time()
    rows = len(lake.ask(sys.argv[2]))
    done, after = time.monotonic(), time.process_time()
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "open_s": opened - start, "ask_s": done - opened, "ask_cpu_s": after - before,
    "rows": rows,
    "cpu_s": used.ru_utime + used.ru_stime, "memory_mb": used.ru_maxrss / 1024,
}))
"""


def bytes_below(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def added(source: Path, lake: Path, *options: str) -> dict[str, float]:
    """Adds a folder, as a user would."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    command = [sys.executable, "-m", "tracekit", "lake", "add", str(source), "--to", str(lake)]
    subprocess.run([*command, *options], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": time.monotonic() - start,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "memory_mb": after.ru_maxrss / 1024,
    }


def ask_in_process(lake: Path, question: str) -> dict[str, float]:
    command = [sys.executable, "-c", ASK, str(lake), question]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compacted(folder: Path, runs: int) -> Path:
    """A lake of many runs of 512 ranks, each the copy of 64, as compaction leaves them."""
    source, lake = folder / "lake64", folder / f"compacted{runs}"
    if lake.exists():
        return lake
    if not source.exists():
        ranks_simulated.write(_made(folder / "run64"), Job(data=64, steps=3, late={5: 9 * MS}))
        print("| 64 |", added(folder / "run64", source))
        compact_runs(str(source), Processes(1), ["run64"])
    (run,) = read_runs(Storage(str(source)))
    store = Storage(str(lake))
    store.write(MARK, (source / MARK).read_bytes())
    for number in range(runs):
        name, held = f"night{number:02d}", []
        first = number * 512
        context = LakeRun(str(lake), name, 0, ()).context
        for each in run.groups:
            token = new_token()
            given = [rank for rank in each.ranks if rank.rank is not None]
            given.sort(key=lambda rank: rank.rank or 0)
            numbered = [(64 * n + (rank.rank or 0), rank) for n in range(8) for rank in given]
            ranks = [
                replace(rank, run=name, rank=at, name=f"rank={at}", trace_id=first + at + 1)
                for at, rank in numbered
            ]
            files = {}
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


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ask_documented(lake: Path, one: str) -> None:
    """Prints how long opening and the documented questions take in each engine."""

    start = time.monotonic()
    publish(str(lake))
    print(f"published in {time.monotonic() - start:.1f} s")
    for part in (lake, lake / f"run={one}"):
        cost = ask_in_process(part, "run_metrics")
        print(f"{part.name}: open {cost['open_s']:.2f} s, run_metrics {cost['ask_s']:.2f} s, "
              f"{cost['memory_mb']:.0f} MB, {cost['rows']:.0f} rows")  # fmt: skip
    needs = {"chdb": find_spec("chdb"), "spark": shutil.which("java") and find_spec("pyspark")}
    for engine in ("tracekit", "duckdb", "polars", "chdb", "spark"):
        if not needs.get(engine, True):
            print(f"{engine}: is not installed")
            continue
        command = [sys.executable, "-m", "tests.bench.documented", str(lake), engine]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        said = json.loads(done.stdout)
        print(f"{engine}: opened and asked in {said['seconds']} s, {said['rows']} rows", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("ranks", nargs="*", type=int, default=[8, 64, 512])
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--verdicts", action="store_true")
    options.add_argument("--compacted", type=int, metavar="RUNS")
    given = options.parse_args()
    if given.compacted:
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        ask_documented(compacted(given.folder, given.compacted), "night03")
        return
    print(f"{os.cpu_count()} cores, {given.steps} steps, load {os.getloadavg()[0]:.1f}")
    for count in given.ranks:
        source = given.folder / f"run{count}x{given.steps}"
        lake = given.folder / f"lake{count}x{given.steps}"
        if not source.exists():
            for rank in range(count):
                write_rank(source, rank, count, steps=given.steps)
        if not lake.exists():
            cost = added(source, lake, *([] if given.verdicts else ["--without-verdicts"]))
            print(
                f"| {count} | {bytes_below(source) / 1e6:.1f} MB | {cost['wall_s']:.1f} s | "
                f"{cost['cpu_s'] / count:.2f} s | {cost['memory_mb']:.0f} MB | "
                f"{bytes_below(lake) / count / 1e3:.0f} kB |",
                flush=True,
            )
        for question in QUESTIONS:
            cost = ask_in_process(lake, question)
            print(
                f"  {count} {question}: open {cost['open_s']:.2f} s, ask {cost['ask_s']:.2f} s, "
                f"cpu {cost['cpu_s']:.2f} s, {cost['memory_mb']:.0f} MB, {cost['rows']:.0f} rows",
                flush=True,
            )


if __name__ == "__main__":
    main()
