"""HolisticTraceAnalysis, run on a trace: its answers as plain Python, in integer nanoseconds."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError

TEMPORAL = ("idle", "compute", "non_compute", "kernel")
Idle = dict[tuple[int, str], int]  # ns by stream and category
Launches = Counter[tuple[int, int, int, int]]  # correlation; ns of call, op and wait
Queue = dict[tuple[int, int], tuple[int, int]]  # changes and length, by stream and instant


def require(path: str | Path) -> None:
    """Makes sure that HTA is installed and reads files such as `path`.

    Raises:
        TracekitError: when not.
    """
    from tracekit.database.connection import is_database

    if is_database(path):
        raise TracekitError(f"{path}: is a database; give the JSON trace that it was made of")
    if not Path(path).exists():
        raise TracekitError(f"{path}: no such file")
    if not Path(path).is_file() or Path(path).suffix not in (".json", ".gz"):
        raise TracekitError(f"{path}: HTA reads only .json and .json.gz files")
    with _silence():
        try:
            importlib.import_module("hta.trace_analysis")
        except ImportError as error:
            raise TracekitError(
                "crosscheck needs HolisticTraceAnalysis: pip install 'tracekit[hta]'"
            ) from error


def opened(path: str | Path) -> Any:
    """HTA's TraceAnalysis of the file, or the exception that it fails with."""
    # HTA takes a path that is not absolute for one below its folder.
    absolute = Path(path).absolute()
    with _silence():
        try:
            analysis = importlib.import_module("hta.trace_analysis").TraceAnalysis
            return analysis(trace_files={0: str(absolute)}, trace_dir=str(absolute.parent))
        except Exception as error:
            return error


def version() -> str:
    """HTA's, as installed."""
    try:
        return version_of("HolisticTraceAnalysis")
    except PackageNotFoundError:
        return "of unknown version"


def run(ask: Callable[[Any], Any], hta: Any) -> tuple[Any, str | None]:
    """What HTA answers, or None and why it does not; `hta` is what `opened` returned."""
    error = hta
    if not isinstance(hta, Exception):
        with _silence():
            try:
                return ask(hta), None
            except Exception as failure:
                error = failure
    reason = " ".join(str(error).split())
    return None, type(error).__name__ + (f": {reason}" if reason else "")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps HTA's log and prints, and pandas' warnings, from standard output and error."""
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
    # Whole microseconds as they are: a double does not hold the nanoseconds of a date.
    whole = int(us)
    return whole * 1000 + round(float(us - whole) * 1000)


def temporal(hta: Any) -> dict[str, int]:
    """Idle, compute, other and whole time."""
    row = hta.get_temporal_breakdown(visualize=False).iloc[0]
    return {name: _ns(row[f"{name}_time(us)"]) for name in TEMPORAL}


def kernels(hta: Any) -> dict[str, int]:
    """Time of each kernel type, alone and beside others."""
    frame = hta.get_gpu_kernel_breakdown(visualize=False)[0]
    found = {name: _ns(us) for name, us in zip(frame["kernel_type"], frame["sum"], strict=True)}
    # Of types of 0 ns, HTA lists some.
    return {name: ns for name, ns in found.items() if ns != 0}


def overlap(hta: Any) -> float | None:
    """Communication beside compute, percent of communication; None without any."""
    percent = float(hta.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"].iloc[0])
    return None if percent != percent else percent


def idle(hta: Any) -> Idle:
    """Idle time by stream and category."""
    frame = hta.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    rows = zip(frame["stream"], frame["idle_category"], frame["idle_time"], strict=True)
    return {(int(stream), category): _ns(us) for stream, category, us in rows}


def launches(hta: Any) -> Launches:
    """Launches with the durations of call and op and the wait between."""
    frame = hta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    columns = ("correlation", "cpu_duration", "gpu_duration", "launch_delay")
    rows = zip(*(frame[name] for name in columns), strict=True)
    return Counter((int(each), _ns(cpu), _ns(gpu), _ns(delay)) for each, cpu, gpu, delay in rows)


def queue(hta: Any) -> Queue:
    """Changes and length of each queue, by instant."""
    frame = hta.get_queue_length_time_series(ranks=[0]).get(0)
    found: Queue = {}
    if frame is None:
        return found
    # HTA counts time from its first event.
    first_us = hta.t.min_ts
    for us, stream, length in zip(frame["ts"], frame["stream"], frame["queue_length"], strict=True):
        key = (int(stream), _ns(us + first_us))
        found[key] = (found.get(key, (0, 0))[0] + 1, int(length))
    return found
