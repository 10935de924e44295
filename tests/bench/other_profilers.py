"""Small recordings of the device by other profilers, for tests/data.

    python -m tests.bench.other_profilers proton cuda FOLDER
    python -m tests.bench.other_profilers cupti cuda FOLDER

Each runs in its own process, since CUPTI has one user at a time. JAX's files are made by the
program `jitted-step` (tests/bench/programs).
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from tests.bench.gpu_first import SMALL
from tracekit.capture.workload import Options, prepare
from tracekit.errors import first_line

STEPS = 3
# The counters that CUPTI's range profiler is asked for, for each kernel.
COUNTERS = ("kineto__tensor_core_insts", "dram__bytes_read.sum", "dram__bytes_write.sum")
# A Triton kernel, and products of cuBLAS.
WORKLOAD = "mlp-triton"


def proton(device: str, folder: Path) -> int:
    """Writes proton.chrome_trace and proton.hatchet of the same steps, scoped."""
    if device == "cpu":
        print("- Proton records no CPU")
        return 0
    import triton
    import triton.profiler

    step = _warm(device)
    failed = 0
    for data, ending in (("trace", "chrome_trace"), ("tree", "hatchet")):
        try:
            session = triton.profiler.start(str(folder / "proton"), data=data, hook="triton")
            for number in range(STEPS):
                with triton.profiler.scope(f"step {number}"):
                    step()
            torch.cuda.synchronize()
            triton.profiler.finalize(session, output_format=ending)
            kb = (folder / f"proton.{ending}").stat().st_size / 1000
            print(f"- proton.{ending}, {kb:.0f} kB, Triton {triton.__version__}", flush=True)
        except Exception as error:
            failed += 1
            print(f"- proton.{ending}: FAILED: {first_line(error)}", flush=True)
    return int(failed > 0)


def cupti(device: str, folder: Path) -> int:
    """Writes cupti-counters.json.gz: PyTorch's profiler with counters of each kernel."""
    step = _warm(device)
    config = torch._C._profiler._ExperimentalConfig(
        profiler_metrics=[*COUNTERS], profiler_measure_per_kernel=True
    )
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, experimental_config=config) as recorder:
        step()
        if device != "cpu":
            torch.cuda.synchronize()
    path = folder / "cupti-counters.json.gz"
    with tempfile.TemporaryDirectory() as made:
        plain = Path(made, "trace.json")
        recorder.export_chrome_trace(str(plain))
        with plain.open("rb") as text, gzip.open(path, "wb") as packed:
            shutil.copyfileobj(text, packed)
        count = plain.read_text(encoding="utf-8").count(COUNTERS[1])
    print(f"- {path.name}: {count} values of {COUNTERS[1]}")
    return int(count == 0 and device != "cpu")


def _warm(device: str):  # type: ignore[no-untyped-def]
    name = WORKLOAD if device != "cpu" else "mlp-eager"
    step = prepare(name, Options(**SMALL, device=device)).step
    for _ in range(3):
        step()
    return step


def main() -> int:
    what, device, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    return {"proton": proton, "cupti": cupti}[what](device, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
