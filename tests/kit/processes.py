"""Programs in processes of their own, and commands in this one."""

import os
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.kit.impossible import require_possible_output
from tracekit.commands import cli


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


def ran_on_a_full_disk(
    most_bytes: int, *arguments: str, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Runs `tracekit ...`, none of whose files may grow beyond `most_bytes`: as on a full disk,
    writes fail."""
    limited = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes},) * 2)\n"
        "from tracekit.commands import main\n"
        "sys.argv[0] = 'tracekit'\nmain()"
    )
    return ran("python", "-c", limited, *arguments, cwd=cwd)


def invoke(*arguments: object) -> Result:
    """Runs `tracekit ...` in this process; an error is raised. What it prints may not say anything
    impossible."""
    done = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    if not done.exit_code:
        require_possible_output(arguments, done.stdout)
    return done


def on_terminal(
    *command: str | Path, cwd: Path | None = None, piped: bool = False, **environment: str
) -> tuple[str, int, str]:
    """What a program writes to a terminal of 24 lines and 160 columns, its exit status, and what it
    writes to standard output if that is `piped`."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    import fcntl
    import termios

    reading, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=subprocess.PIPE if piped else terminal, stderr=terminal,
        cwd=cwd, env=inherited | {"TERM": "xterm"} | environment,
    )  # fmt: skip
    os.close(terminal)
    received = b""
    try:
        while part := os.read(reading, 1 << 16):
            received += part
    except OSError:
        # Linux ends a terminal that nobody writes to with an error.
        pass
    os.close(reading)
    printed, _ = process.communicate(timeout=60)
    return received.decode().replace("\r\n", "\n"), process.returncode, (printed or b"").decode()


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
