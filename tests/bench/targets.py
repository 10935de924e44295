"""The targets of the fused MLP and the verdict on a GPU, and whether figures meet them.

    python -m tests.bench.targets bench build/gpu/bench
    python -m tests.bench.targets experiments build/gpu/experiments

Variants are compared as CUDA graphs: in small batches the host's time for a step, also in the
tables, is longer than the kernels'.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.experiments import Experiments, Tried

# The published A100 walkthrough's sizes: 64 x 128 rows, 768 to 3072 features, bfloat16.
ANCHOR_ROWS = 64 * 128
SMALL_ROWS = (1, 8, 16, 32, 64)
# At the anchor, the share of the memory roof.
LEAST_SHARE = 0.85
# The rows, the variants of which the faster counts, and at least how many times as fast as another
# one it is: at the anchor hardly slower, since two equal kernels differ by 2 %.
LEAST = [(ANCHOR_ROWS, ("mlp-triton",), "mlp-compiled", 0.98)] + [
    (rows, ("mlp-triton-gate-up", "mlp-triton-full"), base, least)
    for rows in SMALL_ROWS
    for base, least in (("mlp-compiled", 1.5), ("mlp-eager", 2.0))
]
# The least number of points with conclusive experiments, the least share of them at which the
# verdict agrees, and the largest median error of the predicted time as a CUDA graph.
LEAST_POINTS, LEAST_AGREEING, MOST_ERROR = 40, 0.95, 0.10


@dataclass(frozen=True)
class Judged:
    """A target, the measured figure, and whether it meets the target; unmeasured figures do not."""

    target: str
    found: str
    met: bool

    def __str__(self) -> str:
        return f"{'pass' if self.met else 'FAIL'}: {self.target}: {self.found}"


def judge_figures(
    medians_us: Mapping[int, Mapping[str, float]], share_of_roof: float | None
) -> list[Judged]:
    """Judges every target of the fused MLP.

    `medians_us` holds microseconds per step, as a CUDA graph, by rows and variant, without variants
    that ran something else than their names say. `share_of_roof` is the fused kernel's share of the
    memory roof at the anchor.
    """
    roof = Judged(
        f"{ANCHOR_ROWS} rows: act(gate) * up at {LEAST_SHARE:.0%} of the memory roof or more",
        "not measured" if share_of_roof is None else f"{share_of_roof:.1%}",
        share_of_roof is not None and share_of_roof >= LEAST_SHARE,
    )
    return [roof, *(_ratio(medians_us.get(rows, {}), rows, *each) for rows, *each in LEAST)]


def judge_verdicts(tried: Sequence[Tried]) -> list[Judged]:
    """Judges verdicts against experiments, and predictions against measurements."""
    told = [each for each in tried if each.agrees is not None]
    agreeing = sum(each.agrees is True for each in told)
    errors = [abs(each.graph_error) for each in tried if each.graph_error is not None]
    return [
        Judged(
            f"verdicts agree with experiments at {LEAST_AGREEING:.0%} of {LEAST_POINTS} points or "
            "more",
            f"{agreeing} of {len(told)}; {len(tried) - len(told)} were inconclusive",
            len(told) >= LEAST_POINTS and agreeing >= LEAST_AGREEING * len(told),
        ),
        Judged(
            f"the predicted time as a CUDA graph is within {MOST_ERROR:.0%} of the measured one, "
            f"in the median of {LEAST_POINTS} points or more",
            f"{median(errors):.1%} of {len(errors)}" if errors else "not measured",
            len(errors) >= LEAST_POINTS and median(errors) <= MOST_ERROR,
        ),
    ]


def _ratio(
    us: Mapping[str, float], rows: int, names: Sequence[str], base: str, least: float
) -> Judged:
    target = f"{rows} rows: {' or '.join(names)} at least {least:g} x as fast as {base}"
    known = {name: us[name] for name in names if name in us}
    missing = [each for each in (base,) if each not in us] + ([] if known else [*names])
    if missing:
        return Judged(target, f"not measured: no {' and no '.join(missing)}", False)
    fastest = min(known, key=lambda name: known[name])
    ratio = us[base] / known[fastest]
    named = f" ({fastest})" if len(names) > 1 else ""
    return Judged(target, f"{ratio:.2f} x{named}", ratio >= least)


def of_bench(folder: Path) -> list[Judged]:
    """Judges the figures that `variants.py --json` left in a folder."""
    medians: dict[int, dict[str, float]] = {}
    share = None
    for path in folder.glob("rows-*.json"):
        for what, kept in json.loads(path.read_text(encoding="utf-8")).items():
            if what == f"{ANCHOR_ROWS} roofs":
                share = next((each["share"] for each in kept if each["name"] == "Triton"), None)
            elif what.isdecimal():
                right = [each for each in kept if not (each["stand_in"] or each["wrong"])]
                medians[int(what)] = {
                    each["name"]: median(each["graph_us"]) for each in right if each["graph_us"]
                }
    return judge_figures(medians, share)


def main() -> int:
    """Returns 1 if a target is missed."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "bench":
        found = of_bench(folder)
    else:
        found = judge_verdicts(Experiments(folder / "points.jsonl").tried)
    print(*(f"- {each}" for each in found), sep="\n")
    return int(not all(each.met for each in found))


if __name__ == "__main__":
    sys.exit(main())
