"""Short programs that `make gpu-check` runs on a device.

python -m tests.bench.gpu_first device cuda
python -m tests.bench.gpu_first captures cuda build/gpu/first
python -m tests.bench.gpu_first extension cuda
python -m tests.bench.gpu_first step cuda mlp-triton 8192
python -m tests.bench.gpu_first sweep cuda sweep.duckdb --batch 1,8 --hidden 64
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

import tracekit
from tests.bench.gpu_check import find_tool
from tests.bench.variants import clocks
from tracekit.capture.workload import CannotRun, Options, capture, prepare
from tracekit.errors import TracekitError, first_line
from tracekit.experiments.points import AXES
from tracekit.experiments.sweeping import sweep
from tracekit.reporters.experiments import render_sweep
from tracekit.workloads import WORKLOADS

# Small enough that the host decides.
SMALL = {"batch": 1, "seq": 16, "dim": 64, "hidden": 256}
# Tuning its products takes longer than all other captures.
SLOW = ("mlp-compiled-max-autotune",)
# Compilers for a CPU take longer than this rehearsal.
SLOW_ON_CPU = ("mlp-compiled", "mlp-compiled-reduce-overhead", "mlp-cpp")
# Its first use compiles for a minute.
LAST = "mlp-cpp"
# Also captured at sizes where the host decides.
ALSO_SMALL = (
    "matmul-add", "linear", "mlp-eager", "mlp-compiled", "mlp-cudagraph", "mlp-triton",
    "mlp-triton-gate-up", "mlp-triton-full", "attention-block", "train-step",
)  # fmt: skip


def device_name(device: str) -> str:
    """As a folder's name."""
    name = torch.cuda.get_device_name() if device == "cuda" else device
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def facts(device: str) -> Iterator[str]:
    """Prints the device, the versions of its software, and the available tools."""
    if device == "cuda":
        found = torch.cuda.get_device_properties(0)
        memory = f"{found.total_memory / 1e9:.0f} GB"
        yield f"- device: {found.name}, {memory}, compute capability {found.major}.{found.minor}"
        yield f"- {clocks()}"
    else:
        yield "- device: a CPU"
    yield f"- Python {sys.version.split()[0]}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    for name in ("triton", "liger-kernel", "numpy", "duckdb", "ninja"):
        try:
            yield f"- {name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"- {name}: not installed"
    for name in ("nvcc", "ncu", "compute-sanitizer", "g++"):
        yield f"- {name}: {find_tool(name) or 'not found'}"


def captures(device: str, folder: Path) -> int:
    """Captures the workloads at their own sizes and at small ones, into one tar; returns the number
    of failures. Captures of an earlier run stay."""
    place = folder / device_name(device)
    place.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, suffix, sizes in _wanted(device):
        path = place / f"{name}{suffix}.json.gz"
        if path.exists():
            continue
        try:
            done = capture(name, path, Options(**sizes, device=device))
            with tracekit.load(path) as run:
                said = run.verdict().verdict
            note = f"; {done.note}" if done.note else ""
            kb = path.stat().st_size / 1000
            print(f"- {path.name}, {kb:.0f} kB: {said.regime}, {said.bottleneck}{note}", flush=True)
        except CannotRun as error:
            print(f"- {path.name}: not run: {error.reason}", flush=True)
        except Exception as error:
            failed += 1
            reason = str(error) if isinstance(error, TracekitError) else first_line(error)
            print(f"- {path.name}: FAILED: {reason}", flush=True)
    with tarfile.open(folder / "captures.tar", "w") as tar:
        tar.add(place, place.name)
    count = len(list(place.glob("*.json.gz")))
    print(f"- {count} captures in {folder / 'captures.tar'}; {failed} failed", flush=True)
    return failed


def _wanted(device: str) -> Iterator[tuple[str, str, dict[str, int]]]:
    left_out = SLOW if device == "cuda" else (*SLOW, *SLOW_ON_CPU)
    names = [each for each in WORKLOADS if each not in left_out]
    for name in sorted(names, key=lambda each: each == LAST):
        # One Triton kernel takes the whole block for up to 64 rows.
        own = {"batch": 1, "seq": 64} if name == "mlp-triton-full" else {}
        if device == "cuda":
            yield name, "", own
        if name in ALSO_SMALL or device == "cpu":
            yield name, "-small", SMALL


def extension(device: str) -> int:
    """Compiles and loads the C++ operator; 1 if it cannot run."""
    from tracekit.workloads.kernels.extension import why_not

    reason = why_not(torch.device(device))
    print(f"- the C++ operator: {reason or 'loaded'}")
    return int(reason is not None and device == "cuda")


def step(device: str, name: str, rows: int) -> int:
    """Runs a step of a workload, the only one that a profiler of the device shall see."""
    sizes = {} if device == "cuda" else {"dim": 16, "hidden": 32}
    run = prepare(name, Options(batch=1, seq=rows, device=device, **sizes))
    print(f"{name}, {rows} rows: {run.facts['variant']}", flush=True)
    for _ in range(3):
        run.step()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        run.step()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
    return int(bool(run.facts.get("note")) and device == "cuda")


def swept(device: str, output: str, given: list[str]) -> int:
    """Sweeps variants of the MLP over a grid into one database, from where an earlier run stopped;
    1 if one gives a wrong answer."""
    parser = argparse.ArgumentParser()
    for axis in (*AXES[1:], "variants"):
        parser.add_argument(f"--{axis}", type=lambda text: text.split(","), default=[])
    asked = vars(parser.parse_args(given))
    variants = asked.pop("variants")
    axes = {axis: [int(each) for each in values] for axis, values in asked.items()}
    print(f"- {clocks()}", flush=True)
    given_options = Options(device=device)
    say = partial(print, "-", flush=True)
    found = sweep("mlp", output, axes, variants=variants, options=given_options, say=say)
    print(f"- {clocks()}\n", flush=True)
    render_sweep(found, True)
    return int(not found.is_right)


def main() -> int:
    what, device, *given = sys.argv[1:]
    if what == "device":
        print(*facts(device), sep="\n")
        return 0
    if what == "captures":
        return int(captures(device, Path(given[0])) > 0)
    if what == "extension":
        return extension(device)
    if what == "step":
        return step(device, given[0], int(given[1]))
    return swept(device, given[0], given[1:])


if __name__ == "__main__":
    sys.exit(main())
