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
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from tests.bench.measuring import ROOT
from tests.bench.programs import NAMES

STATE = ROOT / "build" / "gpu"
LIMIT_S = 540
PASSED, FAILED, CUT = "passed", "failed", "cut off at the limit"
# The wheels that contain the checks' imports besides PyTorch; the machine has numpy with PyTorch.
NEEDED = (
    "duckdb", "numpy", "click", "msgspec", "rich", "markdown-it-py", "mdurl", "pygments", "isal",
    "backports.zstd", "filelock", "platformdirs", "pytest", "iniconfig", "pluggy", "packaging",
    "hypothesis", "sortedcontainers",
)  # fmt: skip
# For more workers, a peer's kernels, and compiling the C++ operator.
WANTED = ("pytest-xdist", "execnet", "liger-kernel", "ninja", "setuptools")
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
PYTEST = "-m pytest -p tests.bench.gpu_tests -vv -rs --tb=short -m 'not thorough and not slow'"
ROWS = (64 * 128, 1, 8, 16, 32, 64)
# Tuning every product at every size would take the whole time.
GRID = (
    "--batch 1,16,64 --seq 1,128 --hidden 256,1024,4096 --variants eager,compiled,"
    "compiled-reduce-overhead,cudagraph,torch-fused,triton,triton-gate-up,triton-full,cpp,liger"
)
SMALL_GRID = "--batch 1 --seq 1,2 --dim 16 --hidden 32 --variants eager,torch-fused"
# What limits each kernel, by its counters: https://docs.nvidia.com/nsight-compute/.
NCU = "ncu --profile-from-start off --clock-control none --print-details all" + "".join(
    f" --section {name}"
    for name in ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats")
)
COUNTED = (
    "mlp-triton 8192", "mlp-triton-gate-up 8192", "mlp-compiled 8192", "mlp-cpp 8192",
    "mlp-triton-gate-up 16", "mlp-triton-full 16",
)  # fmt: skip
# https://docs.nvidia.com/compute-sanitizer/
SANITIZER = (
    "compute-sanitizer --tool {} --error-exitcode 99 --report-api-errors no "
    "--target-processes application-only"
)
PARTS = ("first", "tests", "bench", "experiments", "faults", "programs", "ncu", "sanitize")
# A program that takes longer does not keep the others from their time.
PROGRAM_S = 80


@dataclass(frozen=True)
class Task:
    """Arguments of Python to run; the output is kept in PART/NAME.log.

    With `tool`, it runs under that tool of the CUDA toolkit; without a GPU, it runs without. It has
    failed if it takes longer than `limit_s`.
    `judges` marks a task that reads the results of the others: it always runs, after them.
    """

    name: str
    arguments: str
    tool: str = ""
    judges: bool = False
    limit_s: float = LIMIT_S


def tasks(part: str, device: str, state: Path) -> list[Task]:
    """The tasks of a part on `device`, with their files in a folder of `state`; small on a CPU."""
    is_gpu, folder = device != "cpu", shlex.quote(str(state / part))
    on = f"--device {device}"
    match part:
        case "first":
            module = "-m tests.bench.gpu_first"
            tiny = f"-c 'import torch; print(torch.ones(8, device=\"{device}\").sum())'"
            return [
                Task("device", f"{module} device {device}"),
                Task("captures", f"{module} captures {device} {folder}"),
                Task("ncu", tiny, "ncu --launch-count 1"),
                Task("compute-sanitizer", tiny, "compute-sanitizer"),
                Task("extension", f"{module} extension {device}"),
            ]
        case "tests":
            choice = "" if is_gpu else f" -k '{FEWEST}'"
            workers = " -n 8 --dist loadgroup" if _has("xdist") and is_gpu else ""
            return [
                Task("kernels", f"{PYTEST} {KERNELS}{choice}{workers}"),
                Task("extension", f"{PYTEST} {EXTENSION}{choice}"),
            ]
        case "sanitize":
            chosen = f"{PYTEST} {KERNELS} {EXTENSION} -k '{FEW if is_gpu else FEWEST}'"
            checks = ("memcheck", "racecheck")
            return [Task(check, chosen, SANITIZER.format(check)) for check in checks]
        case "bench":
            module, rows, grid = f"-m tests.bench.variants {on}", ROWS, GRID
            if not is_gpu:
                module += " --dim 16 --hidden 32 --variants mlp-eager mlp-torch-fused"
                rows, grid = (2,), SMALL_GRID
            found = [
                Task(f"rows-{n}", f"{module} --rows {n} --json {folder}/rows-{n}.json")
                for n in rows
            ]
            sweep = f"-m tracekit sweep mlp -o {folder}/sweep.duckdb --markdown"
            found.append(Task("sweep", f"{sweep} {on} {grid}"))
        case "experiments":
            module = f"-m tests.bench.experiments {on} --points {folder}/points.jsonl"
            names = ("mlp-eager", "mlp-triton", "attention-block", "train-step")
            if not is_gpu:
                module, names = f"{module} --batch 1 --hidden 32", ("matmul-add",)
            found = [Task(name, f"{module} --workloads {name}") for name in names]
        case "faults":
            files = f"--traces {folder}/traces --json {folder}/faults.json"
            return [Task("faults", f"-m tests.bench.faults {on} {files}")]
        case "programs":
            module = f"-m tests.bench.programs measure {{}} {on} --folder {folder}"
            found = [Task(each, module.format(each), limit_s=PROGRAM_S) for each in NAMES]
            module = f"-m tests.bench.other_profilers {{}} {device} {folder}"
            return found + [Task(each, module.format(each)) for each in ("proton", "cupti")]
        case _:
            runs = COUNTED if is_gpu else ("mlp-eager 2",)
            module = f"-m tests.bench.gpu_first step {device}"
            counted = Task("kernels", f"-m tests.bench.counted_kernels record {device} {folder}")
            return [counted] + [
                Task(each.replace(" ", "-"), f"{module} {each}", NCU) for each in runs
            ]
    judging = Task("targets", f"-m tests.bench.targets {part} {folder}", judges=True)
    return [*found, judging] if is_gpu else found


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


