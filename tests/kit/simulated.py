"""Uses of simulated programs: as traces, with CUDA graphs, with changes, and on several ranks."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kit.atoms import (
    BlockingCopy,
    Border,
    Change,
    Fetch,
    Freed,
    HandOver,
    Launch,
    Op,
    Slice,
    Sync,
)
from tests.kit.simulator import Machine, Simulation, trace_event
from tests.kit.traces import Together

# Takes away or changes some of a trace's events.
Lose = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]

# -- graphs ----------------------------------------------------------------------------------------


def with_graphs(atoms: Iterable[Any]) -> list[Any]:
    """The program with marks where CUDA graphs would save the host's work.

    These are the spans from the first launch's end to the last launch's end between two borders:
    synchronizations, data loads, compilations or blocking copies.
    """
    freed: list[Any] = []
    region: list[Any] = []
    for atom in [*_flat(atoms), Border()]:
        if _is_border(atom):
            freed += [*_marked(region), Border(), atom]
            region = []
        else:
            region.append(atom)
    return freed


def _flat(atoms: Iterable[Any]) -> Iterator[Any]:
    """The atoms without slices, whose names have no effect on times."""
    for atom in atoms:
        if isinstance(atom, Slice | HandOver) and not _is_border(atom):
            yield from _flat(atom.atoms)
        else:
            yield atom


def _is_border(atom: Any) -> bool:
    loads = isinstance(atom, Slice) and ("DataLoader" in atom.name or "dynamo_timed" in atom.name)
    return loads or isinstance(atom, Sync | BlockingCopy | Fetch | Border)


def _marked(region: list[Any]) -> list[Any]:
    launches = [i for i, atom in enumerate(region) if isinstance(atom, Launch)]
    if not launches:
        return region
    first, last = launches[0], launches[-1]
    return [
        *region[: first + 1], Freed(True), *region[first + 1 : last + 1], Freed(False),
        *region[last + 1 :],
    ]  # fmt: skip


# -- traces ----------------------------------------------------------------------------------------


def write(path: Path, simulation: Simulation, lose: Lose = list, **metadata: Any) -> Path:
    """Runs the simulation (unless it has recorded events) and writes its trace, after `lose` took
    away or changed some of its events."""
    events = [trace_event(event) for event in simulation.recorded or simulation.events()]
    devices = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85095874560}]
    head = {"schemaVersion": 1, "deviceProperties": devices, "traceEvents": lose(events)}
    path.write_text(json.dumps(head | metadata))
    return path


class Programs(Together):
    """Traces of simulated programs in one database."""

    def program(
        self,
        atoms: Iterable[Any],
        lose: Lose = list,
        machine: Machine | None = None,
        seed: int = 0,
        **metadata: Any,
    ) -> int:
        """The trace_id that a program's trace will have."""

        def make(path: Path, **base: Any) -> None:
            write(path, Simulation(atoms, machine, seed=seed), lose, **base | metadata)

        return self.add(make)

    def running(self, atoms: Iterable[Any], **how: Any) -> pytest.MarkDecorator:
        """A decorator that passes the trace_id of this program as the test's argument `trace`."""
        return pytest.mark.parametrize("trace", [self.program(atoms, **how)], ids=[""])


def lengths(
    atoms: Iterable[Any], changes: Iterable[str], machine: Machine | None = None, seed: int = 0
) -> tuple[int, int]:
    """How long a program takes with these changes, in ns: from its first op to its last, and from
    its start to its end."""
    change = Change.parse(*changes)
    program = with_graphs(atoms) if change.cuda_graph else atoms
    simulation = Simulation(program, machine, change, seed)
    times = [(each["begin"], each["end"]) for each in simulation.events()]
    return simulation.span_ns, max(end for _, end in times) - min(begin for begin, _ in times)


def truth(
    atoms: Iterable[Any], changes: Iterable[str], machine: Machine | None = None, seed: int = 0
) -> int:
    """The length in ns of the device's span when the program runs with these changes."""
    return lengths(atoms, changes, machine, seed)[0]


def ranks(
    programs: list[list[Any]],
    meeting: Callable[[int, Op], tuple[Any, int] | None] | None = None,
    seed: int = 0,
) -> list[Simulation]:
    """Runs of ranks, each in its own thread, that meet in collectives: each ends for all ranks once
    the last has begun it. `meeting` says whom the op of a rank meets, and how many these are; by
    default all meet. A number of 0 is that of an op that is waited for and does not wait: a send
    whose message is buffered, for which one op waits."""
    changed, arrived = threading.Condition(), defaultdict(list)
    runs = [Simulation(program, seed=seed + rank) for rank, program in enumerate(programs)]

    def meet(start: int, rank: int, counts: Counter[Any]) -> int:
        op = runs[rank].op
        assert op is not None
        found = meeting(rank, op) if meeting else (None, len(runs))
        if found is None:
            return start
        key, members = found
        counts[key] += 1
        with changed:
            starts = arrived[key, counts[key]]
            starts.append(start)
            changed.notify_all()
            if not members:
                return start
            assert changed.wait_for(lambda: len(starts) >= members, timeout=60), "a rank is missing"
            return max(starts)

    def record(run: Simulation) -> None:
        run.recorded = list(run.events())

    for rank, run in enumerate(runs):
        run.collective = partial(meet, rank=rank, counts=Counter())
    with ThreadPoolExecutor(len(runs)) as pool:
        list(pool.map(record, runs))
    return runs
