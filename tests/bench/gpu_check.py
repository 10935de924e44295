"""Runs every check that needs a GPU, and writes a report in Markdown: `make gpu-check`.

    python -m tests.bench.gpu_check build/gpu-check.md

Exit status: 0 if all parts passed; 1 if a part failed or missed a target (the later parts still
run); 2 without a GPU.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

import torch

from tests.bench import targets, variants
from tests.bench.experiments import Experiments
from tracekit.capture.workload import Options
from tracekit.experiments.timing import ROUNDS
from tracekit.workloads.base import Shape

ROOT = Path(__file__).parents[2]
TESTS = ["tests/test_kernels.py", "tests/test_extension.py"]
# Each kernel at a few odd shapes in every dtype, forward and backward; few, because the sanitizer
# is slow.
FEW = "silu and (every_activation or operator_agrees)"
LONGEST_S = 3600
GRID = ("--batch", "1,8,64,512", "--hidden", "256,1024,4096")

# A part yields its lines as they come; if it fails, it then raises Failed.
Part = Callable[[], Iterator[str]]


class Failed(Exception):
    """A part failed; the message says how, in one line."""


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m tests.bench.gpu_check FILE", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("gpu-check: PyTorch sees no GPU here, so there is nothing to check", file=sys.stderr)
        return 2
    os.environ.pop("TRITON_INTERPRET", None)
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    table, experiments = Table(), Experiments()
    parts: dict[str, Part] = {
        "Device": device,
        "Kernels against float64": kernel_tests,
        "compute-sanitizer memcheck": lambda: sanitizer("memcheck"),
        "compute-sanitizer racecheck": lambda: sanitizer("racecheck"),
        "Variants": table.measure,
        "Sweep": lambda: sweep(path.with_name("gpu-sweep.duckdb")),
        "Verdicts against experiments": experiments.measure,
        "Targets": lambda: judge(table, experiments),
    }
    with path.open("w", encoding="utf-8") as file:
        return report(parts, [file, sys.stdout])


def report(parts: dict[str, Part], outputs: Iterable[TextIO]) -> int:
    """Runs the parts in order and writes each line as it comes; returns 1 if a part failed."""
    outputs, failed = list(outputs), []

    def write(line: str) -> None:
        for each in outputs:
            print(line, file=each, flush=True)

    write("# tracekit on a GPU")
    for title, part in parts.items():
        write(f"\n## {title}\n")
        try:
            for line in part():
                write(line)
        except Exception as error:
            kind = "" if isinstance(error, Failed) else f"{type(error).__name__}: "
            write(f"\n**Failed.** {kind}{(str(error).splitlines() or [''])[0]}")
            failed.append(title)
    write(f"\n{'Failed: ' + ', '.join(failed) if failed else 'All passed.'}")
    return int(bool(failed))


def device() -> Iterator[str]:
    """The device, driver and library versions."""
    facts = torch.cuda.get_device_properties(0)
    memory = f"{facts.total_memory / 1e9:.0f} GB"
    yield f"- device: {facts.name}, {memory}, compute capability {facts.major}.{facts.minor}"
    yield f"- driver: {_driver()}"
    yield f"- torch {torch.__version__}, CUDA {torch.version.cuda}, HIP {torch.version.hip}"
    for name in ("triton", "liger-kernel"):
        try:
            yield f"- {name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"- {name}: not installed"


def kernel_tests() -> Iterator[str]:
    """Runs the kernels' tests on the GPU instead of in Triton's interpreter."""
    yield from _pytest([])


def sanitizer(tool: str) -> Iterator[str]:
    """A few kernel tests under compute-sanitizer: https://docs.nvidia.com/compute-sanitizer/."""
    found = shutil.which("compute-sanitizer")
    if not found:
        yield "Skipped: compute-sanitizer is not on the PATH (it comes with the CUDA toolkit)."
        return
    yield from _pytest([found, "--tool", tool, "--error-exitcode", "99"], "-k", FEW)


class Table:
    """Measures every variant, and keeps the figures that the targets need."""

    def __init__(self) -> None:
        self.medians_us: dict[int, dict[str, float]] = {}
        self.share: float | None = None

    def measure(self) -> Iterator[str]:
        dim, hidden = targets.DIM, targets.HIDDEN
        yield f"{dim} to {hidden} features, bfloat16; medians of {ROUNDS} rounds."
        wrong = []
        anchor = targets.ANCHOR_BATCH, targets.ANCHOR_SEQ
        for batch, seq in (anchor, *((1, rows) for rows in targets.SMALL_ROWS)):
            sizes = {"batch": batch, "seq": seq, "dim": dim, "hidden": hidden}
            rows = variants.measured(variants.MLPS, Options(**sizes, dtype="bf16", device="cuda"))
            self.medians_us[batch * seq] = {
                row.name: statistics.median(row.us) for row in rows if row.us and not row.stand_in
            }
            wrong += [f"{row.name} at {batch * seq} rows" for row in rows if row.wrong]
            yield f"\n{batch * seq} rows\n"
            yield from variants.table(rows)
            yield ""
            shape = Shape(**sizes, dtype=torch.bfloat16, device=torch.device("cuda"))
            for roof in variants.roofs(shape):
                yield f"- {roof}"
                if (batch, seq) == anchor and roof.name == "Triton":
                    self.share = roof.share
        if wrong:
            raise Failed(f"wrong answers: {', '.join(wrong)}")


def sweep(output: Path) -> Iterator[str]:
    """Sweeps every variant over a grid of sizes into one database; resumes an interrupted sweep."""
    command = [sys.executable, "-m", "tracekit", "sweep", "mlp", "--device", "cuda", "--markdown"]
    yield from _run([*command, *GRID, "-o", str(output)], fence=False)


def judge(table: Table, experiments: Experiments) -> Iterator[str]:
    """Yields every target and whether the figures meet it."""
    judged = targets.judged(table.medians_us, table.share)
    judged += targets.judged_verdicts(experiments.tried)
    for each in judged:
        yield f"- {each}"
    missed = sum(not each.met for each in judged)
    if missed:
        raise Failed(f"{missed} of {len(judged)} targets were not met")


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return "unknown (nvidia-smi failed)"
    return done.stdout.splitlines()[0]


def _pytest(before: list[str], *options: str) -> Iterator[str]:
    """Runs the kernels' tests, under the tool `before` if given; yields the end of their output."""
    command = [*before, sys.executable, "-m", "pytest", *TESTS, "-rs", "--tb=line", *options]
    settings = {"TRACEKIT_TEST_DEVICE": "cuda"}
    if before:
        # The sanitizer detects out-of-bounds accesses only if each tensor has its own allocation.
        settings["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    yield from _run(command, settings, last=40)


def _run(
    command: list[str], settings: Mapping[str, str] | None = None, last: int = 0, fence: bool = True
) -> Iterator[str]:
    """Runs a command and yields its output, or the `last` lines of it."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | dict(settings or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    mark = ["```"] if fence else []
    yield from [*mark, *done.stdout.splitlines()[-last:], *mark]
    if done.returncode:
        raise Failed(f"exit status {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
