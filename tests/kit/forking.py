"""Runs `tracekit ...` and `pytest ...` in forks of one process that has done their imports.

A program runs as for a user, except for the start of Python and the imports. These take most of a
small command's time, and the import of PyTorch takes seconds. A command may have its own
environment, unless Python or an imported library has read a part of it before.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import NoReturn

TRACEKIT = Path(sys.executable).parent / "tracekit"
# The modules that have a program's `main`.
MAIN = {"tracekit": "tracekit.commands", "pytest": "pytest"}
LIMIT_S = 300
# Prefixes of variables that take effect only when a process starts.
AT_START = ("PYTHON", "LD_", "LC_", "LANG", "OMP_", "MKL_", "TRITON_INTERPRET")
# Modules that most commands import on first use.
IMPORTED = [
    "duckdb", "isal.igzip_lib", "numpy.ma", "rich.padding", "rich.table", "tarfile",
    "tracekit.advice.find", "tracekit.commands.analyze", "tracekit.commands.diff",
    "tracekit.commands.lake", "tracekit.commands.query", "tracekit.compare.diff",
    "tracekit.ingest.load", "tracekit.lake.adding", "tracekit.lake.comparing", "tracekit.opening",
    "tracekit.reporters.console", "tracekit.reporters.diff", "tracekit.reporters.first_screen",
    "tracekit.reporters.rows", "tracekit.reporters.terminal", "tracekit.run",
    "tracekit.trace.recovery", "tracekit.trace.unpacking", "tracekit.verdict.rows",
]  # fmt: skip
# The profiler imports torch._inductor when it starts.
WITH_TORCH = [
    "tracekit.commands", "numpy", "torch.profiler", "torch._inductor", "tracekit.capture.workload",
]  # fmt: skip


class CommandServer:
    """A separate process that forks for each command."""

    def __init__(self, modules: list[str], environment: dict[str, str]) -> None:
        """Args:
        modules: the modules that the process imports.
        environment: the environment of the process, and of commands without their own.
        """
        self._environment = environment
        self._process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment, start_new_session=True,
        )  # fmt: skip

    def changes(self, environment: dict[str, str]) -> dict[str, str | None] | None:
        """The variables that a fork has to change to get this environment; None if it cannot."""
        names = self._environment.keys() | environment.keys()
        changed = {
            name: environment.get(name)
            for name in names
            if self._environment.get(name) != environment.get(name)
        }
        return None if any(name.startswith(AT_START) for name in changed) else changed

    def run(
        self,
        program: Path,
        arguments: tuple[str, ...],
        folder: Path,
        stdin: bytes,
        changes: dict[str, str | None],
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a program of `MAIN` in a folder; returns its exit status and its output.

        Raises:
            subprocess.TimeoutExpired: the command takes longer than `LIMIT_S`.
        """
        assert self._process.stdin and self._process.stdout
        with TemporaryDirectory() as place:
            streams = [Path(place, name) for name in ("stdin", "stdout", "stderr")]
            streams[0].write_bytes(stdin)
            request = [str(folder), changes, [*map(str, streams)], str(program), *arguments]
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            if not select([self._process.stdout], [], [], LIMIT_S)[0]:
                self.stop()
                raise subprocess.TimeoutExpired(list(arguments), LIMIT_S)
            answer = self._process.stdout.readline()
            printed = (each.read_bytes() for each in streams[1:])
            return subprocess.CompletedProcess([program, *arguments], int(answer), *printed)

    def stop(self) -> None:
        """Kills the process and the command that it runs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _read_files() -> None:
    """Reads the package's own files that a process reads once."""
    from tracekit.database import catalog, facts
    from tracekit.database.remedies import all_remedies
    from tracekit.ingest.hardware import peaks

    for read in (catalog.queries, all_remedies, facts.facts, peaks):
        read()


def _serve() -> None:
    """Forks for each request; returns in the children."""
    requests, answers = os.fdopen(os.dup(0)), os.dup(1)
    for request in requests:
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            continue
        requests.close()
        os.close(answers)
        folder, changes, streams, *sys.argv = json.loads(request)
        for number, stream in enumerate(streams):
            opened = os.open(stream, os.O_CREAT | os.O_WRONLY if number else os.O_RDONLY)
            os.dup2(opened, number)
            os.close(opened)
        os.chdir(folder)
        for name, value in changes.items():
            os.environ.pop(name, None)
            os.environ |= {} if value is None else {name: value}
        return
    sys.exit()


def _end(main: Callable[[], object]) -> NoReturn:
    """Runs a program's `main` and ends the process as Python does, except that modules are not
    freed, which would take 0.1 s."""
    try:
        status = main()
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if not isinstance(status, int | None):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    # The same path as for the installed command.
    sys.path[0] = str(TRACEKIT.parent)
    for module in sys.argv[1:]:
        import_module(module)
    if "duckdb" in sys.modules:
        _read_files()
    # Keeps the shared objects out of garbage collection, which would copy them in each command.
    gc.freeze()
    _serve()
    _end(import_module(MAIN[Path(sys.argv[0]).name]).main)
