"""The tools to ask, each a function from a trace file to an Answer.

A tool's words are mapped to a regime, a cause or a change only if they mean that; anything else
counts as unanswered. `make diagnosis` installs HolisticTraceAnalysis 0.5.0 and gpu-idle into their
own folders: modules of the former have the same names as traceinsight's, which is in .venv.
"""

from __future__ import annotations

import gzip
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import tracekit
from tests.bench.diagnosis.score import Answer, Case
from tests.bench.measuring import PEERS
from tracekit.compare import hta


def tracekit_(trace: Path) -> Answer:
    """The verdict, its confidence and the fix list, as `analyze --json` prints them."""
    with tracekit.load(trace) as run:
        return answer_of(run.verdict().as_dict())


def answer_of(analysis: dict[str, Any]) -> Answer:
    """The answer of an analysis, given as its JSON or in the form of tests/answers.json."""
    verdict, advice = analysis["verdict"], analysis.get("advice", [])
    return Answer(
        regime=verdict["regime"],
        cause=verdict["bottleneck"],
        changes=tuple(dict.fromkeys(each["remedy"].replace("-", "_") for each in advice)),
        # A line without a share saves time once, but none in the window.
        saves=(advice[0]["share"] or 0.0) if advice else None,
        confidence=verdict["confidence"],
        # The doubts stand on the same screen.
        sentence=" ".join(
            [verdict.get("headline", ""), *verdict.get("notes", []), *verdict.get("doubts", [])]
        ),
    )


# HTA's words for the bounds of the critical path.
_BOUND_BY: dict[str, tuple[str, str | None]] = {
    "cpu_bound": ("overhead-bound", None),
    "gpu_kernel_launch_overhead": ("overhead-bound", "launch"),
    "gpu_kernel_kernel_overhead": ("compute-bound", "latency"),
    "gpu_compute_bound": ("compute-bound", None),
    "gpu_communication_bound": ("compute-bound", "communication"),
}


def holistic_trace_analysis(trace: Path) -> Answer:
    """The bound of most of the critical path: of all marked steps except the first, or of
    everything."""
    found, error = hta.run(_bound_by, hta.analysis_of(trace))
    if error or found not in _BOUND_BY:
        return Answer(error=error)
    regime, cause = _BOUND_BY[found]
    return Answer(regime=regime, cause=cause)


def _bound_by(analysis: Any) -> str | None:
    steps = len([name for name in analysis.t.symbol_table.sym_table if "ProfilerStep#" in name])
    name, instances = ("ProfilerStep", (min(1, steps - 1), steps - 1)) if steps else ("", None)
    graph, success = analysis.critical_path_analysis(0, name, instances)
    return str(graph.summary().idxmax()) if success else None


# gpu-idle's causes; several changes in one sentence count as one line.
_CAUSES: dict[str, tuple[str | None, str | None, tuple[str, ...]]] = {
    "dataloader": ("overhead-bound", "input", ("dataloader_workers", "dataloader_prefetch")),
    "smallbatch": ("overhead-bound", "launch", ("larger_batch", "torch_compile", "cuda_graph")),
    "h2d_copy": (None, "copy", ("pinned_copies",)),
    # "Look for CPU work inside the training loop, or a synchronization point."
    "unattributed": ("overhead-bound", None, ()),
}


def gpu_idle(trace: Path) -> Answer:
    """Its findings; the first one counts. Without findings, it says that the GPU is kept fed."""
    with tempfile.TemporaryDirectory() as folder:
        if trace.suffix == ".gz":
            plain = Path(folder) / trace.stem
            plain.write_bytes(gzip.decompress(trace.read_bytes()))
            trace = plain
        findings = importlib.import_module("analyzer").analyze(trace)["findings"]
    if not findings:
        return Answer(regime="compute-bound", changes=())
    first = findings[0]
    regime, cause, changes = _CAUSES[first["cause"]]
    return Answer(
        regime=regime,
        cause=cause,
        changes=tuple(name for each in findings for name in _CAUSES[each["cause"]][2]) or None,
        alternatives=len(changes),
        confidence=("low", "medium", "high", "high")[int(first["confidence"] * 3)],
    )


Tool = Callable[[Path], Answer]
# A peer that is not in the current environment has a folder of its name.
TOOLS: dict[str, Tool] = {
    "tracekit": tracekit_,
    "HolisticTraceAnalysis": holistic_trace_analysis,
    "traceinsight": holistic_trace_analysis,
    "gpu-idle": gpu_idle,
}

# A tool that takes longer for a trace has not answered.
LIMIT_S = 120


def _ask(name: str, trace: Path) -> Answer:
    def late(*_: object) -> None:
        raise TimeoutError(f"took longer than {LIMIT_S} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        return TOOLS[name](trace)
    except Exception as error:
        return Answer(error=f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    finally:
        signal.alarm(0)


def answers(name: str, subjects: list[tuple[Case, Path]]) -> dict[str, Answer]:
    """A tool's answers by the names of cases."""
    # A fresh interpreter for each: the peers' modules have equal names.
    context = multiprocessing.get_context("spawn")
    workers = min(os.cpu_count() or 1, 4)
    path = (0, str(PEERS / name))
    with ProcessPoolExecutor(workers, context, initializer=sys.path.insert, initargs=path) as pool:
        said = pool.map(partial(_ask, name), [path for _, path in subjects], chunksize=4)
        return {case.name: answer for (case, _), answer in zip(subjects, said, strict=True)}
