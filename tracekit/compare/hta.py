"""Runs HolisticTraceAnalysis (HTA) on a trace; times in its answers are integer nanoseconds."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, install

TEMPORAL = ("idle", "compute", "non_compute", "kernel")
Idle = dict[tuple[int, str], int]  # ns, by stream and category
Launches = Counter[tuple[int, int, int, int]]  # correlation; ns of call, op and wait
Queue = dict[tuple[int, int], tuple[int, int]]  # changes and length, by stream and time in ns


def require(path: str | Path) -> None:
    """Checks that HTA 0.6 or newer is installed, and that it reads files such as `path`.

    Raises:
        TracekitError: when HTA is not installed, or `path` is not a .json or .json.gz file.
    """
    from tracekit.database.connection import is_database

    if is_database(path):
        raise TracekitError(f"{path}: is a database; give its original JSON trace")
    if not Path(path).exists():
        raise TracekitError(f"{path}: no such file")
    if not Path(path).is_file() or Path(path).suffix not in (".json", ".gz"):
        raise TracekitError(f"{path}: HTA reads only .json and .json.gz files")
    with _silence():
        try:
            version()
            importlib.import_module("hta.trace_analysis")
        except ImportError as error:
            raise TracekitError(
                f"crosscheck needs HolisticTraceAnalysis (traceinsight): {install('hta')}"
            ) from error


def analysis_of(*paths: str | Path) -> Any:
    """HTA's TraceAnalysis of a file, or of several ranks' files in order of rank; or the exception
    that HTA raised."""
    # HTA takes a relative path to be relative to `trace_dir`.
    absolute = [Path(path).absolute() for path in paths]
    with _silence():
        try:
            analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis
            files = {rank: str(each) for rank, each in enumerate(absolute)}
            return analysis(trace_files=files, trace_dir=str(absolute[0].parent))
        except Exception as error:
            return error


def version() -> str:
    """The version of the installed HTA, whose package is named traceinsight since 0.6.

    Raises:
        PackageNotFoundError: when HTA is missing or older, with other rules.
    """
    return version_of("traceinsight")


def run(ask: Callable[[Any], Any], hta: Any) -> tuple[Any, str | None]:
    """HTA's answer and None, or None and the reason why HTA failed; `hta` is what `analysis_of`
    returned."""
    with _silence():
        try:
            if isinstance(hta, Exception):
                raise hta
            return ask(hta), None
        except Exception as failure:
            error = failure
    reason = " ".join(str(error).split())
    return None, type(error).__name__ + (f": {reason}" if reason else "")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Silences HTA's log and prints, and pandas' warnings."""
    logger = logging.getLogger("hta")
    before, logger.disabled = logger.disabled, True
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


def _ns(us: Any) -> int:
    # Convert the whole microseconds exactly: a double cannot hold a date in nanoseconds.
    whole = int(us)
    return whole * 1000 + round(float(us - whole) * 1000)


def temporal(hta: Any) -> dict[str, int]:
    """Idle, compute, non-compute and total kernel time, in ns."""
    row = hta.get_temporal_breakdown(visualize=False).iloc[0]
    return {name: _ns(row[f"{name}_time(us)"]) for name in TEMPORAL}


def kernels(hta: Any) -> dict[str, int]:
    """Time of each kernel type, alone and overlapping others, in ns."""
    frame = hta.get_gpu_kernel_breakdown(visualize=False)[0]
    times = {name: _ns(us) for name, us in zip(frame["kernel_type"], frame["sum"], strict=True)}
    # HTA lists only some of the types with 0 ns: drop them all.
    return {name: ns for name, ns in times.items() if ns != 0}


def overlap(hta: Any) -> float | None:
    """Communication that overlaps compute, in percent of communication; None without any."""
    percent = float(hta.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0])
    return None if percent != percent else percent


def idle(hta: Any) -> Idle:
    """Idle time by stream and category, in ns."""
    frame = hta.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    rows = zip(frame["stream"], frame["idle_category"], frame["idle_time"], strict=True)
    return {(int(stream), category): _ns(us) for stream, category, us in rows}


def launches(hta: Any) -> Launches:
    """Launches: the duration of the call, of the op, and the wait between them, in ns."""
    frame = hta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    columns = ("correlation", "cpu_duration", "gpu_duration", "launch_delay")
    rows = zip(*(frame[name] for name in columns), strict=True)
    return Counter((int(each), _ns(cpu), _ns(gpu), _ns(delay)) for each, cpu, gpu, delay in rows)


def queue(hta: Any) -> Queue:
    """The number of changes and the length of each stream's queue, by time in ns."""
    frame = hta.get_queue_length_time_series(ranks=[0]).get(0)
    lengths: Queue = {}
    if frame is None:
        return lengths
    # HTA's times are relative to the first event.
    first_us = hta.t.min_ts
    for us, stream, length in zip(frame["ts"], frame["stream"], frame["queue_length"], strict=True):
        key = (int(stream), _ns(us + first_us))
        lengths[key] = (lengths.get(key, (0, 0))[0] + 1, int(length))
    return lengths
