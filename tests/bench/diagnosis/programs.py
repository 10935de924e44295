"""Simulated programs with known faults: twins, healthy loops, kinds of trace that mislead, and
random mixes of faults. The simulator runs each with the fault and without, so that the saving of a
change is known exactly."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.bench.diagnosis.score import SMALL, Case
from tests.controls import CONTROLS
from tests.kit.atoms import MS, step
from tests.kit.simulated import lengths, truth, write
from tests.kit.simulator import Machine, Simulation
from tracekit.database.remedies import all_remedies, query_of

Events = list[dict[str, Any]]
MACHINE, UNKNOWN = Machine(), Case("", "", "")


@dataclass(frozen=True)
class Program:
    """A program, its machine, and the known facts about it."""

    atoms: list[Any]
    machine: Machine = MACHINE
    case: Case = UNKNOWN
    seed: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    lose: Callable[[Events], Events] = list
    """The recorder's effect on the trace's events."""
    written: float = 1.0
    """The part of the file that was written."""
    saves: tuple[float, float] | None = None
    """The saving of a change, if the simulator tells it."""

    def write(self, path: Path) -> Path:
        """Writes the trace, as Kineto would."""
        run = Simulation(self.atoms, self.machine, seed=self.seed)
        write(path, run, self.lose, **self.metadata)
        os.truncate(path, int(self.written * path.stat().st_size))
        return path


def gain(
    faulty: Iterable[Any], mended: Iterable[Any], machine: Machine = MACHINE, seed: int = 0
) -> tuple[float, float]:
    """The saving from fixing a program, as a share of the span of its ops and of its whole
    length."""
    before, after = (lengths(each, [], machine, seed) for each in (faulty, mended))
    shares = [1 - now / then for then, now in zip(before, after, strict=True)]
    return min(shares), max(shares)


# If the sides gain about the same, either regime is right.
CLOSE = 0.05


def regime(atoms: list[Any], machine: Machine = MACHINE, seed: int = 0) -> tuple[str, ...]:
    """The regime of a program: the side whose work, done in half the time, gains more. Both sides,
    if they gain about the same, or if it depends on whether work before the first op counts."""
    found = set()
    plain, *halved = (
        lengths(atoms, changes, machine, seed) for changes in ([], ["host*0.5"], ["device*0.5"])
    )
    for length, host, device in zip(plain, *halved, strict=True):
        if host - device < CLOSE * length:
            found.add("overhead-bound")
        if device - host < CLOSE * length:
            found.add("compute-bound")
    return tuple(sorted(found))


# -- twins -----------------------------------------------------------------------------------------

# Remedies that do the same as another one.
SAME = {"waiting_for_a_rank": ("waiting_for_a_rank", "overlap_communication")}


def twins() -> Iterator[Program]:
    """Each remedy's control (tests/controls), with the fault and without."""
    for remedy in all_remedies().values():
        if not remedy.has_query:
            continue
        name = query_of(remedy.name)
        control = CONTROLS[name]
        machine, metadata = control.machine, control.metadata
        faulty, mended = control.faulty, control.fixed
        saves = gain(faulty, mended, machine)
        prices = dict.fromkeys(SAME.get(name, (name,)), saves)
        # A graph of the whole step may save more than fixing the fault: then it may come first.
        graph = _graph(faulty, machine)
        if graph > saves[0] and "cuda_graph" not in prices:
            prices["cuda_graph"] = graph, graph
        case = Case(
            name=f"twin {name}",
            kind="twin",
            why=control.about,
            regime=regime(faulty, machine),
            changes=tuple(prices),
            listed=(name,),
            prices=prices,
        )
        yield Program(faulty, machine, case, metadata=metadata)
        healed = Case(
            name=f"twin {name}, mended",
            kind="mended",
            why=f"The fault is gone: {control.about}",
            regime=regime(mended, machine),
            never=(name,),
        )
        unslowed = {name: metadata[name] for name in metadata if name != "tracekit"}
        yield Program(mended, machine, healed, metadata=unslowed)


