"""Runs the checks that need a GPU, in parts that each end within nine minutes: `make gpu-check`.

    python -m tests.bench.gpu_check first tests --output build/gpu

A part is a series of tasks, each in its own process, with its output shown as it comes. A part that
reaches its limit stops; the same command continues with the remaining tasks. All results are files
in one folder; start with `report.md`.

Exit status: 0: all tasks passed; 1: one failed or missed a target; 2: nothing could start; 3: a
part reached its limit, so run the same command again. On a CPU (`--device cpu`) all parts run at
reduced sizes, to rehearse.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]
STATE = ROOT / "build" / "gpu"
LIMIT_S = 540
PASSED, FAILED, CUT = "passed", "failed", "cut off at the limit"
# The checks' imports besides PyTorch, and the wheels that contain them.
NEEDED = {
    "duckdb": "duckdb", "numpy": "numpy", "click": "click", "msgspec": "msgspec", "rich": "rich",
    "markdown_it": "markdown-it-py", "mdurl": "mdurl", "pygments": "pygments", "isal": "isal",
    "zstandard": "zstandard", "filelock": "filelock", "platformdirs": "platformdirs",
    "pytest": "pytest", "iniconfig": "iniconfig", "pluggy": "pluggy", "packaging": "packaging",
    "hypothesis": "hypothesis", "sortedcontainers": "sortedcontainers",
}  # fmt: skip
# For more workers, a peer's kernels, and compiling the C++ operator.
WANTED = ("pytest-xdist", "execnet", "liger-kernel", "ninja", "setuptools")
# The machine has it together with PyTorch.
AT_HAND = "numpy"
# Where the CUDA toolkit puts its tools, if they are not on the PATH.
TOOL_FOLDERS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
# A few of the kernels' tests, because the sanitizer is slow: each kernel with its gradients in
# every dtype, and each tile of the search.
FEW = (
    "(silu and (every_activation or operator_agrees)) or (every_tile and (bfloat16 or descriptors))"
)
# Even fewer on a CPU.
FEWEST = "(silu and operator_agrees and bfloat16) or extreme_values"
KERNELS, EXTENSION = "tests/workloads/test_kernels.py", "tests/workloads/test_extension.py"
NOT_FOR_A_GPU = "not thorough and not slow"
GRID = ("--batch", "1,16,64", "--seq", "1,128", "--hidden", "256,1024,4096")
ROWS = (64 * 128, 1, 8, 16, 32, 64)
NCU_SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats")


@dataclass(frozen=True)
class Task:
    """A command to run; its output is kept in PART/NAME.log.

    With `tool`, it runs under that tool of the CUDA toolkit; without a GPU, it runs without.
    `judges` marks a task that reads the results of the others: it always runs, after them.
    """

    name: str
    command: list[str]
    tool: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    judges: bool = False


@dataclass(frozen=True)
class Record:
    """A task's result, as PART/NAME.json stores it."""

    name: str
    status: str
    why: str
    seconds: float

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"{self.name}: {self.status}{why}, {self.seconds:.0f} s"


def python(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, arguments)]


