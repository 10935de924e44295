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
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

TRACEKIT = Path(sys.executable).parent / "tracekit"
# The modules that have a program's `main`.
MAIN = {"tracekit": "tracekit.commands", "pytest": "pytest"}
LIMIT_S = 300
# Prefixes of variables that take effect only when a process starts.
AT_START = ("PYTHON", "LD_", "LC_", "LANG", "OMP_", "MKL_", "TRITON_INTERPRET")
# Modules that most commands import on first use.
IMPORTED = [
    "tracekit.commands.analyze",
    "tracekit.commands.diff",
    "tracekit.commands.lake",
    "tracekit.commands.query",
    "tracekit.advice.find",
    "tracekit.compare.diff",
    "tracekit.ingest.load",
    "tracekit.lake.adding",
    "tracekit.lake.comparing",
    "tracekit.reporters.console",
    "tracekit.reporters.diff",
    "tracekit.reporters.first_screen",
    "tracekit.reporters.rows",
    "tracekit.reporters.terminal",
    "tracekit.opening",
    "tracekit.run",
    "tracekit.trace.recovery",
    "tracekit.trace.unpacking",
    "tracekit.verdict.rows",
    "duckdb",
    "isal.igzip_lib",
    "numpy.ma",
    "rich.padding",
    "rich.table",
    "tarfile",
    "zstandard",
]
# The profiler imports torch._inductor when it starts.
WITH_TORCH = [
    "tracekit.commands",
    "numpy",
    "torch.profiler",
    "torch._inductor",
    "tracekit.capture.workload",
]


class CommandServer:
    """A separate process that forks for each command."""

    def __init__(self, modules: list[str], environment: dict[str, str]) -> None:
        """Args:
        modules: the modules that the process imports.
        environment: the environment of the process, and of commands without their own.
        """
        self._environment = environment
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                # Pipes, like the commands' own streams.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        self._control.settimeout(LIMIT_S)

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
        (given, to_stdin), (stdout, to_stdout), (stderr, to_stderr) = (os.pipe() for _ in "123")
        request = json.dumps([str(folder), changes, str(program), *arguments]).encode() + b"\n"
        socket.send_fds(self._control, [request], [given, to_stdout, to_stderr])
        for descriptor in (given, to_stdout, to_stderr):
            os.close(descriptor)
        with ThreadPoolExecutor(3) as pool:
            pool.submit(_write, to_stdin, stdin)
            printed = [pool.submit(_read, each) for each in (stdout, stderr)]
            try:
                answer = self._control.recv(64)
            except TimeoutError:
                self.stop()
                raise subprocess.TimeoutExpired(list(arguments), LIMIT_S) from None
        return subprocess.CompletedProcess(
            [program, *arguments], int(answer), *(each.result() for each in printed)
        )

    def stop(self) -> None:
        """Kills the process and the command that it runs."""
        self._control.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _write(descriptor: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as file:
        file.write(data)


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


def _read_files() -> None:
    """Reads the package's own files that a process reads once."""
    from tracekit.advice.catalogue import catalogue
    from tracekit.database import catalog, facts
    from tracekit.ingest.hardware import peaks

    for read in (catalog.queries, catalog.remedies, catalogue, facts.facts, peaks):
        read()


def _serve(control: socket.socket) -> None:
    """Forks for each request; returns in the children."""
    while True:
        request, streams, _, _ = socket.recv_fds(control, 1 << 16, 3)
        if not request:
            sys.exit()
        while not request.endswith(b"\n"):
            request += control.recv(1 << 16)
        child = os.fork()
        if child == 0:
            control.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            folder, changes, *sys.argv = json.loads(request)
            os.chdir(folder)
            for name, value in changes.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            return
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        control.sendall(str(os.waitstatus_to_exitcode(status)).encode())


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
    for module in sys.argv[2:]:
        import_module(module)
    if "duckdb" in sys.modules:
        _read_files()
    # Keeps the shared objects out of garbage collection, which would copy them in each command.
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _end(import_module(MAIN[Path(sys.argv[0]).name]).main)
