"""Runs an agent's SQL and loads traces in a separate process with a memory limit, so that the
server survives whatever a statement or file does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread, Timer
from typing import Any, BinaryIO

from msgspec import to_builtins
from msgspec.structs import replace

from tracekit.agents.answers import Fitted, Page, rows_that_fit, text_of
from tracekit.database.interrupt import took_longer
from tracekit.database.selects import NEEDS_MEMORY
from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources, limit_process
from tracekit.opening import load, open_any
from tracekit.reporters.rows import first_rows
from tracekit.trace.budget import seconds

# A statement's memory limit without --memory-mb.
MEMORY_MB = 4_000
# The server reads at most this much of a child's output.
_MOST_BYTES = 64_000_000
_READY = b"{}\n"
_NEEDS_MEMORY = "the traces need more memory to load than is allowed: allow more (--memory-mb)"
# Each of DuckDB's threads would reserve 64 MB of address space.
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2"}


class Child:
    """A process for one statement, or one load. `end` kills it, from any thread, or keeps it from
    starting."""

    def __init__(self) -> None:
        self._starting = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    def rows(
        self, path: str, resources: Resources, statement: str, page: Page, timeout_s: float
    ) -> Fitted:
        """The columns and rows of one SELECT on the database or lake at `path` that fit the page.

        Raises:
            TracekitError: when the SQL fails, needs more memory or time than is allowed, or ends
                its process.
        """
        asked = {
            "path": path,
            "resources": to_builtins(_within(resources)),
            "statement": statement,
            "page": to_builtins(page),
        }
        answered, is_late = self._asked(asked, timeout_s)
        if answered is not None:
            rows, left_out = answered["fitted"]
            return rows, left_out
        if is_late:
            raise took_longer(timeout_s)
        raise TracekitError(
            "SQL: the statement crashed its process: DuckDB cannot run it, or it "
            "needs more memory than is allowed (--memory-mb)"
        )

    def load(self, paths: Sequence[str], database: Path, resources: Resources) -> None:
        """Loads traces into a new database.

        Raises:
            TracekitError: when they cannot be loaded, need more memory or time than is allowed, or
                end the process.
        """
        timeout_s = seconds(sum(Path(path).stat().st_size for path in paths))
        how = replace(
            resources,
            temp_dir=resources.temp_dir and str(resources.temp_dir),
            hardware=resources.hardware and str(resources.hardware),
            annotations=tuple(map(str, resources.annotations)),
        )
        asked = {"paths": paths, "database": str(database), "resources": to_builtins(how)}
        answered, is_late = self._asked(asked, timeout_s)
        if answered is None:
            name = paths[0] if len(paths) == 1 else f"{len(paths)} traces"
            raise TracekitError(
                f"{name}: took longer than {timeout_s:,.0f} s to load"
                if is_late
                else f"{name}: crashed the process that loads it: it is damaged, or needs more "
                "memory than is allowed (--memory-mb)"
            )

    def _asked(self, asked: dict[str, Any], timeout_s: float) -> tuple[dict[str, Any] | None, bool]:
        """The process's answer, if any, and whether it timed out.

        Raises:
            TracekitError: when the process reports an error.
        """
        try:
            answer, is_late = self._answer(json.dumps(asked).encode() + b"\n", timeout_s)
        finally:
            self.end()
        try:
            message: dict[str, Any] = json.loads(answer)
        except ValueError:
            return None, is_late
        if "error" in message:
            raise TracekitError(message["error"])
        return message, is_late

    def end(self) -> None:
        with self._starting:
            self._is_ended = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answer(self, asked: bytes, timeout_s: float) -> tuple[bytes, bool]:
        """The process's output, and whether it was killed by the timeout, which starts when the
        database is open or the load begins."""
        late = False

        def end_late() -> None:
            nonlocal late
            late = True
            process.kill()

        process = self._started()
        timer = Timer(timeout_s, end_late)
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError), process.stdin, process.stdout:
            process.stdin.write(asked)
            process.stdin.flush()
            if (answer := process.stdout.readline(_MOST_BYTES)) == _READY:
                timer.start()
                answer = process.stdout.read(_MOST_BYTES)
            timer.cancel()
            return answer, late
        return b"", late

    def _started(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._is_ended:
                raise TracekitError("stopped")
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tracekit.agents.child"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | _ENVIRONMENT,
            )  # fmt: skip
            return self._process


def _within(resources: Resources) -> Resources:
    """The resources of a statement. It may not open files to spill, unless the user allows it."""
    spill_mb = 0 if resources.memory_mb is None else None
    return replace(
        resources,
        memory_mb=resources.memory_mb or MEMORY_MB,
        spill_mb=spill_mb if resources.spill_mb is None else resources.spill_mb,
        temp_dir=resources.temp_dir and str(resources.temp_dir),
        hardware=None,
        annotations=(),
    )


def _main() -> None:
    """Answers the question on standard input."""
    out = sys.stdout.buffer
    asked = json.loads(sys.stdin.buffer.readline())
    Thread(target=_end_with_the_server, daemon=True).start()
    resources = Resources(**asked["resources"])
    try:
        if "paths" in asked:
            # DuckDB itself obeys --memory-mb, and reserves more addresses than it uses.
            _begin(out, max(resources.memory_mb or 0, MEMORY_MB))
            load(asked["paths"], asked["database"], resources).close()
            answer: dict[str, Any] = {"loaded": True}
        else:
            page = Page(**asked["page"])
            with open_any(asked["path"], resources) as database:
                _begin(out, resources.memory_mb or MEMORY_MB)
                database.require_select(asked["statement"])
                columns, rows = first_rows(database, asked["statement"], {}, **page.limits)
            answer = {"fitted": rows_that_fit(columns, rows, page)}
    except (TracekitError, MemoryError) as error:
        answer = {"error": str(error)}
        if isinstance(error.__cause__ or error, MemoryError):
            answer = {"error": _NEEDS_MEMORY if "paths" in asked else NEEDS_MEMORY}
    out.write(text_of(answer).encode("utf-8", "replace"))
    out.flush()
    # The thread that waits for the server cannot be stopped.
    os._exit(0)


def _begin(out: BinaryIO, limit_mb: int) -> None:
    """Starts the timeout, and limits the memory."""
    limit_process(limit_mb)
    out.write(_READY)
    out.flush()


def _end_with_the_server() -> None:
    # The server closes this end only after the statement's answer.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    _main()
