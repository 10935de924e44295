"""One line in a training loop: each trace of torch.profiler is written and judged, and its verdict
printed."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracekit.capture.output import publish, rank_path
from tracekit.capture.workload import import_torch
from tracekit.errors import TracekitError, first_line
from tracekit.frameworks.judging import judge, verdict_paths
from tracekit.verdict.regime import bound_by

OnVerdict = Callable[[Path, dict[str, Any]], object]


def on_trace_ready(
    folder: str | Path, on_verdict: OnVerdict | None = None
) -> Callable[[Any], None]:
    """A handler for `torch.profiler.profile(on_trace_ready=...)`: writes each trace into `folder`
    and its verdict beside it, and prints the verdict's first two lines.

        with torch.profiler.profile(..., on_trace_ready=tracekit.on_trace_ready("runs/")) as prof:

    A file's name has the step at which the profiler's cycle ended and, if there are several ranks,
    the rank: `step12.rank3.json.gz`. Another process judges while training goes on; then
    `on_verdict` is called in a thread, with the trace's path and the object that `tracekit analyze
    --json` prints. Any failure is one warning, and never an error of the training.
    """
    # The program may change the working directory.
    to = Path(folder).absolute()

    def handle(profiler: Any) -> None:
        try:
            torch = import_torch()
            path = rank_path(to / f"step{profiler.step_num}.json.gz", torch)
            with publish(path) as beside:
                profiler.export_chrome_trace(str(beside))
        except Exception as error:
            _warn(error)
            return
        # At its end, the program waits for the last verdict.
        threading.Thread(target=_tell, args=(path, on_verdict), name="tracekit-verdict").start()

    return handle


def _tell(path: Path, on_verdict: OnVerdict | None) -> None:
    try:
        judge(path)
        found = json.loads(verdict_paths(path)[0].read_text())
        verdict = found["verdict"]
        bound = bound_by(verdict["regime"], verdict["bottleneck"])
        print(
            f"{os.path.relpath(path)}: {verdict['headline']}\n"
            f"{bound}; confidence {verdict['confidence']}",
            flush=True,
        )
        if on_verdict is not None:
            on_verdict(path, found)
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    said = str(error) if isinstance(error, TracekitError) else first_line(error)
    warnings.warn(f"tracekit: {said}", RuntimeWarning, stacklevel=3)
