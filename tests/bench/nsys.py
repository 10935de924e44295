"""Loads a report of Nsight Systems beside the same events as Kineto JSON.

    python -m tests.bench.nsys FOLDER [TIMES]

repeats the events of a shared report TIMES times (430 make 1 GB), loads it, exports its processes
to JSON, loads these, and prints events per CPU second. The second memory includes the export.
"""

from __future__ import annotations

import resource
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import tracekit
from tests.conftest import SHARED_TRACES

REPORT = SHARED_TRACES / "other" / "h100-pipeline-parallel.nsys.sqlite"
_NEW_IDS = 10_000_000


def repeated(source: Path, target: Path, times: int) -> Path:
    """A copy of a report whose events happen again and again."""
    shutil.copyfile(source, target)
    with closing(sqlite3.connect(target, isolation_level=None)) as report:
        report.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN")
        names = [name for (name,) in report.execute("SELECT name FROM sqlite_master"
                                                    " WHERE type = 'table'")]  # fmt: skip
        columns = {
            name: [row[1] for row in report.execute(f"PRAGMA table_info({name})")] for name in names
        }
        events = [
            name
            for name, has in columns.items()
            if "start" in has and not {"globalTid", "globalPid"}.isdisjoint(has)
        ]
        bounds = [report.execute(f"SELECT min(start), max(start) FROM {each}").fetchone()
                  for each in events]  # fmt: skip
        known = [each for each in bounds if each[0] is not None]
        step = max(last for _, last in known) - min(first for first, _ in known) + 1_000_000
        moved = {"start": step, "end": step, "correlationId": _NEW_IDS}
        for name in events:
            chosen = ", ".join(f'"{each}" + n * {moved.get(each, 0)}' if each in moved else
                               f'"{each}"' for each in columns[name])  # fmt: skip
            report.execute(f"CREATE TEMP TABLE once AS SELECT * FROM {name}")
            report.execute(
                f"WITH RECURSIVE again(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM again"
                f" WHERE n < {times - 1}) INSERT INTO {name} SELECT {chosen} FROM once, again"
            )
            report.execute("DROP TABLE once")
        report.execute("COMMIT")
    return target


def load(paths: list[Path], database: Path) -> list[Path]:
    """Loads the files, prints what that took, and exports their traces: returns the files."""
    begun, wall = time.process_time(), time.monotonic()
    with tracekit.load(paths, database, verdicts=False) as run:
        spent, passed = time.process_time() - begun, time.monotonic() - wall
        traces = run.traces()
        size = sum(path.stat().st_size for path in paths) / 1e6
        events = sum(row["events"] for row in traces)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{paths[0].name}: {size:,.0f} MB, {events:,} events, {passed:.1f} s, "
            f"{spent:.1f} CPU s, "
            f"{events / spent:,.0f} events per CPU second, at most {peak:,.0f} MB of memory",
            flush=True,
        )
        texts = [database.with_suffix(f".{row['trace_id']}.json") for row in traces]
        for row, text in zip(traces, texts, strict=True):
            run.export(text, trace=row["trace_id"])
    return texts


def main(folder: Path, times: int = 40) -> None:
    # A first load does the work that a process does once, so that it counts for neither.
    tracekit.load(REPORT, verdicts=False).close()
    report = repeated(REPORT, folder / "report.sqlite", times)
    load(load([report], folder / "report.duckdb"), folder / "json.duckdb")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
