"""Every variant of the MLP: right, and how fast, in one run.

    make gpu-check                                  on a machine with a GPU
    python variants.py --device cpu --rows 8        what a CPU allows

Unprofiled medians of interleaved rounds, so that a slow spell of the machine meets all of them;
ratios are to mlp-compiled. Behind each table on a GPU: the bytes of the fused act(gate) * up over
the time it takes, and their share of the device's memory bandwidth (tracekit/hardware.toml).
"""

from __future__ import annotations

import argparse
import importlib
import re
import statistics
import sys
import time
from collections.abc import Callable

import torch

from tracekit.hardware import peaks
from tracekit.workloads import WORKLOADS
from tracekit.workloads.base import Shape, Workload, error_of

ROUNDS, STEPS = 15, 10
_WRONG = "wrong answer"


def built(name: str, shape: Shape) -> Workload | str:
    """A variant of the MLP, or why it cannot run."""
    try:
        module = importlib.import_module(f"tracekit.workloads.{WORKLOADS[name].module}")
        workload: Workload = module.build(shape)
        error, limit = error_of(workload, shape.dtype)
    except Exception as failure:
        return str(failure).splitlines()[0]
    return workload if error <= limit else f"{_WRONG}: off by {error:.2g}, {limit:.2g} allowed"


def medians(steps: dict[str, Callable[[], object]], device: torch.device) -> dict[str, list[float]]:
    """Microseconds a step, of each round."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    for each in range(ROUNDS + 2):
        for name, step in steps.items():
            if device.type == "cuda":
                torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            # The first rounds warm up.
            if each >= 2:
                found[name].append((time.perf_counter() - began) / STEPS * 1e6)
    return found


def table(names: list[str], shape: Shape) -> list[str]:
    """One shape's rows: variant, what ran, median, spread, and the ratio to mlp-compiled."""
    variants = {name: built(name, shape) for name in names}
    ran = {name: each for name, each in variants.items() if isinstance(each, Workload)}
    measured = medians({name: each.step for name, each in ran.items()}, shape.device)
    base = measured.get("mlp-compiled")
    lines = []
    for name, each in variants.items():
        if isinstance(each, str):
            lines.append(f"| {name} | {each} | - | - | - |")
            continue
        times = sorted(measured[name])
        median = statistics.median(times)
        spread = (times[-2] - times[1]) / median
        ratio = f"{statistics.median(base) / median:.2f}" if base else "-"
        lines.append(f"| {name} | {each.variant} | {median:,.1f} | {spread:.0%} | {ratio} |")
    return lines


def roof(shape: Shape) -> str:
    """The fused pointwise kernel against the device's memory bandwidth."""
    from tracekit.workloads.kernels.glu import glu

    name = torch.cuda.get_device_name()
    known = next((each for each in peaks(None) if re.search(each.pattern, name)), None)
    gate, up = (shape.random(shape.batch * shape.seq, shape.hidden, seed=seed) for seed in (1, 2))
    (times,) = medians({"glu": lambda: glu(gate, up)}, shape.device).values()
    rate = 3 * gate.numel() * gate.element_size() / (statistics.median(times) * 1e-6)
    share = f", {rate / known.memory_bytes_per_s:.0%} of the memory roof" if known else ""
    return f"act(gate) * up: {statistics.median(times):.1f} us, {rate / 1e9:,.0f} GB/s{share}"


def main() -> int:
    """1 where a variant gives a wrong answer."""
    mlps = [name for name in WORKLOADS if name.startswith("mlp-")]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 64, 64 * 128])
    parser.add_argument("--variants", nargs="*", choices=mlps, default=mlps)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=3072)
    given = parser.parse_args()
    device = torch.device(given.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"# {where}, torch {torch.__version__}, {given.dim} to {given.hidden}, {dtype}")
    wrong = False
    for rows in given.rows:
        shape = Shape(1, rows, given.dim, given.hidden, dtype, device)
        print(f"\n{rows} rows\n\n| variant | what ran | us | spread | x mlp-compiled |")
        lines = table(given.variants, shape)
        print("|---|---|---|---|---|", *lines, sep="\n", flush=True)
        wrong = wrong or any(_WRONG in line for line in lines)
        if device.type == "cuda":
            print(f"\n{roof(shape)}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
