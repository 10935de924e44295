"""Holds the fix list against experiments: each fault of pairs.py, and the same program without it.

    python -m tests.bench.faults --device cpu --traces build/faults

Each faulty step is captured twice, the second time with Python stacks, and the fix lists of both
traces say what the change would save. The two steps take turns without the profiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

import tracekit
from tests.bench.measuring import device_of, head, line
from tests.bench.pairs import PAIRS, Maker, Pair, record
from tracekit.advice.model import Advice
from tracekit.errors import first_line
from tracekit.examine import examine
from tracekit.experiments.timing import interleaved, step_ratio

COLUMNS = "fault", "first of the list", "promised", "place", "with stacks", "observed", "error"


@dataclass(frozen=True)
class Tried:
    """What the fix list promised for a fault, and what was observed, as shares of a step.

    `place` is the promise's place in the list; None: the list does not have it. `with_stacks` is
    the promise of the trace with stacks.
    """

    fault: str
    first: str
    promised: float | None
    place: int | None
    with_stacks: float | None
    observed: float
    faulty_us: float

    @property
    def error(self) -> float | None:
        """The promised saving minus the observed one, in shares of the step."""
        promised = self.with_stacks if self.promised is None else self.promised
        return None if promised is None else promised - self.observed

    def __str__(self) -> str:
        promised, with_stacks = (
            "not in the list" if each is None else f"{each:.1%}"
            for each in (self.promised, self.with_stacks)
        )
        error = "-" if self.error is None else f"{100 * self.error:+.1f} points"
        place, observed = self.place or "-", f"{self.observed:.1%}"
        return line(self.fault, self.first, promised, place, with_stacks, observed, error)


def tried(pair: Pair, device: torch.device, folder: Path) -> Tried:
    """Captures a pair's faulty step into `folder`, and times both steps."""
    faulty, mended = pair.steps(Maker(device))
    for each in (faulty, mended):
        for _ in range(3):
            each()
    trace, found = folder / pair.name.replace(" ", "-"), []
    for suffix in ("", "-stacks"):
        path = trace.with_name(f"{trace.name}{suffix}.json.gz")
        record(faulty, path, stacks=bool(suffix))
        found.append(of_list(path))
    times = interleaved({"faulty": faulty, "mended": mended}, device)
    observed = 1 - step_ratio(times["faulty"], times["mended"]).ratio / pair.samples
    faulty_us = median(times["faulty"].step_ns) / 1e3
    return beside(pair.name, pair.remedy, found, observed, faulty_us)


def beside(
    name: str, remedy: str, lists: list[list[Advice]], observed: float, faulty_us: float
) -> Tried:
    """The promise of a remedy in the fix lists of two traces, the second with Python stacks, beside
    the observed saving."""
    places = [[n for n, a in enumerate(each) if a.remedy == remedy] for each in lists]
    promised, with_stacks = (
        advised[wanted[0]].share if wanted else None
        for advised, wanted in zip(lists, places, strict=True)
    )
    first = next((f"{each.remedy} {each.share:.0%}" for each in lists[0]), "nothing")
    place = places[0][0] + 1 if places[0] else None
    return Tried(name, first, promised, place, with_stacks, observed, faulty_us)


def of_list(trace: Path) -> list[Advice]:
    """The fix list of a trace, without one-offs and what has no share."""
    with tracekit.load(trace) as database:
        fixes = examine(database, database.only(None)).fixes
        return [each for each in fixes.advice if each.share is not None] if fixes else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--traces", type=Path, required=True, help="the folder for traces")
    parser.add_argument("--json", type=Path, help="also writes the figures to this file")
    given = parser.parse_args()
    device = device_of(given, parser)
    given.traces.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    if device.type == "cpu":
        # Other programs on this machine disturb one thread less than several.
        torch.set_num_threads(1)
    found, failed = [], 0
    print(*head(COLUMNS), sep="\n", flush=True)
    for pair in PAIRS:
        if pair.needs_gpu and device.type != "cuda":
            continue
        try:
            found.append(tried(pair, device, given.traces))
            print(found[-1], flush=True)
        except Exception as error:
            failed += 1
            print(line(pair.name, first_line(error), *"-----"), flush=True)
    errors = [abs(each.error) for each in found if each.error is not None]
    if errors:
        print(f"- promised minus observed: {100 * median(errors):.1f} points in the median")
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in found]), encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
