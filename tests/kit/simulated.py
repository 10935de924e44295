"""Uses of simulated programs: as traces, with CUDA graphs, with changes, and on several ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.kit.atoms import (
    BlockingCopy,
    Border,
    Change,
    Fetch,
    Freed,
    HandOver,
    Launch,
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
    flat: list[Any] = []
    _flatten(atoms, flat)
    freed: list[Any] = []
    region: list[Any] = []
    for atom in [*flat, Border()]:
        if _is_border(atom):
            freed += _marked(region)
            freed += [Border(), atom]
            region = []
        else:
            region.append(atom)
    return freed


def _flatten(atoms: Iterable[Any], into: list[Any]) -> None:
    for atom in atoms:
        if isinstance(atom, Slice | HandOver):
            # The slice's name has no effect on times.
            if isinstance(atom, Slice) and _loads(atom):
                into.append(atom)
            else:
                _flatten(atom.atoms, into)
        else:
            into.append(atom)


def _loads(atom: Slice) -> bool:
    return "DataLoader" in atom.name or "dynamo_timed" in atom.name


def _is_border(atom: Any) -> bool:
    return isinstance(atom, Sync | BlockingCopy | Fetch | Border) or (
        isinstance(atom, Slice) and _loads(atom)
    )


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


def ranks(programs: list[list[Any]]) -> list[Simulation]:
    """Runs of ranks that meet in collectives: each ends for all ranks once the last has begun it.

    Repeats the runs until every collective begins when the other ranks assumed it does.
    """
    begun: list[list[int]] = [[] for _ in programs]
    while True:
        runs, seen = [], []
        for own, program in enumerate(programs):
            starts: list[int] = []

            others = [each for other, each in enumerate(begun) if other != own]

            def meet(
                start: int, starts: list[int] = starts, others: list[list[int]] = others
            ) -> int:
                place = len(starts)
                starts.append(start)
                return max([start, *(each[place] for each in others if place < len(each))])

            run = Simulation(program, seed=own, collective=meet)
            run.recorded = list(run.events())
            runs.append(run)
            seen.append(starts)
        if seen == begun:
            return runs
        begun = seen
