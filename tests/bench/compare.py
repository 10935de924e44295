"""Loads one generated trace with tracekit and with other tools, and prints one table.

    make bench SIZE=1GB

Each row is a separate process: wall and CPU time including start-up and imports, peak resident
memory, the size left on disk, and the number of events that can be queried afterwards. All rows
come from one run on one machine; times are also given as multiples of tracekit's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from generate import size_of, write

# Programs that load the trace and print how many events they hold. {trace} and {out} are paths.
_LOADERS = {
    "tracekit load": """
import tracekit
database = tracekit.load({trace!r}, {out!r})
print(database.fetch("SELECT count(*) FROM event")[1][0][0])
""",
    "tracekit load --memory-mb 2000": """
import tracekit
database = tracekit.load({trace!r}, {out!r}, memory_mb=2000)
print(database.fetch("SELECT count(*) FROM event")[1][0][0])
""",
    "orjson.loads": """
import orjson
print(len(orjson.loads(open({trace!r}, "rb").read())["traceEvents"]))
""",
    "orjson.loads + Polars": """
import orjson, polars
columns = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
events = orjson.loads(open({trace!r}, "rb").read())["traceEvents"]
frame = polars.DataFrame({{key: [event.get(key) for event in events] for key in columns}})
print(len(frame))
""",
    "json.loads": """
import json
print(len(json.loads(open({trace!r}, "rb").read())["traceEvents"]))
""",
    "DuckDB read_json": """
import os, duckdb
connection = duckdb.connect({out!r})
size = 2 * os.path.getsize({trace!r})
connection.execute(
    "CREATE TABLE event AS SELECT unnest(traceEvents, recursive := true) "
    "FROM read_json(?, maximum_object_size = " + str(min(size, 4294967295)) + ")", [{trace!r}])
print(connection.execute("SELECT count(*) FROM event").fetchone()[0])
connection.close()
""",
    "HTA TraceAnalysis": """
import contextlib, logging, os, sys
logging.disable()
with contextlib.redirect_stdout(sys.stderr):
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_files={{0: {trace!r}}}, trace_dir=os.path.dirname({trace!r}))
print(len(analysis.t.get_trace(0)))
""",
}


@dataclass(frozen=True)
class Measured:
    """One process: seconds, bytes, and the number of events kept (None if it failed)."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    disk_bytes: int
    events: int | None


def measure(program: str, trace: Path, folder: Path) -> Measured:
    out = folder / "out.duckdb"
    program = program.format(trace=str(trace), out=str(out))
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.monotonic() - began
    disk_bytes = out.stat().st_size if out.exists() else 0
    out.unlink(missing_ok=True)
    events = int(said.split()[-1]) if status == 0 else None
    cpu_s = usage.ru_utime + usage.ru_stime
    return Measured(wall_s, cpu_s, usage.ru_maxrss * 1024, disk_bytes, events)


def row(name: str, found: Measured, own: Measured, n_bytes: int) -> str:
    if found.events is None:
        return f"| {name} | failed after {found.wall_s:.1f} s | | | | | |"
    disk = f"{found.disk_bytes / n_bytes:.2f} of the JSON" if found.disk_bytes else "-"
    return (
        f"| {name} | {found.wall_s:.1f} | {found.wall_s / own.wall_s:.2f} | {found.cpu_s:.1f} "
        f"| {found.peak_bytes / 1e6:,.0f} | {disk} | {found.events:,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", type=size_of)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=_LOADERS, default=list(_LOADERS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.json"
        events = write(trace, given.size, given.seed)
        n_bytes = trace.stat().st_size
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        print(f"{n_bytes / 1e6:,.0f} MB of JSON, {events:,} events (seed {given.seed}); ", end="")
        print(f"{os.cpu_count()} cores, {memory / 2**30:.0f} GiB\n")
        print("| | wall, s | times tracekit's | CPU, s | peak memory, MB | on disk | events kept |")
        print("|---|---|---|---|---|---|---|")
        own = None
        for loader in given.only:
            found = measure(_LOADERS[loader], trace, folder)
            own = own or found
            print(row(loader, found, own, n_bytes), flush=True)


if __name__ == "__main__":
    main()
