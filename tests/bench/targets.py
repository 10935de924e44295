"""The targets of the fused MLP and the verdict on a GPU, and whether figures meet them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.experiments import Tried

# The published A100 walkthrough's sizes: 64 x 128 rows, 768 to 3072 features, bfloat16.
ANCHOR_BATCH, ANCHOR_SEQ, DIM, HIDDEN = 64, 128, 768, 3072
ANCHOR_ROWS = ANCHOR_BATCH * ANCHOR_SEQ
SMALL_ROWS = (1, 8, 16, 32, 64)

# At the anchor: times as fast as torch.compile, and the share of the memory roof.
LEAST_AT_ANCHOR, LEAST_SHARE = 1.0, 0.85
# In small batches: times as fast as torch.compile and as eager.
LEAST_SMALL = {"mlp-compiled": 1.5, "mlp-eager": 2.0}
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


def judged(
    medians_us: Mapping[int, Mapping[str, float]], share_of_roof: float | None
) -> list[Judged]:
    """Judges every target of the fused MLP.

    `medians_us` holds microseconds per step by rows and variant, without variants that ran
    something else than their names say. `share_of_roof` is the fused kernel's share of the memory
    roof at the anchor.
    """
    at_anchor = _ratio(
        f"{ANCHOR_ROWS} rows: mlp-triton at least {LEAST_AT_ANCHOR:g} x as fast as mlp-compiled",
        medians_us.get(ANCHOR_ROWS, {}),
        "mlp-triton",
        "mlp-compiled",
        LEAST_AT_ANCHOR,
    )
    roof = Judged(
        f"{ANCHOR_ROWS} rows: act(gate) * up at {LEAST_SHARE:.0%} of the memory roof or more",
        "not measured" if share_of_roof is None else f"{share_of_roof:.1%}",
        share_of_roof is not None and share_of_roof >= LEAST_SHARE,
    )
    small = [
        _ratio(
            f"{rows} rows: mlp-triton-full at least {least:g} x as fast as {base}",
            medians_us.get(rows, {}),
            "mlp-triton-full",
            base,
            least,
        )
        for rows in SMALL_ROWS
        for base, least in LEAST_SMALL.items()
    ]
    return [at_anchor, roof, *small]


def judged_verdicts(tried: Sequence[Tried]) -> list[Judged]:
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


def _ratio(target: str, us: Mapping[str, float], name: str, base: str, least: float) -> Judged:
    missing = [each for each in (name, base) if each not in us]
    if missing:
        return Judged(target, f"not measured: no {' and no '.join(missing)}", False)
    ratio = us[base] / us[name]
    return Judged(target, f"{ratio:.2f} x", ratio >= least)