@dataclass(frozen=True)
class Plan:
    """The tasks of each part, on `device`, with their files in the folder `state`."""

    device: str
    state: Path

    def first(self) -> list[Task]:
        """Whether everything starts, and some captures."""
        module = ("-m", "tests.bench.gpu_first")
        tiny = python("-c", f"import torch; print(torch.ones(8, device={self.device!r}).sum())")
        return [
            Task("device", python(*module, "device", self.device)),
            Task("captures", python(*module, "captures", self.device, self.state / "first")),
            Task("ncu", tiny, ["ncu", "--launch-count", "1"]),
            Task("compute-sanitizer", tiny, ["compute-sanitizer"]),
            Task("extension", python(*module, "extension", self.device)),
        ]

    def tests(self) -> list[Task]:
        """The kernels and every variant's answer against float64."""
        workers = ["-n", "8", "--dist", "loadgroup"] if _has("xdist") and self.is_gpu else []
        return [
            self._tests("tests", "kernels", [KERNELS, *self.tests_choice, *workers]),
            self._tests("tests", "extension", [EXTENSION, *self.tests_choice]),
        ]

    def sanitize(self) -> list[Task]:
        """A few tests under compute-sanitizer: https://docs.nvidia.com/compute-sanitizer/."""
        choice = ["-k", FEW if self.is_gpu else FEWEST, "-m", NOT_FOR_A_GPU]
        # It finds out-of-bounds accesses only if each tensor has its own allocation.
        settings = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        tasks = []
        for check in ("memcheck", "racecheck"):
            tool = [
                "compute-sanitizer", "--tool", check, "--error-exitcode", "99",
                "--report-api-errors", "no", "--target-processes", "application-only",
            ]  # fmt: skip
            given = [KERNELS, EXTENSION, *choice]
            tasks.append(self._tests("sanitize", check, given, tool, settings))
        return tasks

    def bench(self) -> list[Task]:
        """Every variant of the MLP, the memory roof, a sweep, and the targets."""
        folder = self.state / "bench"
        module = ("-m", "tests.bench.variants", "--device", self.device)
        if not self.is_gpu:
            small = ("--dim", 16, "--hidden", 32, "--variants", "mlp-eager", "mlp-torch-fused")
            grid = ("--batch", "1", "--seq", "1,2", "--dim", "16", "--hidden", "32")
            return [
                Task(
                    "rows-2", python(*module, *small, "--rows", 2, "--json", folder / "rows-2.json")
                ),
                Task("sweep", self._sweep(grid, "eager,torch-fused", folder)),
            ]
        rows = [
            Task(f"rows-{n}", python(*module, "--rows", n, "--json", folder / f"rows-{n}.json"))
            for n in ROWS
        ]
        # Tuning every product at every size would take the whole time.
        variants = "eager,compiled,compiled-reduce-overhead,cudagraph,torch-fused,triton,"
        variants += "triton-gate-up,triton-full,cpp,liger"
        targets = python("-m", "tests.bench.targets", "bench", folder)
        return [
            *rows,
            Task("sweep", self._sweep(GRID, variants, folder)),
            Task("targets", targets, judges=True),
        ]

    def experiments(self) -> list[Task]:
        """Verdicts, and predictions of a CUDA graph, against experiments at 80 points."""
        folder = self.state / "experiments"
        module = ("-m", "tests.bench.experiments", "--device", self.device)
        points = ("--points", folder / "points.jsonl", "--workloads")
        if not self.is_gpu:
            small = ("--batch", 1, "--hidden", 32)
            return [Task("matmul-add", python(*module, *small, *points, "matmul-add"))]
        names = ("mlp-eager", "mlp-triton", "attention-block", "train-step")
        targets = python("-m", "tests.bench.targets", "experiments", folder)
        return [
            *(Task(name, python(*module, *points, name)) for name in names),
            Task("targets", targets, judges=True),
        ]

    def faults(self) -> list[Task]:
        """The fix list's promises against the same programs without their faults."""
        folder = self.state / "faults"
        where = ("--traces", folder / "traces", "--json", folder / "faults.json")
        return [Task("faults", python("-m", "tests.bench.faults", "--device", self.device, *where))]

    def ncu(self) -> list[Task]:
        """What limits each kernel, by its counters: https://docs.nvidia.com/nsight-compute/."""
        sections = [each for name in NCU_SECTIONS for each in ("--section", name)]
        tool = ["ncu", "--profile-from-start", "off", "--print-details", "all", *sections]
        module = ("-m", "tests.bench.gpu_first", "step", self.device)
        runs = {
            f"{name}-{rows}": python(*module, name, rows)
            for name, rows in (
                ("mlp-triton", 8192), ("mlp-triton-gate-up", 8192), ("mlp-compiled", 8192),
                ("mlp-cpp", 8192), ("mlp-triton-gate-up", 16), ("mlp-triton-full", 16),
            )
        }  # fmt: skip
        if not self.is_gpu:
            runs = {"mlp-eager-2": python(*module, "mlp-eager", 2)}
        return [Task(name, command, tool) for name, command in runs.items()]

    @property
    def is_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def tests_choice(self) -> list[str]:
        return ["-m", NOT_FOR_A_GPU, *(() if self.is_gpu else ("-k", FEWEST))]

    def _sweep(self, grid: tuple[str, ...], variants: str, folder: Path) -> list[str]:
        given = ("-m", "tracekit", "sweep", "mlp", "-o", folder / "sweep.duckdb", "--markdown")
        return python(*given, "--device", self.device, *grid, "--variants", variants)

    def _tests(
        self,
        part: str,
        name: str,
        choice: list[str],
        tool: list[str] | None = None,
        settings: dict[str, str] | None = None,
    ) -> Task:
        passed = {"GPU_CHECK_PASSED": str(self.state / part / f"{name}-passed.txt")}
        command = python(
            "-m", "pytest", "-p", "tests.bench.gpu_tests", "-vv", "-rs", "--tb=short", *choice
        )
        given = {"TRACEKIT_TEST_DEVICE": self.device} | passed
        return Task(name, command, tool or [], given | (settings or {}))


