"""Runs of many small ranks, as trace files that a lake can hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.traces import gpu_op, launch, slice_event
from tracekit.lake import writing
from tracekit.lake.adding import Added, add_traces
from tracekit.lake.layout import Group, Rank
from tracekit.lake.runs import read_runs
from tracekit.lake.storage import Storage
from tracekit.lake.workers import Processes

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def rank_events(
    rank: int, steps: int = 3, late: int = 1, late_us: int = 30
) -> list[dict[str, Any]]:
    """Steps of 100 us: an operator launches a kernel and a collective. The rank `late` comes last,
    by `late_us`."""
    events = []
    for step in range(steps):
        at = 100 * step
        wait = late_us if rank == late else 0
        call = 2 * step + 1
        end = at + 80 + late_us
        args = {
            "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
            "dtype": "Float", "Group size": 4, "Process Group Name": "0", "Seq": step,
        }  # fmt: skip
        events += [
            slice_event("user_annotation", f"ProfilerStep#{step}", at, 100),
            slice_event("cpu_op", "aten::mm", at + 1, 12, args={"External id": call}),
            launch(at + 2, 4, call),
            gpu_op(at + 10, 20, call, name="sgemm"),
            launch(at + 20 + wait, 4, call + 1),
            gpu_op(at + 40 + wait, end - at - 40 - wait, call + 1, name=ALLREDUCE),
        ]
        events[-1]["args"] |= args
    return events


def write_rank(folder: Path, rank: int, ranks: int = 4, **more: Any) -> Path:
    """The trace file of one rank."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"trace_rank{rank}.json"
    told = {"rank": rank, "world_size": ranks}
    text = {"traceEvents": rank_events(rank, **more), "distributedInfo": told}
    path.write_text(json.dumps(text))
    return path


def add(lake: Path | str, *sources: Path | str, **options: Any) -> Added:
    """Adds traces to a lake in this process, without verdicts unless asked for."""
    given = {"judges": False} | options
    return add_traces(map(str, sources), str(lake), Processes(1), **given)


def ranks(lake: Path | str) -> list[Rank]:
    """The ranks of a lake, by run and rank."""
    return [rank for run in read_runs(Storage(str(lake))) for rank in run.ranks.values()]


def ranks_with_files(lake: Path | str) -> list[tuple[Rank, Group]]:
    """The ranks of a lake, each with the group that holds its tables."""
    return [
        (rank, group)
        for run in read_runs(Storage(str(lake))) for group in run.data for rank in group.here
    ]  # fmt: skip


def files_in_use(lake: Path | str) -> set[str]:
    """The Parquet files that readers open."""
    return {
        group.path(table)
        for run in read_runs(Storage(str(lake)))
        for group in run.groups for table in group.files
    }  # fmt: skip


def add_meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Added]) -> list[Added]:
    """Runs `work` once while the next rank is being added, before readers see that rank. The list
    then holds the result of `work`."""
    written, done = writing.write_group, []

    def write(*given: Any) -> Group:
        monkeypatch.setattr(writing, "write_group", written)
        done.append(work())
        return written(*given)

    monkeypatch.setattr(writing, "write_group", write)
    return done


def statuses(added: Added) -> list[str]:
    return [each.status for each in added.outcomes]
