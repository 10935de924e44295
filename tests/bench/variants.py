"""Checks the answer of every variant of the MLP, and times it.

    python variants.py --device cpu --rows 8        on a CPU

Times are medians of interleaved rounds without the profiler, so that a slow spell of the machine
affects all variants. `make gpu-check` prints the same tables for a GPU, and more.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from tracekit.capture.workload import CannotRun, Options, Runnable, WrongAnswer, prepare
from tracekit.experiments.timing import interleaved
from tracekit.ingest.hardware import peaks
from tracekit.workloads import WORKLOADS
from tracekit.workloads.base import Shape

MLPS = [name for name in WORKLOADS if name.startswith("mlp-")]
HEADER = [
    "| variant | what ran | us | spread | x mlp-compiled | x mlp-eager |",
    "|---|---|---|---|---|---|",
]


@dataclass(frozen=True)
class Row:
    """A variant: what ran, and microseconds per step in each round.

    If the variant could not run, `what` says why and `us` is empty. `stand_in` means that something
    else ran than the name promises; `wrong`, that the answer was wrong.
    """

    name: str
    what: str
    us: list[float]
    stand_in: bool = False
    wrong: bool = False


@dataclass(frozen=True)
class Roof:
    """One implementation of the fused act(gate) * up against the memory bandwidth.

    `bytes_per_s` is the bytes that it must move over its device time `us`; `share` is their share
    of the device's memory bandwidth, or None if that is unknown.
    """

    name: str
    us: float
    bytes_per_s: float
    share: float | None

    def __str__(self) -> str:
        share = "" if self.share is None else f", {self.share:.0%} of the memory roof"
        rate = f"{self.bytes_per_s / 1e9:,.0f} GB/s"
        return f"act(gate) * up in {self.name}: {self.us:.1f} us, {rate}{share}"


def measured(names: list[str], options: Options) -> list[Row]:
    """Builds, checks and times the variants of one shape."""
    # Without this, torch.compile stops compiling for new shapes after a few.
    torch.compiler.reset()
    built: dict[str, Runnable | CannotRun] = {}
    for name in names:
        try:
            built[name] = prepare(name, options)
        except CannotRun as error:
            built[name] = error
    steps = {name: each.step for name, each in built.items() if isinstance(each, Runnable)}
    times = interleaved(steps, torch.device(options.device))
    rows = []
    for name, each in built.items():
        if isinstance(each, CannotRun):
            rows.append(Row(name, each.reason, [], wrong=isinstance(each, WrongAnswer)))
            continue
        us = [ns / 1e3 for ns in times[name].step_ns]
        rows.append(Row(name, each.facts["variant"], us, stand_in=bool(each.facts.get("note"))))
    return rows


def table(rows: list[Row]) -> list[str]:
    """Medians, the spread without the two extremes, and ratios of medians, as Markdown."""
    medians = {row.name: statistics.median(row.us) for row in rows if row.us}
    lines = list(HEADER)
    for row in rows:
        if not row.us:
            lines.append(f"| {row.name} | {row.what} | - | - | - | - |")
            continue
        median, times = medians[row.name], sorted(row.us)
        ratios = [
            f"{medians[base] / median:.2f}" if base in medians else "-"
            for base in ("mlp-compiled", "mlp-eager")
        ]
        spread = (times[-2] - times[1]) / median
        cells = [row.name, row.what, f"{median:,.1f}", f"{spread:.0%}", *ratios]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def roofs(shape: Shape) -> list[Roof]:
    """The fused kernels against the GPU's memory bandwidth (tracekit/hardware.toml).

    Counts two reads and one write per element; the L2 cache is cleared before each run.
    """
    from triton.testing import do_bench

    from tracekit.workloads.kernels.extension import why_not
    from tracekit.workloads.kernels.glu import glu

    device = torch.cuda.get_device_name(shape.device)
    known = next((each for each in peaks(None) if re.search(each.pattern, device)), None)
    bandwidth = known.memory_bytes_per_s if known else None
    packed = shape.random(shape.batch * shape.seq, 2 * shape.hidden, seed=1)
    gate, up = (each.contiguous() for each in packed.chunk(2, dim=-1))
    kernels: dict[str, Callable[[], object]] = {"Triton": lambda: glu(gate, up, shape.activation)}
    if why_not(shape.device) is None:
        act_mul = torch.ops.tracekit.act_mul
        kernels["CUDA"] = lambda: act_mul(packed, shape.activation)
    found = []
    for name, kernel in kernels.items():
        us = do_bench(kernel, return_mode="median") * 1e3
        rate = 3 * gate.numel() * gate.element_size() / (us * 1e-6)
        found.append(Roof(name, us, rate, rate / bandwidth if bandwidth else None))
    return found


def main() -> int:
    """Returns 1 if a variant gives a wrong answer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 64, 64 * 128])
    parser.add_argument("--variants", nargs="*", choices=MLPS, default=MLPS)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA device; --device cpu runs on the CPU")
    dtype = "bf16" if device.type == "cuda" else "fp32"
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"# {where}, torch {torch.__version__}, {given.dim} to {given.hidden}, {dtype}")
    wrong = False
    for count in given.rows:
        sizes = {"batch": 1, "seq": count, "dim": given.dim, "hidden": given.hidden}
        rows = measured(given.variants, Options(**sizes, dtype=dtype, device=given.device))
        print(f"\n{count} rows\n", *table(rows), sep="\n", flush=True)
        wrong = wrong or any(row.wrong for row in rows)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
