"""Loads one generated trace with tracekit and with other tools, and prints one table.

    make bench SIZE=1GB

No row judges. Each is a separate process: wall and CPU time including start-up and imports, peak
resident memory, the size left on disk, and the number of events that can be queried afterwards. All
rows come from one run on one machine; times are also given as multiples of tracekit's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from tests.bench.generate import size_of, write
from tests.bench.measuring import head, line, measured

# Programs that load the trace and print how many events they hold. {trace} and {out} are paths.
_LOADERS = {
    "tracekit load": """
import tracekit
database = tracekit.load({trace!r}, {out!r}, verdicts=False)
print(database.fetch("SELECT count(*) FROM event")[1][0][0])
""",
    "tracekit load --memory-mb 2000": """
import tracekit
database = tracekit.load({trace!r}, {out!r}, memory_mb=2000, verdicts=False)
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
COLUMNS = (
    "", "wall, s", "times tracekit's", "CPU, s", "peak memory, MB", "on disk", "events kept",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", type=size_of)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        trace, out = Path(name) / "trace.json", Path(name) / "out.duckdb"
        events = write(trace, given.size)
        n_bytes = trace.stat().st_size
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        print(f"{n_bytes / 1e6:,.0f} MB of JSON, {events:,} events; ", end="")
        print(f"{os.cpu_count()} cores, {memory / 2**30:.0f} GiB\n")
        print(*head(COLUMNS), sep="\n")
        own_s = None
        for loader, program in _LOADERS.items():
            found = measured("-c", program.format(trace=str(trace), out=str(out)))
            own_s = own_s or found.wall_s
            disk = f"{out.stat().st_size / n_bytes:.2f} of the JSON" if out.exists() else "-"
            out.unlink(missing_ok=True)
            kept = "failed" if found.said is None else f"{int(found.said.split()[-1]):,}"
            times, peak = f"{found.wall_s / own_s:.2f}", f"{found.peak_mb * 1.048576:,.0f}"
            wall, cpu = f"{found.wall_s:.1f}", f"{found.cpu_s:.1f}"
            print(line(loader, wall, times, cpu, peak, disk, kept), flush=True)


if __name__ == "__main__":
    main()
