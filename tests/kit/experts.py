"""Simulated runs of expert parallelism: in each layer, tokens go to the ranks of their experts and
back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit import ranks_simulated, simulated
from tests.kit.atoms import US, Launch, Op, Sync, operator, step
from tests.kit.ranks_simulated import KERNEL
from tests.kit.simulator import Simulation

_HOST_NS = 20 * US


@dataclass(frozen=True)
class Experts:
    """A run whose ranks hold some experts each."""

    ranks: int = 4
    steps: int = 8
    layers: int = 4
    attention_ns: int = 300 * US
    experts_ns: int = 600 * US
    message_ns: int = 80 * US
    tokens: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """The tokens that a rank's experts get in a step, by step and rank, over the usual."""


def _atoms(job: Experts, rank: int) -> Iterator[Any]:
    for number in range(job.steps):
        yield step(number + 1, *_step(job, number, rank))


def _step(job: Experts, number: int, rank: int) -> Iterator[Any]:
    experts_ns = round(job.experts_ns * job.tokens.get((number, rank), 1.0))
    for layer in range(job.layers):
        yield operator("aten::_scaled_dot_product_flash_attention", _HOST_NS,
                       Launch(5 * US, (("math", job.attention_ns),)))  # fmt: skip
        yield _exchange(job, 2 * (number * job.layers + layer))
        yield operator("aten::_grouped_mm", _HOST_NS, Launch(5 * US, (("math", experts_ns),)))
        yield _exchange(job, 2 * (number * job.layers + layer) + 1)
    yield Sync(2 * US)


def _exchange(job: Experts, sequence: int) -> Any:
    args = {
        "Collective name": "all_to_allv", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
        "dtype": "BFloat16", "Process Group Name": "ep", "Group size": job.ranks,
        "Seq": sequence + 1, "Process Group Ranks": str([*range(job.ranks)]),
    }  # fmt: skip
    kernel = Op("communication", job.message_ns, KERNEL.format("SendRecv"), args)
    return operator("c10d::alltoall_base_", _HOST_NS, Launch(5 * US, (kernel,)))


def simulate(job: Experts) -> list[Simulation]:
    """The runs of all ranks."""
    return simulated.ranks([[*_atoms(job, rank)] for rank in range(job.ranks)])


def write(folder: Path, job: Experts) -> list[Simulation]:
    """Runs a job and writes the traces of its ranks."""
    return ranks_simulated.write_ranks(folder, simulate(job))
