"""Random runs of ranks: collectives of all kinds and groups, messages, pipelines and late ranks."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit import ranks_simulated, simulated
from tests.kit.atoms import US, Launch, Op, StreamWait, Sync, Work, line, operator, step
from tests.kit.pipelines import COMPUTE, RECEIVES, SENDS
from tests.kit.ranks_simulated import KERNEL
from tests.kit.schedules import SCHEDULES
from tests.kit.simulator import Simulation

_ASIDE = 40
# The kernels' names by type.
_TYPES = {
    "allreduce": "AllReduce_Sum_f32",
    "all_to_all": "SendRecv",
    "allgather": "AllGather",
    "reduce_scatter": "ReduceScatter_Sum_f32",
    "broadcast": "Broadcast",
}


@dataclass
class _Run:
    """A run that is written while its program is drawn: each rank's atoms in the step at hand."""

    rng: random.Random
    ranks: int
    is_buffered: bool
    has_sequence: bool
    atoms: list[list[Any]] = field(default_factory=list)
    counts: dict[Any, int] = field(default_factory=dict)
    pace: list[float] = field(default_factory=list)

    def compute(self, rank: int, ns: int) -> None:
        ns = round(ns * self.pace[rank])
        self.atoms[rank].append(operator("aten::linear", 5 * US, Launch(4 * US, (("math", ns),))))

    def meet(self, group: tuple[int, ...], type_: str, elements: int, ns: int, aside: bool) -> None:
        """A collective of these ranks."""
        name = "pg" + "_".join(map(str, group))
        self.counts[name] = self.counts.get(name, 0) + 1
        args = {"Process Group Name": name, "Process Group Ranks": str([*group]),
                "Group size": len(group)}  # fmt: skip
        if self.has_sequence:
            args["Seq"] = self.counts[name]
        for rank in group:
            launched = _launch(type_, _TYPES[type_], ns, elements, args, _ASIDE if aside else 7)
            meeting = operator(f"c10d::{type_}", 3 * US, launched)
            if aside:
                wait = StreamWait(2 * US, record=COMPUTE, wait=_ASIDE)
                self.atoms[rank] += [wait, meeting]
                if self.rng.random() < 0.7:
                    self.atoms[rank].append(StreamWait(2 * US, record=_ASIDE, wait=COMPUTE))
            else:
                self.atoms[rank].append(meeting)

    def send(self, sender: int, receiver: int, elements: int, ns: int) -> None:
        self.post(sender, receiver, "send", elements, ns)
        self.post(receiver, sender, "recv", elements, ns)

    def post(self, rank: int, other: int, name: str, elements: int, ns: int) -> None:
        """One side of a message."""
        is_send = name == "send"
        stream = SENDS if is_send else RECEIVES
        args = {"Process Group Name": "pp", "Group size": self.ranks,
                "Dst Rank" if is_send else "Src Rank": other}  # fmt: skip
        launched = _launch(name, "SendRecv", ns, elements, args, stream)
        self.atoms[rank] += [
            StreamWait(2 * US, record=COMPUTE, wait=stream),
            operator(f"c10d::{name}", 3 * US, launched),
        ]
        if not is_send:
            self.atoms[rank].append(StreamWait(2 * US, record=RECEIVES, wait=COMPUTE))


def _launch(
    name: str, kernel: str, ns: int, elements: int, args: dict[str, Any], stream: int
) -> Launch:
    sizes = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"}
    op = Op("communication", ns, KERNEL.format(kernel), args | sizes | {"Collective name": name})
    return Launch(4 * US, (op,), stream)


