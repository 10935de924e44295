"""Compares remedies' promises with the gains of their fixed twins: the table of
tests/bench/NOTES.md.

    python -m tests.bench.remedies

Each simulated control (tests/controls) is a line, and so is each real workload below, which runs on
the CPU: its trace is recorded with tracekit, the promise is read from `tracekit advise`, and both
twins are timed in turns without the profiler.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import tracekit
from tests.kit.simulated import write
from tests.kit.simulator import Machine, Simulation
from tracekit.advice.catalogue import catalogue
from tracekit.advice.model import Advice
from tracekit.replay.changes import query_of
from tracekit.text import duration

STEPS, ROUNDS, ROUNDS_PER_RECORDING = 20, 9, 3
_LOAD_S = 0.004


def simulated(remedy: str, folder: Path) -> tuple[int, int] | None:
    """The promise of advice on the faulty program, and the gain of its twin, in ns."""
    control = import_module(f"tests.controls.{query_of(remedy)}")
    machine = getattr(control, "MACHINE", Machine())
    faulty = Simulation(control.faulty(), machine)
    trace = write(folder / "trace.json", faulty, **getattr(control, "METADATA", {}))
    fixed = Simulation(control.fixed(), machine)
    for _ in fixed.events():
        pass
    promised = _promised(remedy, trace)
    return promised and (promised.saves_ns, faulty.span_ns - fixed.span_ns)


def _promised(remedy: str, trace: Path) -> Advice | None:
    with tracekit.load(trace) as run:
        found = [each for each in run.advise().advice if each.remedy == remedy]
    return found[0] if found else None


class Images(Dataset[Tensor]):
    """Images that take a while to load."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(_LOAD_S)
        return torch.ones(64)


def _training(workers: int) -> Callable[[], object]:
    weight = torch.randn(64, 64)
    loader: Iterator[Tensor] = iter(DataLoader(Images(), batch_size=4, num_workers=workers))

    def step() -> Tensor:
        x = next(loader)
        for _ in range(2000):
            x = torch.relu(x @ weight)
        return x

    return step


def spinning(spins: int) -> Callable[[], object]:
    weight = torch.randn(64, 64)

    def parse() -> int:
        total = 0
        for number in range(spins):
            total += number % 7
        return total

    def step() -> int:
        x = torch.ones(4, 64)
        for _ in range(200):
            x = torch.relu(x @ weight)
        return parse()

    return step


# By remedy: a step with the fault, the same step without it, and whether the trace needs stacks.
REAL = {
    "dataloader-workers": (partial(_training, 0), partial(_training, 2), False),
    "python-lines": (partial(spinning, 200_000), partial(spinning, 0), True),
}


def real(remedy: str, folder: Path) -> tuple[int, int] | None:
    """The promise of advice for a step of the faulty workload, and the gain of its twin, in ns.

    The promise is the median of recordings made between the timed rounds. The gain compares the
    lower quartiles of the steps, because other programs disturb many steps.
    """
    faulty, fixed, stacks = REAL[remedy]
    steps = {"faulty": faulty(), "fixed": fixed()}
    promises: list[Advice] = []
    took: dict[str, list[int]] = {name: [] for name in steps}
    for number in range(ROUNDS):
        if number % ROUNDS_PER_RECORDING == 0:
            trace = _recorded(steps["faulty"], folder / f"real{number}.json.gz", stacks)
            found = _promised(remedy, trace)
            promises += [found] if found else []
        for name, step in steps.items():
            for _ in range(STEPS):
                began = time.perf_counter_ns()
                step()
                took[name].append(time.perf_counter_ns() - began)
    if not promises:
        return None
    faulty_ns, fixed_ns = (quantiles(took[name], n=4)[0] for name in ("faulty", "fixed"))
    # With stacks, the profiler slows every line of Python down, so the share of the recorded window
    # holds without it. Without stacks it slows operators down, but not work without operators, such
    # as loading: there the time holds, and its share of the recorded window is too small.
    if stacks:
        promised = median(each.share or 0.0 for each in promises) * faulty_ns
    else:
        promised = median(each.saves_ns for each in promises) / STEPS
    return round(promised), round(faulty_ns - fixed_ns)


def _recorded(step: Callable[[], object], trace: Path, stacks: bool) -> Path:
    warmup = 3
    with tracekit.profile(trace, STEPS, warmup=warmup, stacks=stacks, shapes=False) as profiler:
        for _ in range(warmup + 1 + STEPS):
            step()
            profiler.step()
    return trace


def main() -> None:
    """Prints the table."""
    print("| remedy | run | promised | the twin gains | error |")
    print("|---|---|---|---|---|")
    known = [each.name for each in catalogue().values() if each.has_query]
    kinds = [("simulated", simulated, known), ("on this CPU", real, list(REAL))]
    for kind, measure, names in kinds:
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                found = measure(name, Path(folder))
            if found is None:
                print(f"| {name} | {kind} | not found | | |")
                continue
            promised, gained = found
            error = f"{100 * (promised / gained - 1):+.1f} %" if gained else "-"
            print(f"| {name} | {kind} | {duration(promised)} | {duration(gained)} | {error} |")


if __name__ == "__main__":
    main()
