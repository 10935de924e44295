"""Simulated runs of many ranks (data, tensor and pipeline parallel) with planted faults.

Without a fault, the same run gives the truth that a price is compared with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.kit import simulated
from tests.kit.atoms import MS, US, Launch, Op, StreamWait, Sync, Work, line, operator, step
from tests.kit.simulator import Simulation

KERNEL = "ncclDevKernel_{}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LOGGING = "train.py(42): log_metrics"


@dataclass(frozen=True)
class Job:
    """A training run of `data` x `tensor` x `stages` ranks."""

    data: int = 1
    tensor: int = 1
    stages: int = 1
    steps: int = 3
    layers: int = 2
    batches: int = 4
    """Pieces of a batch that go through a pipeline."""
    kernel_ns: int = 400 * US
    message_ns: int = 100 * US
    python_ns: int = 60 * US
    late: dict[int, int] = field(default_factory=dict)
    """The extra Python work of a rank in each step, in ns."""
    slow_kernels: dict[int, float] = field(default_factory=dict)
    """The factor on the times of a rank's kernels."""
    slow_links: dict[tuple[int, ...], float] = field(default_factory=dict)
    """The factor on the times of a group's messages."""
    clocks: dict[int, int] = field(default_factory=dict)
    """How far a rank's clock is ahead, in ns."""
    is_apart: bool = False
    """Whether the stages of the pipeline run without waiting for each other."""
    has_sequence: bool = True
    seed: int = 0

    @property
    def world(self) -> int:
        return self.data * self.tensor * self.stages

    def place(self, rank: int) -> tuple[int, int, int]:
        """The stage, data-parallel index and tensor-parallel index of a rank."""
        stage, rest = divmod(rank, self.data * self.tensor)
        return stage, *divmod(rest, self.tensor)

    def rank(self, stage: int, data: int, tensor: int) -> int:
        return (stage * self.data + data) * self.tensor + tensor


