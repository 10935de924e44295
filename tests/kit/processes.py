"""Programs in processes of their own."""

import os
import subprocess
import sys
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