def _graph(atoms: list[Any], machine: Machine = MACHINE, seed: int = 0) -> float:
    """The share that CUDA graphs between the waits of the host would save."""
    return 1 - truth(atoms, ["cuda-graph"], machine, seed) / truth(atoms, [], machine, seed)


# -- random mixes of faults ------------------------------------------------------------------------

MIXED = 40
_LEFT_OUT = {"profiler_cost", "cuda_graph", "torch_compile", "graph_breaks"}
# A fault is the strongest when removing it saves this much more than removing any other.
_LEAD = 1.15
# torch.compile also fixes these, and may fuse more with them: their rival must lead by more.
_COMPILED = {"fused_norms": 1.5}
_STEPS = 4
# A fault's cost in a step is drawn between these, evenly on a log scale; its control is repeated
# until it costs that much, up to a limit.
_COSTS = math.log(0.3 * MS), math.log(5 * MS)
_REPEATS = 10


def mixes() -> Iterator[Program]:
    """Random programs with a few faults at random strengths; the strongest must come first."""
    seed = found = 0
    while found < MIXED:
        seed += 1
        program = mixed(seed)
        if program:
            found += 1
            yield program


def mixed(seed: int) -> Program | None:
    """The random program of a seed; None if no planted fault is clearly the strongest."""
    rng = random.Random(seed)
    known = sorted({query_of(each.name) for each in all_remedies().values() if each.has_query})
    pool = [name for name in known if name not in _LEFT_OUT and _per_step(name) is not None]
    chosen = rng.sample(pool, rng.randint(2, 4))
    strength = {}
    for name in chosen:
        wanted_ns = math.exp(rng.uniform(*_COSTS))
        strength[name] = min(max(round(wanted_ns / _cost_ns(name)), 1), _REPEATS)

    def program(mended: str | None) -> list[Any]:
        atoms: list[Any] = []
        for name in chosen:
            faulty, healed = _per_step(name) or ((), ())
            atoms += (healed if name == mended else faulty) * strength[name]
        return [step(n, *atoms) for n in range(_STEPS)]

    faulty = program(None)
    saved = {name: gain(faulty, program(name), seed=seed) for name in chosen}
    first, *others = sorted(chosen, key=lambda name: -saved[name][1])
    graph = _graph(faulty, seed=seed)
    rivals = [saved[name][1] * _COMPILED.get(name, 1.0) for name in others]
    if saved[first][0] < max(3 * SMALL, _LEAD * max(graph, *rivals)):
        return None
    parts = ", ".join(f"{name} x{strength[name]} ({saved[name][1]:.1%})" for name in chosen)
    case = Case(
        name=f"mix {seed}",
        kind="mix",
        why=f"Planted, with what removing each alone saves: {parts}; a graph: {graph:.1%}.",
        regime=regime(faulty, seed=seed),
        changes=SAME.get(first, (first,)),
        listed=tuple(name for name in chosen if saved[name][0] > 3 * SMALL),
        saves=saved[first],
    )
    return Program(faulty, case=case, seed=seed)


def _per_step(name: str) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """A control's step, with the fault and without; None if its steps differ."""
    control = CONTROLS[name]
    if control.machine != Machine():
        return None
    parts = []
    for atoms in (control.faulty, control.fixed):
        steps = [each for each in atoms if getattr(each, "name", "").startswith("ProfilerStep")]
        if not steps or any(each.atoms != steps[0].atoms for each in steps):
            return None
        parts.append(steps[0].atoms)
    return parts[0], parts[1]


@cache
def _cost_ns(name: str) -> float:
    """The cost of a control's fault in a step."""
    parts = [[step(n, *atoms) for n in range(_STEPS)] for atoms in _per_step(name) or ((), ())]
    return max((truth(parts[0], []) - truth(parts[1], [])) / _STEPS, 1.0)


# -- all -------------------------------------------------------------------------------------------


def programs() -> list[Program]:
    """All simulated programs; the same each time."""
    from tests.bench.diagnosis import healthy, misleading

    return [*twins(), *healthy.programs(), *misleading.programs(), *mixes()]