def main(arguments: list[str] | None = None) -> int:
    given = _arguments(arguments)
    if given.wheels:
        print(*(each for each in NEEDED if each != "numpy"), *WANTED)
        return 0
    if reason := why_not(given.device):
        print(f"gpu-check: {reason}", file=sys.stderr)
        return 2
    state, output = Path(given.state).absolute(), Path(given.output or given.state).absolute()
    is_gpu, found = given.device != "cpu", []
    if not is_gpu:
        print("a rehearsal on a CPU: no figure here is a GPU's", flush=True)
    for part in given.parts or PARTS:
        job = Job(part, state, output, given.limit, given.device)
        found += job.run(tasks(part, given.device, state))
        report(state, output, is_gpu)
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
    if unknown := {*given.parts} - {*PARTS}:
        parser.error(f"no part is named {unknown.pop()!r}: use {', '.join(PARTS)}")
    return given


def why_not(device: str) -> str | None:
    """Why nothing can be checked here, or None."""
    missing = [each for each in NEEDED if not _has(each.replace("-py", "").replace("-", "_"))]
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

    def __init__(self, part: str, state: Path, output: Path, limit_s: float, device: str) -> None:
        self.part, self.state, self.output = part, state / part, output / part
        self.ends, self.device = time.monotonic() + limit_s, device

    def run(self, tasks: list[Task]) -> list[Record]:
        """Runs the unfinished tasks, with interrupted ones last; returns a record of each."""
        self.state.mkdir(parents=True, exist_ok=True)
        done = records(self.state)
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
        settings = {
            "TRACEKIT_TEST_DEVICE": self.device,
            "GPU_CHECK_PASSED": str(self.state / f"{task.name}-passed.txt"),
        }
        if "sanitizer" in task.tool:
            # It finds out-of-bounds accesses only if each tensor has its own allocation.
            settings["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        command, tool = [sys.executable, *shlex.split(task.arguments)], shlex.split(task.tool)
        with (self.state / f"{task.name}.log").open("w", encoding="utf-8") as log:
            if tool and (path := find_tool(tool[0])):
                command = [path, *tool[1:], *command]
            elif tool and self.device != "cpu":
                return Record(task.name, FAILED, f"{tool[0]} is not on the PATH", 0)
            elif tool:
                both(log, f"without {tool[0]}, which is not here\n")
            status = streamed(command, settings, log, min(task.limit_s, self.ends - began))
        ended = {None: (CUT, ""), 0: (PASSED, "")}.get(status, (FAILED, f"exit status {status}"))
        if status is None and time.monotonic() < self.ends:
            ended = FAILED, f"it took longer than {task.limit_s:g} s"
        return Record(task.name, *ended, time.monotonic() - began)

    def _keep(self, record: Record) -> None:
        kept = json.dumps(asdict(record))
        (self.state / f"{record.name}.task.json").write_text(kept, encoding="utf-8")
        print(f"-- {self.part}, {record}", flush=True)
        if self.output != self.state:
            shutil.copytree(self.state, self.output, dirs_exist_ok=True)


def records(folder: Path) -> dict[str, Record]:
    """How the tasks of a part ended, in order."""
    paths = sorted(folder.glob("*.task.json"), key=lambda each: each.stat().st_mtime)
    found = [Record(**json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    return {each.name: each for each in found}


def find_tool(name: str) -> str | None:
    """The path of a tool of the CUDA toolkit."""
    folders = [os.environ.get("PATH", ""), *TOOL_FOLDERS]
    folders += [str(each) for each in sorted(Path(TOOL_FOLDERS[-1]).glob("*"), reverse=True)]
    return shutil.which(name, path=os.pathsep.join(folders))


def streamed(
    command: list[str], settings: dict[str, str], log: TextIO, seconds: float
) -> int | None:
    """Runs a command, and writes its output to `log` and to standard output as it comes.

    Returns its exit status; None if it was killed after `seconds`, with all that it started.
    """
    # A kernel that is interpreted says nothing about a GPU.
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    process = subprocess.Popen(
        ["timeout", "--signal=KILL", str(seconds), *command],
        cwd=ROOT, env=inherited | {"PYTHONUNBUFFERED": "1"} | settings,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    )  # fmt: skip
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
        for record in records(state / part).values():
            lines += ["", f"## {part}, {record}", ""]
            log = state / part / f"{record.name}.log"
            lines += log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    output.mkdir(parents=True, exist_ok=True)
    (output / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
