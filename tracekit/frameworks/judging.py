"""Verdicts on the traces of a running training, each written by a separate process, so that
training continues if it fails or uses too much memory or time. Only one process judges at a time,
and the newest trace comes first, which bounds the memory and time for all verdicts."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tracekit.capture.output import publish, rank_path
from tracekit.capture.recorder import import_torch
from tracekit.errors import TracekitError, first_line
from tracekit.files import require_unlinked, written_whole
from tracekit.text import quoted
from tracekit.verdict.regime import bound_by

# Limits on a judging process. The memory limit works only on Linux.
_LIMIT_S = 600
_MEMORY_MB = 2000
_ADDRESS_SPACE_MB = 8000


def judge(trace: Path) -> str:
    """Writes TRACE.verdict.json, as `tracekit analyze --json` prints it, and TRACE.verdict.txt.

    Returns the regime and the bottleneck.

    Raises:
        TracekitError: when the trace cannot be analyzed.
    """
    home = str(Path(__file__).parents[2])
    python_path = os.environ.get("PYTHONPATH")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [home, python_path]))}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tracekit.frameworks.judging", str(trace.absolute())],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TracekitError(f"{trace}: was written, but has no verdict: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise TracekitError(f"{trace}: was written, but has no verdict: {last}")
    return done.stdout.strip()


def verdict_paths(trace: Path) -> tuple[Path, Path]:
    """The paths of a trace's verdict as JSON and as text."""
    from tracekit.trace.paths import stem

    name = stem(trace.name)
    return trace.with_name(f"{name}.verdict.json"), trace.with_name(f"{name}.verdict.txt")


def _write(trace: Path) -> str:
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_any
    from tracekit.reporters import console
    from tracekit.verdicts import verdicts

    with open_any(trace, Resources(memory_mb=_MEMORY_MB)) as database, database.sharing():
        analysis = verdicts(database, database.only(None))[0]
    as_json, as_text = (require_unlinked(path, trace.parent) for path in verdict_paths(trace))
    with redirect_stdout(StringIO()) as printed:
        console.render(analysis)
    with written_whole(as_json) as beside:
        beside.write_text(json.dumps(analysis.as_dict(), default=str) + "\n")
    with written_whole(as_text) as beside:
        beside.write_text(printed.getvalue(), encoding="utf-8")
    verdict = analysis.verdict
    return bound_by(verdict.regime, verdict.bottleneck)


OnVerdict = Callable[[Path, dict[str, Any]], object]


def on_trace_ready(
    folder: str | Path, on_verdict: OnVerdict | None = None
) -> Callable[[Any], None]:
    """A handler for `torch.profiler.profile(on_trace_ready=...)`: writes each trace into `folder`
    and its verdict beside it, and prints the verdict's first two lines and where the rest is.

        with torch.profiler.profile(..., on_trace_ready=tracekit.on_trace_ready("runs/")) as prof:

    A file's name has the step at which the profiler's cycle ended and, if there are several ranks,
    the rank: `step12.rank3.json.gz`. Another process judges while training goes on; then
    `on_verdict` is called in a thread, with the trace's path and the object that `tracekit analyze
    --json` prints. One trace is judged at a time; of those that wait meanwhile, the newest is next,
    and the older ones have no verdict. Judging a trace takes at most 600 s, and on Linux 8 GB of
    address space. Any failure is one warning, and never an error of the training.
    """
    # The program may change the working directory.
    to = Path(folder).absolute()

    def handle(profiler: Any) -> None:
        try:
            torch = import_torch()
            path = rank_path(to / f"step{profiler.step_num}.json.gz", torch)
            with publish(require_unlinked(path, to)) as beside:
                profiler.export_chrome_trace(str(beside))
        except Exception as error:
            _warn(error)
            return
        waiting.put(path, on_verdict)

    waiting = _Waiting()
    return handle


class _Waiting:
    """The newest trace that waits for its verdict, and the judging thread, for which the program
    waits at its end."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._next: tuple[Path, OnVerdict | None] | None = None
        self._is_judging = False

    def put(self, path: Path, on_verdict: OnVerdict | None) -> None:
        """Queues a trace for its verdict, after the one being judged; an older one that still waits
        gets no verdict."""
        with self._guard:
            older, self._next = self._next, (path, on_verdict)
            begins, self._is_judging = not self._is_judging, True
        if older is not None:
            _warn(
                TracekitError(f"{older[0]}: was written, but has no verdict: {path.name} is newer")
            )
        if begins:
            threading.Thread(target=self._judge, name="tracekit-verdict").start()

    def _judge(self) -> None:
        while True:
            with self._guard:
                mine, self._next = self._next, None
                if mine is None:
                    self._is_judging = False
                    return
            _tell(*mine)


def _tell(path: Path, on_verdict: OnVerdict | None) -> None:
    try:
        bound = judge(path)
        as_json, as_text = verdict_paths(path)
        document = json.loads(as_json.read_text())
        headline, confidence = document["verdict"]["headline"], document["verdict"]["confidence"]
        trace = os.path.relpath(path)
        print(
            f"{trace}: {headline}\n{bound}; confidence {confidence}\n"
            f"verdict: {os.path.relpath(as_text)}; page of charts: tracekit report {quoted(trace)}",
            flush=True,
        )
        if on_verdict is not None:
            on_verdict(path, document)
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    message = f"tracekit: {first_line(error)}"
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    except Warning:  # Training goes on even if warnings are errors.
        logging.getLogger("tracekit").warning(message)


if __name__ == "__main__":
    from tracekit.ingest.resources import limit_process

    limit_process(_ADDRESS_SPACE_MB)
    try:
        print(_write(Path(sys.argv[1])))
    except TracekitError as error:
        sys.exit(str(error))
