"""Every variant of the MLP: right, and how fast, in one run.

    make gpu-check                                  on a machine with a GPU
    python variants.py --device cpu --rows 8        what a CPU allows

Unprofiled medians of interleaved rounds, so that a slow spell of the machine meets all of them;
ratios are to mlp-compiled. Behind each table on a GPU: the bytes of the fused act(gate) * up over
the time it takes, and their share of the device's memory bandwidth (tracekit/hardware.toml).
"""

from __future__ import annotations

import argparse
import re
import sys

import torch

from tracekit.capture import CannotRun, Options, Runnable, WrongAnswer, prepare
from tracekit.hardware import peaks
from tracekit.timing import interleaved
from tracekit.workloads import WORKLOADS
from tracekit.workloads.base import Shape


def table(names: list[str], options: Options) -> tuple[list[str], bool]:
    """One shape's rows: variant, what ran, median, spread, and the ratio to mlp-compiled; and
    whether an answer is wrong."""
    variants: dict[str, Runnable | CannotRun] = {}
    for name in names:
        try:
            variants[name] = prepare(name, options)
        except CannotRun as error:
            variants[name] = error
    steps = {name: each.step for name, each in variants.items() if isinstance(each, Runnable)}
    measured = interleaved(steps, torch.device(options.device))
    base = measured.get("mlp-compiled")
    lines = []
    for name, each in variants.items():
        if isinstance(each, CannotRun):
            lines.append(f"| {name} | {each.reason} | - | - | - |")
            continue
        times, median = sorted(measured[name].step_ns), measured[name].median_ns
        spread = (times[-2] - times[1]) / median
        ratio = f"{base.median_ns / median:.2f}" if base else "-"
        ran = each.facts["variant"]
        lines.append(f"| {name} | {ran} | {median / 1e3:,.1f} | {spread:.0%} | {ratio} |")
    return lines, any(isinstance(each, WrongAnswer) for each in variants.values())


def roof(shape: Shape) -> str:
    """The fused pointwise kernel against the device's memory bandwidth."""
    from tracekit.workloads.kernels.glu import glu

    name = torch.cuda.get_device_name()
    known = next((each for each in peaks(None) if re.search(each.pattern, name)), None)
    gate, up = (shape.random(shape.batch * shape.seq, shape.hidden, seed=seed) for seed in (1, 2))
    median_ns = interleaved({"glu": lambda: glu(gate, up)}, shape.device)["glu"].median_ns
    rate = 3 * gate.numel() * gate.element_size() / (median_ns * 1e-9)
    share = f", {rate / known.memory_bytes_per_s:.0%} of the memory roof" if known else ""
    return f"act(gate) * up: {median_ns / 1e3:.1f} us, {rate / 1e9:,.0f} GB/s{share}"


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
    short, dtype = ("bf16", torch.bfloat16) if device.type == "cuda" else ("fp32", torch.float32)
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"# {where}, torch {torch.__version__}, {given.dim} to {given.hidden}, {dtype}")
    wrong = False
    for rows in given.rows:
        sizes = {"batch": 1, "seq": rows, "dim": given.dim, "hidden": given.hidden}
        print(f"\n{rows} rows\n\n| variant | what ran | us | spread | x mlp-compiled |")
        options = Options(**sizes, dtype=short, device=given.device)
        lines, is_wrong = table(given.variants, options)
        print("|---|---|---|---|---|", *lines, sep="\n", flush=True)
        wrong = wrong or is_wrong
        if device.type == "cuda":
            print(f"\n{roof(Shape(**sizes, dtype=dtype, device=device))}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
