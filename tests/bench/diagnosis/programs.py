"""Simulated programs with known faults: twins, healthy loops, kinds of trace that mislead, and
random mixes of faults. The simulator runs each with the fault and without, so that the saving of a
change is known exactly."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.bench.diagnosis.score import SMALL, Case
from tests.controls import CONTROLS
from tests.controls.look_alikes import LOOK_ALIKES
from tests.controls.planting import PAUSE, SYNC
from tests.kit.atoms import MS, BlockingCopy, Slice, Sync, step
from tests.kit.simulated import lengths, truth, write
from tests.kit.simulator import Machine, Simulation
from tracekit.database.remedies import all_remedies, query_of
from tracekit.thresholds import Thresholds

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
        if not lengths(faulty, [], machine, 0)[0]:
            # Without a device, there are no two sides.
            continue
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
            changes=(*prices, *_ALSO.get(name, ())),
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


# -- look-alikes -----------------------------------------------------------------------------------


def look_alikes() -> Iterator[Program]:
    """Programs with a fault's sign for another reason (tests/controls/look_alikes.py)."""
    for name, each in LOOK_ALIKES.items():
        case = Case(
            name=f"look-alike {each.remedy}: {name}",
            kind="look-alike",
            why=each.about,
            regime=regime(each.atoms),
            never=(each.remedy,),
        )
        yield Program(each.atoms, case=case, metadata=each.metadata)


# -- random mixes of faults ------------------------------------------------------------------------

MIXED = 40
# A slow host is slow at all of its work, not in a part of a step.
_LEFT_OUT = {"profiler_cost", "cuda_graph", "torch_compile", "graph_breaks", "slow_host"}
# A fault is the strongest when removing it saves this much more than removing any other, and more
# for each level of effort that it takes more (`worth_effort`).
_LEAD = 1.15
_EFFORTS = ("low", "medium", "high")
# torch.compile also fixes these, and may fuse more with them: their rival must lead by more.
_COMPILED = {"fused_norms": 1.5, "in_place": 2.0}
# Changes that also mend a fault, and more with it: either may come first, at a price of its own.
_ALSO = {
    "fused_norms": ("torch_compile",), "in_place": ("torch_compile",),
    "tensor_cores": ("mixed_precision",), "decode_batch": ("quantized_weights",),
}  # fmt: skip
# Changes that mend other parts, too, so that the simulator does not tell what they save.
_EVERYWHERE = {"fp8_products"}
# Remedies for models that do not learn, and names that a program of one that learns has.
_OF_INFERENCE = {"fp8_products", "folded_norms", "eval_mode", "mixed_precision", "newer_attention"}
_OF_LEARNING = ("Backward", "autograd::", "Optimizer.")
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
    """The random program of a seed; None if no planted fault is clearly the strongest, or the
    faults cannot be in one program: an inference that learns, a device of two kinds."""
    rng = random.Random(seed)
    known = sorted({query_of(each.name) for each in all_remedies().values() if each.has_query})
    pool = [name for name in known if name not in _LEFT_OUT and _per_step(name) is not None]
    chosen = rng.sample(pool, rng.randint(2, 4))
    metadata = _metadata(chosen)
    if metadata is None or (_OF_INFERENCE & {*chosen} and any(map(_learns, chosen))):
        return None
    strength = {}
    for name in chosen:
        wanted_ns = math.exp(rng.uniform(*_COSTS))
        strength[name] = min(max(round(wanted_ns / _cost_ns(name)), 1), _REPEATS)

    def program(mended: str | None) -> list[Any]:
        atoms: list[Any] = []
        for name in chosen:
            faulty, healed = _per_step(name) or ((), ())
            atoms += (healed if name == mended else faulty) * strength[name]
        return [step(n, *atoms, PAUSE, SYNC) for n in range(_STEPS)]

    faulty = program(None)
    saved = {name: gain(faulty, program(name), seed=seed) for name in chosen}
    first, *others = sorted(chosen, key=lambda name: -saved[name][1])
    graph = _graph(faulty, seed=seed)
    rivals = [
        saved[name][1] * max(_LEAD * _COMPILED.get(name, 1.0), _worth(first, name))
        for name in others
    ]
    # The parts' own waits are faults, too.
    waits = gain(faulty, _without_waits(faulty), seed=seed)[1]
    rivals += [waits * max(_LEAD, _worth(first, "sync_by_line"))]
    if saved[first][0] < max(3 * SMALL, _LEAD * graph, *rivals):
        return None
    parts = ", ".join(f"{name} x{strength[name]} ({saved[name][1]:.1%})" for name in chosen)
    case = Case(
        name=f"mix {seed}",
        kind="mix",
        why=f"Planted, with what removing each alone saves: {parts}; a graph: {graph:.1%}.",
        regime=regime(faulty, seed=seed),
        changes=(*SAME.get(first, (first,)), *_ALSO.get(first, ())),
        listed=tuple(name for name in chosen if saved[name][0] > 3 * SMALL),
        prices=dict.fromkeys(SAME.get(first, (first,)) * (first not in _EVERYWHERE), saved[first]),
    )
    return Program(faulty, case=case, seed=seed, metadata=metadata)


def _worth(name: str, other: str) -> float:
    """How many times as much as another change one must save to come before it, with its effort."""
    efforts = {query_of(each.name): each.effort for each in all_remedies().values()}
    levels = _EFFORTS.index(efforts[name]) - _EFFORTS.index(efforts[other])
    return (1 + SMALL) * float(Thresholds().worth_effort ** max(0, levels))


def _metadata(chosen: list[str]) -> dict[str, Any] | None:
    """What the controls' traces say of their device and run; None: they contradict each other."""
    together: dict[str, Any] = {}
    for name in chosen:
        for key, value in CONTROLS[name].metadata.items():
            if together.setdefault(key, value) != value:
                return None
    return together


def _learns(name: str) -> bool:
    """Whether a control's program is a training step."""
    text = repr(_per_step(name))
    return any(each in text for each in _OF_LEARNING)


def _without_waits(atoms: list[Any]) -> list[Any]:
    """The program without its synchronizing calls and reads of the device, but for the last one of
    each step."""

    def left(atom: Any) -> list[Any]:
        if isinstance(atom, Sync) or (isinstance(atom, BlockingCopy) and "DtoH" in atom.name):
            return []
        if not isinstance(atom, Slice):
            return [atom]
        inside = tuple(each for part in atom.atoms for each in left(part))
        return [replace(atom, atoms=inside)]

    return [
        replace(each, atoms=(*(a for part in each.atoms[:-1] for a in left(part)), each.atoms[-1]))
        for each in atoms
    ]


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
    # The mix has one pause and one wait at the end of a step.
    while all(part and part[-1] in (PAUSE, SYNC) for part in parts):
        parts = [part[:-1] for part in parts]
    return parts[0], parts[1]


@cache
def _cost_ns(name: str) -> float:
    """The cost of a control's fault in a step."""
    parts = [
        [step(n, *atoms, PAUSE, SYNC) for n in range(_STEPS)]
        for atoms in _per_step(name) or ((), ())
    ]
    return max((truth(parts[0], []) - truth(parts[1], [])) / _STEPS, 1.0)


# -- all -------------------------------------------------------------------------------------------


def programs() -> list[Program]:
    """All simulated programs; the same each time."""
    from tests.bench.diagnosis import healthy, misleading

    return [*twins(), *look_alikes(), *healthy.programs(), *misleading.programs(), *mixes()]