class _Program:
    """The program of one rank."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job, self.rank = job, rank
        self.stage, self.data, self.tensor = job.place(rank)
        self.counts: dict[str, int] = defaultdict(int)
        self.tensors = tuple(job.rank(self.stage, self.data, t) for t in range(job.tensor))
        self.datas = tuple(job.rank(self.stage, d, self.tensor) for d in range(job.data))

    def atoms(self) -> Iterable[Any]:
        for number in range(self.job.steps):
            yield step(number + 1, *self._step())

    def _step(self) -> Iterable[Any]:
        job = self.job
        yield line("train.py(20): load", Work(job.python_ns))
        for direction in (1, -1):
            for _ in range(job.batches if job.stages > 1 else 1):
                yield from self._pass(direction)
        if self.rank in job.late:
            yield line(LOGGING, Work(job.late[self.rank]))
        if job.data > 1:
            # On a separate stream, like DistributedDataParallel.
            yield StreamWait(2 * US, record=7, wait=20)
            yield self._allreduce(self.datas, "dp", 1 << 20)
            yield StreamWait(2 * US, record=20, wait=7)
        yield operator("Optimizer.step#Adam.step", 5 * US, self._kernel(job.kernel_ns // 4))
        yield Sync(2 * US)

    def _pass(self, direction: int) -> Iterable[Any]:
        job = self.job
        before, after = self.stage - direction, self.stage + direction
        if 0 <= before < job.stages:
            yield self._exchange("recv", before)
        for _ in range(job.layers):
            yield operator("aten::linear", 5 * US, self._kernel(job.kernel_ns))
            if job.tensor > 1:
                yield self._allreduce(self.tensors, "tp", 1 << 18)
        if 0 <= after < job.stages:
            yield self._exchange("send", after)

    def _kernel(self, ns: int) -> Launch:
        slower = self.job.slow_kernels.get(self.rank, 1.0)
        return Launch(4 * US, (("math", round(ns * slower)),))

    def _allreduce(self, group: tuple[int, ...], kind: str, elements: int) -> Any:
        called = f"{kind}{group[0]}"
        self.counts[called] += 1
        args: dict[str, Any] = {"Process Group Ranks": str(list(group)), "Group size": len(group)}
        if self.job.has_sequence:
            args["Seq"] = self.counts[called]
        launch = self._message("allreduce", "AllReduce_Sum_f32", group, elements, called, args)
        return operator(
            "c10d::allreduce_", 3 * US, replace(launch, stream=20 if kind == "dp" else 7)
        )

    def _exchange(self, name: str, stage: int) -> Any:
        other = self.job.rank(stage, self.data, self.tensor)
        pair = (min(self.rank, other), max(self.rank, other))
        args = {"Group size": self.job.stages, "Dst Rank" if name == "send" else "Src Rank": other}
        launch = self._message(name, "SendRecv", pair, 1 << 16, "pp", args)
        return operator(f"c10d::{name}", 3 * US, launch)

    def _message(
        self, name: str, kernel: str, ranks: tuple[int, ...], elements: int, group: str, args: Any
    ) -> Launch:
        ns = round(self.job.message_ns * self.job.slow_links.get(ranks, 1.0))
        args |= {
            "Collective name": name, "In msg nelems": elements, "Out msg nelems": elements,
            "dtype": "Float", "Process Group Name": group,
        }  # fmt: skip
        return Launch(4 * US, (Op("communication", ns, KERNEL.format(kernel), args),))


def simulate(job: Job) -> list[Simulation]:
    """The runs of all ranks."""

    def meeting(rank: int, op: Op) -> tuple[Any, int] | None:
        args = op.args
        if "Process Group Ranks" in args:
            return args["Process Group Name"], args["Group size"]
        if job.is_apart:
            return None
        other = args.get("Dst Rank", args.get("Src Rank"))
        return ((rank, other) if "Dst Rank" in args else (other, rank)), 2

    programs = [list(_Program(job, rank).atoms()) for rank in range(job.world)]
    return simulated.ranks(programs, meeting, job.seed)


def span_ns(runs: list[Simulation]) -> int:
    """From the last rank's start of the first step until all have completed the last."""
    begin = max(
        min(each["begin"] for each in run.recorded if each["name"].startswith("ProfilerStep#"))
        for run in runs
    )
    return max(each["end"] for run in runs for each in run.recorded) - begin


def write(folder: Path, job: Job, hosts: Sequence[str] = (), **metadata: Any) -> list[Simulation]:
    """Runs a job and writes the traces of its ranks, on `hosts` if these are given."""
    return write_ranks(folder, simulate(job), job.clocks, hosts, **metadata)


def write_ranks(
    folder: Path,
    runs: list[Simulation],
    clocks: Mapping[int, int] | None = None,
    hosts: Sequence[str] = (),
    lose: simulated.Lose = list,
    **metadata: Any,
) -> list[Simulation]:
    """Writes the traces of ranks that ran, whose clocks are ahead by these times, after `lose` took
    away some of their events."""
    for rank, run in enumerate(runs):
        ahead_us = (clocks or {}).get(rank, 0) / 1000

        def moved(events: list[dict[str, Any]], us: float = ahead_us) -> list[dict[str, Any]]:
            return [event | {"ts": round(event["ts"] + us, 3)} for event in lose(events)]

        place = {"backend": "nccl", "rank": rank, "world_size": len(runs)}
        base = {"baseTimeNanoseconds": 10 * MS, "distributedInfo": place} | metadata
        host = {"host_name": hosts[rank]} if hosts else {}
        simulated.write(folder / f"rank{rank}.json", run, moved, **base, **host)
    return runs


def thinned(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without the calls that tell which stream waits for which, as some files are."""
    gone = ("cudaEventRecord", "cudaStreamWaitEvent")
    return [event for event in events if event["name"] not in gone]
