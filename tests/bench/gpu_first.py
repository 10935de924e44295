"""Short programs that `make gpu-check` runs on a device.

python -m tests.bench.gpu_first device cuda
python -m tests.bench.gpu_first captures cuda build/gpu/first
python -m tests.bench.gpu_first extension cuda
python -m tests.bench.gpu_first step cuda mlp-triton 8192
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import tracekit
from tests.bench.gpu_check import find_tool
from tests.bench.variants import clocks
from tracekit.capture.workload import CannotRun, Options, capture, prepare
from tracekit.errors import TracekitError, first_line
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


def facts(device: str) -> int:
    """Prints the device, the versions of its software, and the available tools."""
    if device == "cuda":
        found = torch.cuda.get_device_properties(0)
        memory = f"{found.total_memory / 1e9:.0f} GB"
        print(f"- device: {found.name}, {memory}, compute capability {found.major}.{found.minor}")
        print(f"- {clocks()}")
    else:
        print("- device: a CPU")
    print(
        f"- Python {sys.version.split()[0]}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    )
    installed = {each.name: each.version for each in importlib.metadata.distributions()}
    for name in ("triton", "liger-kernel", "numpy", "duckdb", "ninja"):
        print(f"- {name} {installed.get(name, 'is not installed')}")
    for name in ("nvcc", "ncu", "compute-sanitizer", "g++"):
        print(f"- {name}: {find_tool(name) or 'not found'}")
    return 0


def captures(device: str, to: str) -> int:
    """Captures the workloads at their own sizes and at small ones, into one tar; returns 1 if some
    failed. Captures of an earlier run stay."""
    name = torch.cuda.get_device_name() if device == "cuda" else device
    folder = Path(to)
    place = folder / re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    place.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name, called, options in _wanted(device):
        path = place / f"{called}.json.gz"
        if path.exists():
            continue
        try:
            done = capture(name, path, options)
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
    return int(failed > 0)


def _wanted(device: str) -> Iterator[tuple[str, str, Options]]:
    """What to capture, the capture's name, and how."""
    # For `tracekit demo`: with the program's lines and modules, and few steps, since it is bundled.
    yield "examples.transformer:step", "demo", Options(device=device, stacks=True, active=3)
    left_out = SLOW if device == "cuda" else (*SLOW, *SLOW_ON_CPU)
    names = [each for each in WORKLOADS if each not in left_out]
    for name in sorted(names, key=lambda each: each == LAST):
        # One Triton kernel takes the whole block for up to 64 rows.
        own = {"batch": 1, "seq": 64} if name == "mlp-triton-full" else {}
        if device == "cuda":
            yield name, name, Options(**own, device=device)
        if name in ALSO_SMALL or device == "cpu":
            yield name, f"{name}-small", Options(**SMALL, device=device)


def extension(device: str) -> int:
    """Compiles and loads the C++ operator; 1 if it cannot run."""
    from tracekit.workloads.kernels.extension import why_not

    reason = why_not(torch.device(device))
    print(f"- the C++ operator: {reason or 'loaded'}")
    return int(reason is not None and device == "cuda")


def step(device: str, name: str, rows: str) -> int:
    """Runs a step of a workload, the only one that a profiler of the device shall see."""
    sizes = {} if device == "cuda" else {"dim": 16, "hidden": 32}
    run = prepare(name, Options(batch=1, seq=int(rows), device=device, **sizes))
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


def main() -> int:
    what, *given = sys.argv[1:]
    program: dict[str, Callable[..., int]] = {
        "device": facts, "captures": captures, "extension": extension, "step": step,
    }  # fmt: skip
    return program[what](*given)


if __name__ == "__main__":
    sys.exit(main())
