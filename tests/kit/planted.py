"""Random programs whose steps repeat, with events planted in them that happen once.

The truth about the steady part is the program without them, in the simulator.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.kit.atoms import (
    MS,
    US,
    BlockingCopy,
    Call,
    HandOver,
    Launch,
    Slice,
    Sync,
    Work,
    operator,
    step,
)  # fmt: skip
from tests.kit.programs import random_step
from tests.kit.simulated import truth, write
from tests.kit.simulator import HOST, Machine, Simulation, trace_event

PLANTS = (
    "gap", "launch", "compile", "capture", "first step", "malloc", "poll", "clock", "missing",
)  # fmt: skip
_POLLER = 5000


@dataclass(frozen=True)
class Planted:
    """A program with planted events, and the same program without them."""

    seed: int
    plants: frozenset[str]
    atoms: list[Any]
    plain: list[Any]
    machine: Machine

    def write(self, path: Path, **metadata: Any) -> Path:
        """Runs the program and writes its trace."""
        run = Simulation(self.atoms, self.machine, seed=self.seed)
        return write(path, run, self._disturbed, **metadata)

    def _disturbed(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Adds a thread that polls, shifts the device's clock, or loses launches."""
        rng = random.Random(self.seed)
        on_device = [each for each in events if each["pid"] == 0 and each["cat"] != "cuda_sync"]
        if "poll" in self.plants:
            begin = min(each["ts"] for each in events)
            end = max(each["ts"] + each["dur"] for each in events)
            names = ("threading.py(359): wait", "<built-in method acquire of _thread.lock object>")
            waiting = {"cat": "python_function", "pid": HOST, "tid": _POLLER, "args": {}}
            times = {"begin": int(begin * 1000), "end": int(end * 1000)}
            events += [trace_event(waiting | times | {"name": name}) for name in names]
        if "clock" in self.plants:
            shift = rng.uniform(-100, 100)
            for each in events:
                if each["pid"] == 0:
                    each["ts"] = round(each["ts"] + shift, 3)
        if "missing" not in self.plants:
            return events
        lost = [
            ("cuda_runtime", e["args"]["correlation"]) for e in on_device if rng.random() < 0.02
        ]
        return [e for e in events if (e["cat"], e["args"].get("correlation")) not in lost]

    def gains(self) -> tuple[float, float]:
        """The gains from halving the host's and the device's work in the plain program: fractions
        of its length."""
        length, host, device = (
            truth(self.plain, changes, self.machine, self.seed)
            for changes in ((), ("host*0.5",), ("device*0.5",))
        )
        return 1 - host / length, 1 - device / length


def planted(seed: int) -> Planted:
    """A program and its planted events, both determined by the seed."""
    rng = random.Random(seed)
    machine = Machine(records_waits=rng.random() < 0.5)
    repeated = rng.randrange(1 << 30)
    habits = {name for name in _HABITS if rng.random() < 0.3}
    pace = {
        "dispatch": rng.uniform(3, 25) * US,
        "python": rng.choice([0.0, rng.uniform(1, 40) * US]),
        "call": rng.uniform(3, 9) * US,
        "op": rng.uniform(2, 250) * US,
        "load": 0.0,
    }
    # Every step is the same.
    steps = [random_step(random.Random(repeated), habits, pace) for _ in range(rng.randint(4, 8))]
    plain = [*(atom for each in steps for atom in each), Sync(2 * US)]
    whole = truth(plain, [], machine, seed)
    plants = frozenset(rng.sample(PLANTS, rng.randint(1, 3)))
    for plant in sorted(plants):
        _plant(plant, steps, rng, int(whole * rng.uniform(0.3, 4)))
    is_marked = rng.random() < 0.5
    atoms: list[Any] = []
    for number, each in enumerate(steps):
        atoms += [step(number, *each)] if is_marked else each
    return Planted(seed, plants, [*atoms, Sync(2 * US)], plain, machine)


_HABITS = ("backward", "sync", "item", "input", "copy", "comm", "side", "graph")


def _plant(plant: str, steps: list[list[Any]], rng: random.Random, ns: int) -> None:
    chosen = steps[rng.randrange(len(steps))]
    place = rng.randrange(1, len(chosen))
    if plant == "gap":
        chosen.insert(place, Work(ns))
    elif plant == "launch":
        launch = Launch(ns, (("math", 9 * US),))
        chosen.insert(place, operator("aten::linear", 9 * US, operator("aten::mm", 9 * US, launch)))
    elif plant == "compile":
        steps[0].insert(0, Slice("compile (dynamo_timed)", "cpu_op", (Work(ns, "compilation"),)))
    elif plant == "capture":
        calls = [Call("cudaLaunchKernel", ns // 50, "launch") for _ in range(50)]
        chosen.insert(
            place,
            operator(
                "CompiledFunction", 9 * US, Call("cudaStreamBeginCapture", 9 * US, "launch"),
                *calls, Call("cudaStreamEndCapture", 9 * US, "launch"),
                Call("cudaGraphInstantiateWithFlags", 2 * MS, "compilation"),
            ),
        )  # fmt: skip
    elif plant == "first step":
        steps[0][:] = list(_slower(steps[0], rng.uniform(4, 10)))
    elif plant == "malloc":
        for index in range(0, 2 * min(10, len(steps[0])), 2):
            steps[0].insert(index, Call("cudaMalloc", ns // 10, "allocation"))


def _slower(atoms: Iterable[Any], factor: float) -> Iterable[Any]:
    """The atoms with the host's work `factor` times as long."""
    for atom in atoms:
        match atom:
            case Slice() | HandOver():
                yield replace(atom, atoms=tuple(_slower(atom.atoms, factor)))
            case Work() | Launch() | Call():
                yield replace(atom, ns=int(atom.ns * factor))
            case BlockingCopy():
                yield replace(atom, staging_ns=int(atom.staging_ns * factor))
            case _:
                yield atom


# If the sides gain about the same, either regime is right.
CLOSE = 0.05


def is_right(program: Planted, regime: str) -> bool:
    """Whether a regime is that of the program without its planted events."""
    host, device = program.gains()
    if abs(host - device) <= CLOSE:
        return regime != "unknown"
    return regime == ("overhead-bound" if host > device else "compute-bound")
