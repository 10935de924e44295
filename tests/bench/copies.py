"""A large lake: runs, a week apart, of many copies of the ranks of a small one.

python -m tests.bench.copies LAKE TARGET RUNS COPIES

LAKE has one run. Each of the RUNS has its ranks COPIES times, in one group of small tables and one
of verdicts, as after compaction. The large tables are left out: questions about all ranks do not
read them.
"""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from tracekit.database.connection import connect
from tracekit.lake.adding import _MARK
from tracekit.lake.binding import Binding
from tracekit.lake.layout import MARK, Rank, trace_id_of
from tracekit.lake.runs import LakeRun, change_run, read_run, read_runs
from tracekit.lake.storage import Storage
from tracekit.lake.tables import SMALL
from tracekit.lake.writing import write_rows

DAY_NS = 86_400 * 1_000_000_000
FIRST_NS = 20_000 * DAY_NS


def copy_run(source: LakeRun, target: Storage, run: str, copies: int, began_ns: int) -> None:
    """Writes a run that began at this time, with these copies of all ranks of another one."""
    made: list[tuple[Rank, Rank]] = []
    for copy in range(copies):
        for old in source.ranks.values():
            number = (old.rank or 0) + copy * len(source.ranks)
            digest, name = sha256(f"{run} {number}".encode()).hexdigest(), f"rank={number}"
            own = trace_id_of(run, name, digest, 0)
            new = replace(old, run=run, name=name, rank=number, trace_id=own, sha256=digest)
            made.append((old, new))
    ranks = [new for _, new in made]
    with TemporaryDirectory() as folder, closing(connect(":memory:", {}, source.root)) as opened:
        opened.execute("CREATE TABLE made (given INTEGER, run VARCHAR, rank BIGINT, own INTEGER)")
        rows = [[old.trace_id, run, new.rank, new.trace_id] for old, new in made]
        opened.executemany("INSERT INTO made VALUES (?, ?, ?, ?)", rows)
        for judged in (False, True):
            groups = tuple(each for each in source.groups if (each.context is not None) == judged)
            scans = Binding(opened, [replace(source, groups=groups)]).scans()
            selects = {
                table: "SELECT m.run, m.rank, m.own AS trace_id, s.* EXCLUDE (run, rank, trace_id)"
                f"{_moved(table, began_ns)} FROM ({rows}) AS s JOIN made AS m "
                "ON s.trace_id = m.given ORDER BY m.rank"
                for table, rows in scans.items() if table in SMALL
            }  # fmt: skip
            context = read_run(target, run).context if judged else None
            group = write_rows(opened, selects, ranks, target, Path(folder), context)
            names = [each.name for each in ranks]
            change_run(target, run, partial(LakeRun.with_group, group=group, names=names))


def _moved(table: str, began_ns: int) -> str:
    """The clock and the hosts of a trace, eight ranks on each."""
    if table != "trace":
        return ""
    return f" REPLACE ({began_ns} AS base_time_ns, printf('node%04d', m.rank // 8) AS host)"


def main() -> None:
    source, target, runs, copies = sys.argv[1:]
    (given,) = read_runs(Storage(source))
    store = Storage(target)
    store.write(MARK, _MARK)
    for number in range(int(runs)):
        copy_run(given, store, f"week{number:03d}", int(copies), FIRST_NS + number * 7 * DAY_NS)


if __name__ == "__main__":
    main()
