"""Compares verdicts with experiments over a grid of sizes: `tracekit probe` at each point.

    python experiments.py --device cpu --batch 1 8 --hidden 256         on a CPU

`make gpu-check` does the same on a GPU, at the 80 points of the defaults.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tracekit.capture.workload import CannotRun, Options
from tracekit.experiments.probing import GRAPH, probe
from tracekit.text import duration

WORKLOADS = ("mlp-eager", "mlp-triton", "attention-block", "train-step")
BATCHES, HIDDENS = (1, 4, 16, 64, 256), (256, 1024, 3072, 8192)
HEADER = (
    "| workload | batch | hidden | step | verdict | experiments | agree "
    "| graph, predicted | measured | error |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Tried:
    """A point of the grid.

    `agrees` says whether the verdict and the experiments agree; None if they are inconclusive.
    `graph_error` is the predicted time as a CUDA graph over the measured time, minus 1; None unless
    both are known.
    """

    name: str
    agrees: bool | None
    graph_error: float | None


class Experiments:
    """The points that ran."""

    def __init__(self) -> None:
        self.tried: list[Tried] = []

    def measure(
        self,
        device: str = "cuda",
        workloads: tuple[str, ...] = WORKLOADS,
        batches: tuple[int, ...] = BATCHES,
        hiddens: tuple[int, ...] = HIDDENS,
    ) -> Iterator[str]:
        """Yields a Markdown table, one line per finished point; a failed point says why."""
        yield from HEADER
        for name, batch, hidden in product(workloads, batches, hiddens):
            try:
                yield self._point(name, Options(batch=batch, hidden=hidden, device=device))
            except CannotRun as error:
                yield f"| {name} | {batch} | {hidden} | {error.reason} |{' - |' * 6}"

    def _point(self, name: str, options: Options) -> str:
        found = probe(name, options)
        graph = next(each for each in found.experiments if each.name == GRAPH)
        judged = found.judgement
        self.tried.append(
            Tried(f"{name}, {options.batch} x {options.hidden}", judged.agrees, graph.error)
        )
        cells = [
            name,
            options.batch,
            options.hidden,
            duration(found.step_ns),
            found.regime,
            judged.regime,
            {True: "yes", False: "**no**", None: "cannot tell"}[judged.agrees],
            "-" if graph.predicted_ns is None else duration(graph.predicted_ns),
            graph.reason or ("-" if graph.measured_ns is None else duration(graph.measured_ns)),
            "-" if graph.error is None else f"{graph.error:+.1%}",
        ]
        return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Returns 1 if a verdict and its experiments disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workloads", nargs="*", default=WORKLOADS)
    parser.add_argument("--batch", type=int, nargs="*", default=BATCHES)
    parser.add_argument("--hidden", type=int, nargs="*", default=HIDDENS)
    given = parser.parse_args()
    experiments = Experiments()
    for line in experiments.measure(
        given.device, tuple(given.workloads), tuple(given.batch), tuple(given.hidden)
    ):
        print(line, flush=True)
    return int(any(each.agrees is False for each in experiments.tried))


if __name__ == "__main__":
    sys.exit(main())
