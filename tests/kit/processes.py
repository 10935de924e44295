"""Programs in processes of their own."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path


def ran(
    *command: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program and returns its output and exit status; `python` is this interpreter."""
    program, *arguments = command
    return subprocess.run(
        [sys.executable if program == "python" else program, *arguments],
        cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


def children_of(process: int) -> list[int]:
    """The processes that a process has started (Linux)."""
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


def is_alive(process: int) -> bool:
    """Whether a process runs (Linux)."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def have_ended(*processes: int) -> bool:
    """Whether these processes end within a minute."""
    deadline = time.monotonic() + 60
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(is_alive, processes))