def programs(seed: int) -> tuple[list[list[Any]], bool]:
    """The program of each rank, and whether sends are buffered."""
    rng = random.Random(seed)
    ranks = rng.randint(2, 6)
    run = _Run(rng, ranks, rng.random() < 0.5, rng.random() < 0.5)
    run.pace = [rng.choice([1.0, 1.0, 1.0, rng.uniform(1, 3)]) for _ in range(ranks)]
    kinds = rng.sample(["all", "group", "message", "ring", "pipeline", "late"], rng.randint(2, 5))
    script = [rng.choice(kinds) for _ in range(rng.randint(1, 6))]
    whole: list[list[Any]] = [[] for _ in range(ranks)]
    is_marked = rng.random() < 0.8
    seeds = rng.randrange(1 << 30)
    for number in range(rng.randint(1, 4)):
        run.atoms = [[] for _ in range(ranks)]
        # Steps are alike, except for what is late at random.
        again = random.Random(seeds)
        for kind in script:
            _phase(run, kind, again)
        for rank, own in enumerate(run.atoms):
            own += [
                operator("Optimizer.step#SGD.step", 5 * US, Launch(4 * US, (("math", 20 * US),)))
            ]
            own += [Sync(2 * US)] * (rng.random() < 0.8)
            whole[rank] += [step(number + 1, *own)] if is_marked else own
    for own in whole:
        own.append(Sync(2 * US))
    return whole, run.is_buffered


def _phase(run: _Run, kind: str, rng: random.Random) -> None:
    """What the ranks do next; in it, collectives and messages have one order on all ranks."""
    every = tuple(range(run.ranks))
    elements, ns = rng.choice([1, 1 << 10, 1 << 18]), rng.randint(5, 200) * US
    work_ns = rng.randint(10, 800) * US
    for rank in every:
        run.compute(rank, work_ns)
    match kind:
        case "all":
            run.meet(every, rng.choice([*_TYPES]), elements, ns, rng.random() < 0.5)
        case "group" if run.ranks > 2:
            group = tuple(sorted(rng.sample(every, rng.randint(2, run.ranks - 1))))
            run.meet(group, rng.choice([*_TYPES]), elements, ns, rng.random() < 0.5)
        case "message":
            sender, receiver = rng.sample(every, 2)
            run.send(sender, receiver, elements, ns)
        case "ring":
            # As NCCL does in one kernel, but here one after the other.
            for rank in every:
                run.send(rank, (rank + 1) % run.ranks, elements, ns)
        case "pipeline":
            _pipeline(run, rng, elements, ns)
        case "late":
            late = run.rng.randrange(run.ranks)
            run.atoms[late].append(line("train.py(42): log", Work(run.rng.randint(1, 3_000) * US)))


def _pipeline(run: _Run, rng: random.Random, elements: int, ns: int) -> None:
    ranks, work_ns = run.ranks, rng.randint(50, 400) * US
    # Sends that wait for their receives block each other in other schedules.
    names = [*SCHEDULES] if run.is_buffered else ["GPipe"]
    name = rng.choice([each for each in names if each != "DualPipe" or ranks in (2, 4)])
    times = {"F": work_ns, "B": 2 * work_ns, "I": work_ns, "W": work_ns}
    schedule = SCHEDULES[name](ranks, 2 * ranks, times)
    for rank, slots in enumerate(schedule.slots):
        for slot in slots:
            for part in slot:
                need = schedule.needs(part)
                if need and (source := schedule.rank(need.way, need.stage)) != rank:
                    run.post(rank, source, "recv", elements, ns)
            for part in slot:
                run.compute(rank, schedule.times[part.kind])
            for part in slot:
                fed = schedule.feeds(part)
                if fed and (target := schedule.rank(fed.way, fed.stage)) != rank:
                    run.post(rank, target, "send", elements, ns)


def simulate(seed: int) -> list[Simulation]:
    """The runs of all ranks."""
    whole, is_buffered = programs(seed)

    def meeting(rank: int, op: Op) -> tuple[Any, int]:
        if "Dst Rank" in op.args:
            return (rank, op.args["Dst Rank"]), 0 if is_buffered else 2
        if "Src Rank" in op.args:
            return (op.args["Src Rank"], rank), 2
        return op.args["Process Group Name"], op.args["Group size"]

    return simulated.ranks(whole, meeting, seed)


def write(folder: Path, seed: int) -> list[Simulation]:
    """Runs a random program and writes the traces of its ranks, whose clocks may differ."""
    runs = simulate(seed)
    rng = random.Random(~seed)
    clocks = {rank: rng.randint(-2_000, 2_000) * US for rank in range(len(runs))}
    return ranks_simulated.write_ranks(folder, runs, clocks if rng.random() < 0.5 else None)
