"""What loading a generated trace (tests/bench/generate.py) costs: `make bench`.

With a size, loads one trace with tracekit and with other tools, and prints one table of which no
row judges: the size left on disk, and the number of events that can be queried afterwards; times
are also given as multiples of tracekit's. Without one, prints how the costs of loading, and of the
first verdict on the database, grow with the events, beside the time that other tools take to read
the trace; -: the tool is not installed or failed, or a smaller trace shows that it would take many
minutes or more memory than there is.

Each row is a process of its own: wall and CPU time with start-up and imports, and peak resident
memory. All rows come from one run on one machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.generate import size_of, write
from tests.bench.measuring import PEERS, Cost, head, line, measured

# Programs that load the trace and print how many events they hold. {trace}, {out} and {peers} are
# paths.
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
import sys; sys.path.append({peers!r} + "/orjson")
import orjson
print(len(orjson.loads(open({trace!r}, "rb").read())["traceEvents"]))
""",
    "orjson.loads + Polars": """
import sys; sys.path.append({peers!r} + "/orjson")
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
sys.path.insert(0, {peers!r} + "/HolisticTraceAnalysis")
logging.disable()
with contextlib.redirect_stdout(sys.stderr):
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_files={{0: {trace!r}}}, trace_dir=os.path.dirname({trace!r}))
print(len(analysis.t.get_trace(0)))
""",
}
COMPARED = (
    "", "wall, s", "times tracekit's", "CPU, s", "peak memory, MB", "on disk", "events kept",
)  # fmt: skip
# Peers whose time is shown beside tracekit's growth; Perfetto's trace processor is a program.
_PEERS = ("orjson.loads", "HTA TraceAnalysis")
_PERFETTO = "trace_processor_shell"
# A peer that takes longer than this, or would take more memory, is not tried with more events.
_PATIENCE_S = 60
_MOST_OF_MEMORY = 0.8
# An event takes about this many bytes of JSON.
_EVENT_BYTES = 268
GROWN = (
    "events", "JSON, MB", "load, s", "CPU, s", "peak memory, MB", "MB/s", "events/s", "on disk",
    "verdict, s", "CPU, s", "peak memory, MB", "events/s", *(f"{peer}, s" for peer in _PEERS),
    "Perfetto, s",
)  # fmt: skip


def compare(size: int, trace: Path, out: Path) -> None:
    """Prints what a trace of a size costs each tool."""
    events = write(trace, size)
    n_bytes = trace.stat().st_size
    print(
        f"{n_bytes / 1e6:,.0f} MB of JSON, {events:,} events; {_memory_bytes() / 2**30:.0f} GiB\n"
    )
    print(*head(COMPARED), sep="\n")
    own_s = None
    for loader, program in _LOADERS.items():
        found = measured("-c", _filled(program, trace, out))
        own_s = own_s or found.wall_s
        disk = f"{out.stat().st_size / n_bytes:.2f} of the JSON" if out.exists() else "-"
        out.unlink(missing_ok=True)
        kept = "failed" if found.said is None else f"{int(found.said.split()[-1]):,}"
        wall, cpu, peak = _figures(found, digits=1)
        print(line(loader, wall, f"{found.wall_s / own_s:.2f}", cpu, peak, disk, kept), flush=True)


def _filled(program: str, trace: Path, out: Path) -> str:
    return program.format(trace=str(trace), out=str(out), peers=str(PEERS))


def grow(trace: Path, out: Path) -> None:
    """Prints what traces of 10^3 to 10^7 events cost."""
    print(*head(GROWN), sep="\n")
    impatient = set[str]()
    for exponent in range(3, 8):
        events = write(trace, 10**exponent * _EVENT_BYTES)
        n_bytes = trace.stat().st_size
        out.unlink(missing_ok=True)
        load = measured("-m", "tracekit", "load", "--no-verdict", trace, "-o", out)
        verdict = measured("-m", "tracekit", "analyze", out)
        assert load.said is not None and verdict.said is not None, "a command failed"
        rates = (f"{amount / load.wall_s:,.0f}" for amount in (n_bytes / 1e6, events))
        disk = f"{out.stat().st_size / n_bytes:.2f} of the JSON"
        row = [f"{events:,}", f"{n_bytes / 1e6:,.1f}", *_figures(load), *rates, disk]
        row += [*_figures(verdict), f"{events / verdict.wall_s:,.0f}"]
        print(line(*row, *_peers(trace, impatient)), flush=True)


def _peers(trace: Path, impatient: set[str]) -> Iterator[str]:
    """The seconds that other tools take to read a trace. Those that need long join `impatient`."""
    for peer in (*_PEERS, _PERFETTO):
        found = None
        if peer in impatient:
            pass
        elif peer != _PERFETTO:
            found = measured("-c", _filled(_LOADERS[peer], trace, Path(os.devnull)))
        elif (program := shutil.which(peer)) is not None:
            found = measured("-Q", "SELECT count(*) FROM slice", trace, program=program)
        if found is None or found.said is None or not _may_grow(found):
            impatient.add(peer)
        yield "-" if found is None or found.said is None else f"{found.wall_s:.2f}"


def _may_grow(cost: Cost) -> bool:
    """Whether a tool can be tried with ten times as many events."""
    has_room = 10 * cost.peak_mb * 2**20 < _MOST_OF_MEMORY * _memory_bytes()
    return has_room and cost.wall_s < _PATIENCE_S


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _figures(cost: Cost, digits: int = 2) -> tuple[str, str, str]:
    """Wall and CPU time in seconds, and memory in MB."""
    wall, cpu = (f"{value:.{digits}f}" for value in (cost.wall_s, cost.cpu_s))
    return wall, cpu, f"{cost.peak_mb * 1.048576:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", type=size_of, nargs="?")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        paths = Path(name) / "trace.json", Path(name) / "out.duckdb"
        compare(given.size, *paths) if given.size else grow(*paths)


if __name__ == "__main__":
    main()
