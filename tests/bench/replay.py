"""Measures a verdict after loading: the graph, a replay, the whole verdict, and memory.

    python replay.py DATABASE [MEMORY_MB]

MEMORY_MB limits DuckDB (default 200, DuckDB's part of --memory-mb 400). NOTES.md has figures.
"""

from __future__ import annotations

import resource
import sys
import time

from tracekit.replay.replay import Replay
from tracekit.run import open_database


def main(path: str, memory_mb: int) -> None:
    with open_database(path, memory_mb) as database:
        trace = database.trace_ids()[0]
        begin = time.perf_counter()
        replay = Replay(database, trace)
        built = time.perf_counter()
        for change in ("host*0.5", "device*0.5", "cuda-graph"):
            replay.run(change)
        replayed = time.perf_counter()
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        ops, stretches, edges = replay.graph.ops, len(replay.graph.host), len(replay.graph.edges)
        print(f"{ops:,} GPU ops, {stretches:,} stretches of host work, {edges:,} edges")
        print(f"{built - begin:8.2f} s  the graph and the first replay, {peak_mb:,} MB at most")
        print(f"{(replayed - built) / 3:8.3f} s  a replay")
        del replay
        begin = time.perf_counter()
        database.verdict(trace)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{time.perf_counter() - begin:8.2f} s  the verdict, {peak_mb:,} MB at most")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)