PARTS: dict[str, Callable[[Plan], list[Task]]] = {
    "first": Plan.first,
    "tests": Plan.tests,
    "bench": Plan.bench,
    "experiments": Plan.experiments,
    "faults": Plan.faults,
    "ncu": Plan.ncu,
    "sanitize": Plan.sanitize,
}


def main(arguments: list[str] | None = None) -> int:
    given = _arguments(arguments)
    if given.wheels:
        print(*(each for each in NEEDED.values() if each != AT_HAND), *WANTED)
        return 0
    if reason := why_not(given.device):
        print(f"gpu-check: {reason}", file=sys.stderr)
        return 2
    state, output = Path(given.state).absolute(), Path(given.output or given.state).absolute()
    plan, found = Plan(given.device, state), []
    if not plan.is_gpu:
        print("a rehearsal on a CPU: no figure here is a GPU's", flush=True)
    for part in given.parts or PARTS:
        job = Job(part, state, output, given.limit, plan.is_gpu)
        found += job.run(PARTS[part](plan))
        report(state, output, plan.is_gpu)
    for status, code in ((CUT, 3), (FAILED, 1)):
        names = [each.name for each in found if each.status == status]
        if names:
            print(f"\n{status}: {', '.join(names)}", flush=True)
            return code
    print(f"\nall passed: {output / 'report.md'}", flush=True)
    return 0


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--output", help="the folder that gets all results")
    parser.add_argument(
        "--state", default=str(STATE), help="the folder that a later run goes on from"
    )
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds that a part may take")
    parser.add_argument("--wheels", action="store_true", help="name the wheels to bring")
    given = parser.parse_args(arguments)
    if unknown := [each for each in given.parts if each not in PARTS]:
        parser.error(f"no part is named {unknown[0]!r}: use {', '.join(PARTS)}")
    return given


def why_not(device: str) -> str | None:
    """Why nothing can be checked here, or None."""
    missing = [wheel for module, wheel in NEEDED.items() if not _has(module)]
    if missing:
        return f"bring these wheels, as docs/howto/gpu.md says: {', '.join(missing)}"
    if not _has("torch"):
        return f"{sys.executable} has no PyTorch"
    if not (ROOT / "tracekit" / "native" / "libtracekit.so").exists():
        return "bring tracekit/native/libtracekit.so, as docs/howto/gpu.md says"
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            return "PyTorch sees no GPU here, so there is nothing to check"
    return None


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


