"""How controls are made, and what their programs have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.kit.atoms import NAMES, US, Launch, Op, Slice, Sync, Work, line, operator, step
from tests.kit.simulator import Machine

Atoms = list[Any]
# As `capture` notes it: the simulator's recorder costs the host nothing.
FREE = {"tracekit": {"profiled_step_ns": 1, "unprofiled_step_ns": 1}}
PAUSE, SYNC = Work(10 * US), Sync(2 * US)
# Kernels by cause and length (`math=20 * US`), or by their names (`Op`).
Kernel = Op | tuple[str, int]


@dataclass(frozen=True)
class Control:
    """The atoms of the two programs (tests/kit/atoms.py), and where advice has to point."""

    about: str
    place: str | None
    faulty: Atoms
    fixed: Atoms
    machine: Machine = field(default_factory=Machine)
    metadata: dict[str, Any] = field(default_factory=FREE.copy)
    """Keys of the trace's JSON object."""


CONTROLS: dict[str, Control] = {}


def planted(
    place: str | None, faulty: tuple[Any, ...], fixed: tuple[Any, ...], **more: Any
) -> Callable[[Callable[..., Atoms]], Callable[..., Atoms]]:
    """Makes a program, whose function takes the place (if there is one) and then the arguments that
    plant the fault, or those without it."""

    def add(program: Callable[..., Atoms]) -> Callable[..., Atoms]:
        about = " ".join((program.__doc__ or "").split())
        given = () if place is None else (place,)
        both = (program(*given, *each) for each in (faulty, fixed))
        CONTROLS[program.__name__] = Control(about, place, *both, **more)
        return program

    return add


def steps(*atoms: Any, times: int = 4) -> Atoms:
    return [step(n, *atoms) for n in range(times)]


def launched(
    name: str, dispatch_ns: int, kernel: Kernel, call_ns: int = 5 * US, **recorded: Any
) -> Slice:
    """An operator that launches one kernel; `recorded` are its inputs' shapes and types."""
    return operator(name, dispatch_ns, Launch(call_ns, (kernel,)), **recorded)


def products(count: int, ns: int, call_ns: int = 4 * US) -> Atoms:
    return [launched("aten::mm", 12 * US, ("math", ns), call_ns)] * count


def reading(own_ns: int = 3 * US) -> Slice:
    """The host reads a number from the device."""
    return operator("aten::item", US, Sync(own_ns, 7))


def training(*atoms: Any) -> Slice:
    """A step's forward and backward pass, after which the loss is read."""
    return line("train.py(44): train_step", *atoms, reading())


def reduced(ns: int, elements: int, stream: int = 20, dispatch_ns: int = 5 * US) -> Slice:
    """An all-reduce of so many floats."""
    told = {
        "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
        "dtype": "Float", "Group size": 8, "Process Group Name": "0",
    }  # fmt: skip
    launch = Launch(6 * US, (Op("communication", ns, NAMES["communication"], told),), stream)
    return operator("record_param_comms", dispatch_ns, operator("nccl:all_reduce", 4 * US, launch))
