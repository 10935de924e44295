"""What a lake costs: time and memory to add ranks, and to ask questions about all of them.

python -m tests.bench.lake FOLDER [RANKS ...] [--steps N]

Makes runs of these many generated ranks in FOLDER, adds each to a lake of its own, asks each
question in a process of its own, and prints tables.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.lakes import write_rank

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


def asked(lake: Path, question: str) -> dict[str, float]:
    command = [sys.executable, "-c", ASK, str(lake), question]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("ranks", nargs="*", type=int, default=[8, 64, 512])
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--verdicts", action="store_true")
    given = options.parse_args()
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
            cost = asked(lake, question)
            print(
                f"  {count} {question}: open {cost['open_s']:.2f} s, ask {cost['ask_s']:.2f} s, "
                f"cpu {cost['cpu_s']:.2f} s, {cost['memory_mb']:.0f} MB, {cost['rows']:.0f} rows",
                flush=True,
            )


if __name__ == "__main__":
    main()