class Job:
    """Runs the tasks of a part one after another, for at most `limit_s`.

    Their files are in a folder of `state`, and are copied to `output` after each task.
    """

    def __init__(self, part: str, state: Path, output: Path, limit_s: float, is_gpu: bool) -> None:
        self.part, self.state, self.output = part, state / part, output / part
        self.ends, self.is_gpu = time.monotonic() + limit_s, is_gpu

    def run(self, tasks: list[Task]) -> list[Record]:
        """Runs the unfinished tasks, with interrupted ones last; returns a record of each."""
        self.state.mkdir(parents=True, exist_ok=True)
        done = {each.name: kept for each in tasks if (kept := record_of(self.state, each.name))}
        ended = {name for name, each in done.items() if each.status != CUT}
        left = [each for each in tasks if each.judges or each.name not in ended]
        for task in sorted(left, key=lambda each: (each.judges, each.name in done)):
            others = [done[each.name] for each in tasks if each != task and each.name in done]
            record = self._run(task, any(each.status == CUT for each in others))
            done[task.name] = record
            self._keep(record)
        return [done[each.name] for each in tasks]

    def _run(self, task: Task, is_incomplete: bool) -> Record:
        began = time.monotonic()
        if began >= self.ends or (task.judges and is_incomplete):
            return Record(task.name, CUT, "not begun", 0)
        print(f"\n-- {self.part}, {task.name}", flush=True)
        command = task.command
        with (self.state / f"{task.name}.log").open("w", encoding="utf-8") as log:
            if tool := task.tool and find_tool(task.tool[0]):
                command = [tool, *task.tool[1:], *command]
            elif task.tool and self.is_gpu:
                return Record(task.name, FAILED, f"{task.tool[0]} is not on the PATH", 0)
            elif task.tool:
                both(log, f"without {task.tool[0]}, which is not here\n")
            status = streamed(command, task.settings, log, self.ends - began)
        took = time.monotonic() - began
        if status is None:
            return Record(task.name, CUT, "", took)
        if status:
            return Record(task.name, FAILED, f"exit status {status}", took)
        return Record(task.name, PASSED, "", took)

    def _keep(self, record: Record) -> None:
        kept = json.dumps(asdict(record))
        (self.state / f"{record.name}.task.json").write_text(kept, encoding="utf-8")
        print(f"-- {self.part}, {record}", flush=True)
        if self.output != self.state:
            shutil.copytree(self.state, self.output, dirs_exist_ok=True)


def record_of(folder: Path, name: str) -> Record | None:
    """How the task of that name ended; None if it never did."""
    path = folder / f"{name}.task.json"
    return Record(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def find_tool(name: str) -> str | None:
    """The path of a tool of the CUDA toolkit."""
    folders = [os.environ.get("PATH", ""), *TOOL_FOLDERS]
    folders += [str(each) for each in sorted(Path(TOOL_FOLDERS[-1]).glob("*"), reverse=True)]
    return shutil.which(name, path=os.pathsep.join(folders))


def streamed(
    command: list[str], settings: Mapping[str, str], log: TextIO, seconds: float
) -> int | None:
    """Runs a command, and writes its output to `log` and to standard output as it comes.

    Returns its exit status; None if it was killed after `seconds`, with all that it started.
    """
    # A kernel that is interpreted says nothing about a GPU.
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    process = subprocess.Popen(
        ["timeout", "--signal=KILL", str(seconds), *command],
        cwd=ROOT,
        env=inherited | {"PYTHONUNBUFFERED": "1"} | dict(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    for line in process.stdout or ():
        both(log, line)
    status = process.wait()
    return None if status in (-signal.SIGKILL, 128 + signal.SIGKILL) else status


def both(log: TextIO, text: str) -> None:
    for each in (log, sys.stdout):
        each.write(text)
        each.flush()


def report(state: Path, output: Path, is_gpu: bool) -> None:
    """Writes how every task ended, and what it printed, to report.md."""
    what = "on a GPU" if is_gpu else "on a CPU: a rehearsal, no figure here is a GPU's"
    lines = [f"# tracekit {what}"]
    for part in PARTS:
        for path in sorted(
            (state / part).glob("*.task.json"), key=lambda each: each.stat().st_mtime
        ):
            record = Record(**json.loads(path.read_text(encoding="utf-8")))
            lines += ["", f"## {part}, {record}", ""]
            log = path.with_name(f"{record.name}.log")
            lines += log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    output.mkdir(parents=True, exist_ok=True)
    (output / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
