"""A program recorded by another profiler, Nsight Systems or rocprofv3, and loaded.

https://docs.nvidia.com/nsight-systems/UserGuide (CLI profile command switches) and
https://rocm.docs.amd.com/projects/rocprofiler-sdk (using rocprofv3)
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.capture.output import check_place
from tracekit.errors import TracekitError
from tracekit.files import temporary_folder
from tracekit.text import as_operand

if TYPE_CHECKING:
    from tracekit.database.session import Session

# The time for a profiler to write its data after the user interrupts it.
_WRITE_S = 600
_HELP_S = 30


def record(
    profiler: str, program: Sequence[str], output: str | Path, recorded: Mapping[str, bool]
) -> tuple[Session, bool]:
    """Runs a program under a profiler and writes the recording to `output`: a database or, for one
    process, a Kineto trace. `recorded` says whether to record shapes and memory.

    Returns the traces, and whether the user ended the program.

    Raises:
        TracekitError: when the profiler or the program is missing or fails, or recorded nothing.
    """
    from tracekit.database.export import export
    from tracekit.opening import load

    target = Path(output)
    check_place(target)
    if shutil.which(profiler) is None:
        raise TracekitError(
            f"{profiler} is not on the path: run this on a machine with {profiler}, or load its "
            "recording from there: `tracekit load`"
        )
    first = program[0]
    if first.endswith(".py"):
        program = [sys.executable, as_operand(first), *program[1:]]
    elif shutil.which(first) is None:
        raise TracekitError(f"{first}: is neither a program on the path nor a script (.py)")
    with temporary_folder() as folder:
        begun = _nsys if profiler == "nsys" else _rocprofv3
        status, is_ended = _run([*begun(folder, recorded), *program])
        if status and not is_ended:
            raise TracekitError(
                f"{profiler} {first}: ended with status {status}: nothing was saved"
            )
        recordings = sorted(
            path for each in ("*.nsys-rep", "*_results.json") for path in folder.rglob(each)
        )
        if not recordings:
            raise TracekitError(f"{profiler} {first}: nothing was recorded")
        if target.suffix == ".duckdb":
            return load(recordings, target, named=target.name), is_ended
        traces = load(recordings)
        export(traces, target)
        return traces, is_ended


def _nsys(folder: Path, recorded: Mapping[str, bool]) -> list[str]:
    shapes = "autograd-shapes-nvtx" if recorded["shapes"] else "autograd-nvtx"
    # Older versions, such as 2023.4, cannot record operators.
    has_operators = "--pytorch" in _help("nsys", "profile", "--help")
    return [
        *("nsys", "profile", "--trace=cuda,nvtx,osrt"),
        *([f"--pytorch={shapes}"] if has_operators else []),
        *("--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none"),
        f"--cuda-memory-usage={str(recorded['memory']).lower()}",
        f"--output={folder / 'report'}",
    ]


def _rocprofv3(folder: Path, recorded: Mapping[str, bool]) -> list[str]:
    memory = ["--memory-allocation-trace"] if recorded["memory"] else []
    return [
        *("rocprofv3", "--kernel-trace", "--memory-copy-trace", "--hip-trace", "--marker-trace"),
        *memory,
        *("--output-format", "json", "--output-directory", str(folder), "--"),
    ]


def _help(*command: str) -> str:
    """A program's help text; empty if it prints none."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_HELP_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _run(command: Sequence[str]) -> tuple[int, bool]:
    """A command's status, and whether the user ended it: it may then still write its data; a second
    interrupt ends it at once."""
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise TracekitError(f"{command[0]}: cannot be run: {error.strerror}") from error
    try:
        return process.wait(), False
    except KeyboardInterrupt:
        # Ctrl-C on a terminal reaches the profiler as well.
        if not sys.stdin.isatty():
            process.send_signal(signal.SIGINT)
        try:
            return process.wait(_WRITE_S), True
        except BaseException:
            process.kill()
            process.wait()
            raise KeyboardInterrupt from None
