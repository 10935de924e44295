"""Compares verdicts with experiments over a grid of sizes: `tracekit probe` at each point.

    python -m tests.bench.experiments --device cpu --batch 1 8 --hidden 256         on a CPU

`make gpu-check` does the same on a GPU, at the 80 points of the defaults. With --points, finished
points are kept in a file, and not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from tests.bench.measuring import head, line
from tracekit.capture.workload import CannotRun, Options
from tracekit.errors import first_line
from tracekit.experiments.probing import probe
from tracekit.experiments.variants import GRAPHED
from tracekit.text import duration

WORKLOADS = ("mlp-eager", "mlp-triton", "attention-block", "train-step")
BATCHES, HIDDENS = (1, 4, 16, 64, 256), (256, 1024, 3072, 8192)
COLUMNS = (
    "workload", "batch", "hidden", "step", "verdict", "experiments", "agree", "graph, predicted",
    "measured", "error",
)  # fmt: skip


@dataclass(frozen=True)
class Tried:
    """A point of the grid.

    `agrees` says whether the verdict and the experiments agree; None if they are inconclusive.
    `graph_error` is the predicted time as a CUDA graph over the measured time, minus 1; None unless
    both are known. `line` is its row of the table, which also says why a point could not run.
    """

    name: str
    agrees: bool | None
    graph_error: float | None
    line: str = ""


class Experiments:
    """The points that ended; those of earlier runs, if they were kept in the file `points`."""

    def __init__(self, points: Path | None = None) -> None:
        self.points = points
        self.tried: list[Tried] = []
        if points and points.exists():
            text = points.read_text(encoding="utf-8")
            self.tried = [Tried(**json.loads(each)) for each in text.splitlines()]

    def measure(
        self, device: str, names: Iterable[str], batches: Iterable[int], hiddens: Iterable[int]
    ) -> Iterator[str]:
        """Yields a Markdown table, one line per finished point; a failed point says why.

        Raises:
            DeviceBroke: after a point that the device did not survive.
        """
        yield from head(COLUMNS)
        for name, batch, hidden in product(names, batches, hiddens):
            place = f"{name}, {batch} x {hidden}"
            known = next((each for each in self.tried if each.name == place), None)
            yield known.line if known else self._point(place, name, batch, hidden, device)
            if not known and device == "cuda" and not _works():
                raise DeviceBroke(place)

    def _point(self, place: str, name: str, batch: int, hidden: int, device: str) -> str:
        try:
            found = self._probed(place, name, Options(batch=batch, hidden=hidden, device=device))
        except Exception as error:
            reason = error.reason if isinstance(error, CannotRun) else first_line(error)
            found = Tried(place, None, None, line(name, batch, hidden, reason, *"------"))
        self.tried.append(found)
        if self.points:
            with self.points.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(asdict(found))}\n")
        return found.line

    def _probed(self, place: str, name: str, options: Options) -> Tried:
        found = probe(name, options)
        graph = next(each for each in found.experiments if each.name == GRAPHED)
        judged = found.judgement
        agrees = {True: "yes", False: "**no**", None: "cannot tell"}[judged.agrees]
        predicted, measured = (
            "-" if each is None else duration(each)
            for each in (graph.predicted_ns, graph.measured_ns)
        )
        error = "-" if graph.error is None else f"{graph.error:+.1%}"
        row = line(
            name, options.batch, options.hidden, duration(found.step_ns), found.regime,
            judged.regime, agrees, predicted, graph.reason or measured, error,
        )  # fmt: skip
        return Tried(place, judged.agrees, graph.error, row)


class DeviceBroke(Exception):
    """An error after which the device runs nothing more in this process."""


def _works() -> bool:
    import torch

    try:
        torch.cuda.synchronize()
    except Exception:
        return False
    return True


def main() -> int:
    """Returns 1 if a verdict and its experiments disagree; targets.py judges kept points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--batch", type=int, nargs="*", default=BATCHES)
    parser.add_argument("--hidden", type=int, nargs="*", default=HIDDENS)
    parser.add_argument("--points", type=Path, help="the file that keeps finished points")
    given = parser.parse_args()
    experiments = Experiments(given.points)
    grid = given.workloads, given.batch, given.hidden
    try:
        for row in experiments.measure(given.device, *grid):
            print(row, flush=True)
    except DeviceBroke as error:
        print(f"the device broke at {error}", flush=True)
        if given.points:
            # The file has that point: a new process continues after it.
            module = ["-m", "tests.bench.experiments"]
            os.execv(sys.executable, [sys.executable, *module, *sys.argv[1:]])
        return 1
    return int(not given.points and any(each.agrees is False for each in experiments.tried))


if __name__ == "__main__":
    sys.exit(main())
