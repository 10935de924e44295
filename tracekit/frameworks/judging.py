"""Writes the verdict on a trace next to it, in a separate process.

If that process fails, or uses too much memory or time, training goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from tracekit.errors import TracekitError
from tracekit.files import written_whole
from tracekit.verdict.regime import bound_by

_LIMIT_S = 600
_MEMORY_MB = 2000


def judge(trace: Path) -> str:
    """Writes TRACE.verdict.json, as `tracekit analyze --json` prints it, and TRACE.verdict.txt.

    Returns the regime and the bottleneck.

    Raises:
        TracekitError: when the trace cannot be analyzed.
    """
    home = str(Path(__file__).parents[2])
    found = os.environ.get("PYTHONPATH")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [home, found]))}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tracekit.frameworks.judging", str(trace.absolute())],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TracekitError(f"{trace}: is written, but has no verdict: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise TracekitError(f"{trace}: is written, but has no verdict: {last}")
    return done.stdout.strip()


def verdict_paths(trace: Path) -> tuple[Path, Path]:
    """Where the verdict on a trace is written: as JSON, and as text."""
    stem = trace.name
    for ending in (".duckdb", ".json.gz", ".json"):
        stem = stem.removesuffix(ending)
    return trace.with_name(f"{stem}.verdict.json"), trace.with_name(f"{stem}.verdict.txt")


def _write(trace: Path) -> str:
    from tracekit.examine import verdicts
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_any
    from tracekit.reporters import console

    with open_any(trace, Resources(memory_mb=_MEMORY_MB)) as database, database.sharing():
        analysis = verdicts(database, database.only(None))[0]
    as_json, as_text = verdict_paths(trace)
    with redirect_stdout(StringIO()) as printed:
        console.render(analysis)
    with written_whole(as_json) as beside:
        beside.write_text(json.dumps(analysis.as_dict(), default=str) + "\n")
    with written_whole(as_text) as beside:
        beside.write_text(printed.getvalue(), encoding="utf-8")
    verdict = analysis.verdict
    return bound_by(verdict.regime, verdict.bottleneck)


if __name__ == "__main__":
    try:
        print(_write(Path(sys.argv[1])))
    except TracekitError as error:
        sys.exit(str(error))
