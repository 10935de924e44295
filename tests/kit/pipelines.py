"""Simulated runs of pipelines: each rank computes what a schedule says, and sends what comes of it.

Messages are as PyTorch records them: a kernel on each side, on a stream of its own, inside the
operator that names the other rank. A send is buffered: it does not wait for its receive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit import ranks_simulated, schedules, simulated
from tests.kit.atoms import US, Launch, Op, StreamWait, Sync, Work, line, operator, step
from tests.kit.ranks_simulated import KERNEL
from tests.kit.schedules import SCHEDULES, Part, Schedule
from tests.kit.simulator import Simulation

COMPUTE, RECEIVES, SENDS, REDUCES = 7, 30, 31, 40
NAMES = {
    "F": "aten::linear",
    "B": "autograd::engine::evaluate_function: AddmmBackward0",
    "I": "autograd::engine::evaluate_function: AddmmBackward0",
    "W": "weight_gradients",
}


@dataclass(frozen=True)
class Pipeline:
    """A training run in which each rank is a stage of a pipeline."""

    name: str
    """Its schedule: one of SCHEDULES."""
    ranks: int = 4
    batches: int = 8
    steps: int = 2
    forward_ns: int = 400 * US
    """The time of a micro-batch's forward pass, and of either half of its backward pass."""
    message_ns: int = 20 * US
    reduces: bool = False
    """Whether an all-reduce of all ranks, such as of the norm of gradients, ends a step."""
    slower: Mapping[int, float] = field(default_factory=dict)
    """The factor on the times of a rank's kernels."""
    late: Mapping[int, int] = field(default_factory=dict)
    """The extra Python work of a rank at the end of each step, in ns."""

    @property
    def schedule(self) -> Schedule:
        ns = self.forward_ns
        return SCHEDULES[self.name](
            self.ranks, self.batches, {"F": ns, "B": 2 * ns, "I": ns, "W": ns}
        )

    @property
    def bubble_ns(self) -> int:
        """How long each rank idles in a step by the schedule's formula, without messages."""
        return schedules.bubble_ns(self.name, self.ranks, self.schedule.times)

    @property
    def stages(self) -> list[schedules.Stage]:
        """What each rank does in a step."""
        return schedules.played(self.schedule, self.message_ns, self.slower)


def atoms(job: Pipeline, rank: int) -> Iterator[Any]:
    """The program of a rank."""
    for number in range(job.steps):
        yield step(number + 1, *_step(job, job.schedule, rank))


def _step(job: Pipeline, schedule: Schedule, rank: int) -> Iterator[Any]:
    yield line("train.py(20): load", Work(60 * US))
    factor = job.slower.get(rank, 1.0)
    for slot in schedule.slots[rank]:
        for part in slot:
            need = schedule.needs(part)
            if need and (source := schedule.rank(need.way, need.stage)) != rank:
                yield _message(job, "recv", source)
                yield StreamWait(2 * US, record=RECEIVES, wait=COMPUTE)
        for part in slot:
            ns = round(schedule.times[part.kind] * factor)
            yield operator(NAMES[part.kind], 5 * US, Launch(4 * US, (("math", ns),)))
        for part in slot:
            yield from _sent(job, schedule, rank, part)
    if job.reduces:
        yield StreamWait(2 * US, record=COMPUTE, wait=REDUCES)
        yield operator("c10d::allreduce_", 3 * US, _reduction(job))
        yield StreamWait(2 * US, record=REDUCES, wait=COMPUTE)
    if rank in job.late:
        yield line(ranks_simulated.LOGGING, Work(job.late[rank]))
    yield operator("Optimizer.step#Adam.step", 5 * US, Launch(4 * US, (("math", 10 * US),)))
    yield Sync(2 * US)


def _sent(job: Pipeline, schedule: Schedule, rank: int, part: Part) -> Iterator[Any]:
    fed = schedule.feeds(part)
    if fed and (target := schedule.rank(fed.way, fed.stage)) != rank:
        yield _message(job, "send", target)


def _message(job: Pipeline, name: str, other: int) -> Any:
    is_send = name == "send"
    stream = SENDS if is_send else RECEIVES
    args = {"Group size": job.ranks, "Dst Rank" if is_send else "Src Rank": other}
    kernel = _kernel(name, "SendRecv", job.message_ns, 1 << 16, args)
    return operator(
        f"c10d::{'send' if is_send else 'recv_'}", 3 * US,
        StreamWait(2 * US, record=COMPUTE, wait=stream), Launch(4 * US, (kernel,), stream),
    )  # fmt: skip


def _reduction(job: Pipeline) -> Launch:
    args = {"Process Group Ranks": str([*range(job.ranks)]), "Group size": job.ranks}
    kernel = _kernel("allreduce", "AllReduce_Sum_f32", 20 * US, 1, args)
    return Launch(4 * US, (kernel,), REDUCES)


def _kernel(name: str, kernel: str, ns: int, elements: int, args: dict[str, Any]) -> Op:
    sizes = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"}
    args = {"Collective name": name, "Process Group Name": "pp"} | sizes | args
    return Op("communication", ns, KERNEL.format(kernel), args)


def simulate(job: Pipeline) -> list[Simulation]:
    """The runs of all ranks."""

    def meeting(rank: int, op: Op) -> tuple[Any, int]:
        if "Dst Rank" in op.args:
            return (rank, op.args["Dst Rank"]), 0
        if "Src Rank" in op.args:
            return (op.args["Src Rank"], rank), 2
        return "all", job.ranks

    return simulated.ranks([[*atoms(job, rank)] for rank in range(job.ranks)], meeting)


def write(folder: Path, job: Pipeline) -> list[Simulation]:
    """Runs a pipeline and writes the traces of its ranks."""
    return ranks_simulated.write_ranks(folder, simulate(job))
