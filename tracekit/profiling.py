"""Records the user's own code: a context manager, a decorator, or a script run unchanged.

What `torch.profiler` records (https://docs.pytorch.org/docs/stable/profiler.html), with two steps'
lengths beside it: with the profiler and without.
"""

from __future__ import annotations

import os
import runpy
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ContextDecorator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

from tracekit.capture import compress, import_torch
from tracekit.errors import TracekitError, first_line
from tracekit.files import written_whole

_SCRIPT = "script"


class profile(ContextDecorator):
    """Records a block, or a function that it decorates, and writes a trace or a database.

        with tracekit.profile("run.duckdb", steps=5) as run:
            for batch in loader:
                train(batch)
                run.step()

    `output` ends in .duckdb, .json or .json.gz; in a distributed run each rank writes its own
    (run.rank3.duckdb). With `steps`, as many are recorded, after `warmup` steps that run without
    the profiler and are timed, and one that pays for its start; `step()` ends a step. Without,
    the whole block is. A block that fails writes nothing.

    Raises:
        TracekitError: when PyTorch is missing, the output cannot be written, or fewer steps were
            made than asked for.
    """

    def __init__(
        self,
        output: str | Path,
        steps: int | None = None,
        *,
        warmup: int = 3,
        shapes: bool = True,
        stacks: bool = False,
        memory: bool = False,
    ) -> None:
        if steps is not None and (steps < 1 or warmup < 1):
            raise TracekitError("profile needs at least one step to record and one to warm up")
        if not str(output).endswith((".duckdb", ".json", ".json.gz")):
            raise TracekitError(f"{output}: profile writes .duckdb, .json.gz or .json")
        self.output = Path(output)
        self.steps = steps
        self.warmup = warmup
        self.facts: dict[str, Any] = {}
        self._recorded = {
            "record_shapes": shapes,
            "with_stack": stacks,
            "profile_memory": memory,
        }

    def __enter__(self) -> profile:
        self._torch = import_torch()
        self.path = _of_rank(self.output, self._torch)
        self._writing = written_whole(self.path)
        self._beside = self._writing.__enter__()
        self._folder = tempfile.TemporaryDirectory()
        self._raw = Path(self._folder.name) / "trace.json"
        profiler = self._torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if self._torch.cuda.is_available():
            activities.append(profiler.ProfilerActivity.CUDA)
        schedule = None
        if self.steps is not None:
            schedule = profiler.schedule(wait=self.warmup, warmup=1, active=self.steps, repeat=1)
        self._profiler = profiler.profile(
            activities=activities,
            schedule=schedule,
            on_trace_ready=lambda each: each.export_chrome_trace(str(self._raw)),
            **self._recorded,
        )
        self._done = 0
        self._ends: list[int] = []
        self._profiler.__enter__()
        return self

    def step(self) -> None:
        """Ends a step."""
        if self.steps is None:
            raise TracekitError("say how many steps to record: profile(..., steps=5)")
        self._done += 1
        # What was timed without the profiler, and what it recorded, begins and ends awaited.
        last = self.warmup + 1 + self.steps
        if self._done in (1, self.warmup, self.warmup + 1, last):
            self._synchronize()
        self._ends.append(time.perf_counter_ns())
        self._profiler.step()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._synchronize()
        self._profiler.__exit__(kind, error, trace)
        try:
            if kind is None:
                self._write()
        except BaseException as failure:
            kind, error, trace = type(failure), failure, failure.__traceback__
            raise
        finally:
            self._folder.cleanup()
            self._writing.__exit__(kind, error, trace)

    def _synchronize(self) -> None:
        if self._torch.cuda.is_available():
            self._torch.cuda.synchronize()

    def _write(self) -> None:
        needed = 0 if self.steps is None else self.warmup + 1 + self.steps
        if self._done < needed:
            raise TracekitError(
                f"{self.output}: {self._done} steps were made; {needed} are needed to record "
                f"{self.steps} (warmup={self.warmup}, and one for the profiler's start)"
            )
        self.facts = {"torch": self._torch.__version__, "workload": _SCRIPT} | self._lengths()
        if self.path.suffix != ".duckdb":
            compress(self._raw, self._beside, self.facts)
            return
        from tracekit.loading import load

        packed = self._raw.with_name(self.path.stem + ".json.gz")
        compress(self._raw, packed, self.facts)
        load(packed, self._beside).close()

    def _lengths(self) -> dict[str, Any]:
        """A step's length without the profiler, and with it."""
        if self.steps is None:
            return {}
        plain, first = self._ends[: self.warmup], self.warmup
        recorded = self._ends[first : first + self.steps + 1]
        facts: dict[str, Any] = {"active_steps": self.steps, "warmup_steps": self.warmup}
        facts["profiled_step_ns"] = (recorded[-1] - recorded[0]) // self.steps
        if len(plain) >= 2:
            lengths = [b - a for a, b in pairwise(plain)]
            facts["unprofiled_step_ns"] = int(statistics.mean(lengths))
        return facts


def profile_script(
    script: str, arguments: Sequence[str], output: str | Path, **options: Any
) -> Path:
    """Runs a Python script unchanged, as `python SCRIPT ARGUMENTS` would, and records all of it.

    Returns where the trace went: in a distributed run, each rank's own file.

    Raises:
        TracekitError: when there is no such script, or it fails.
    """
    if not Path(script).is_file():
        raise TracekitError(f"{script}: no such file")
    recording = profile(output, **options)
    before, path = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        with recording:
            _run(script)
    finally:
        sys.argv, sys.path[:] = before, path
    return recording.path


def _run(script: str) -> None:
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise TracekitError(f"{script}: ended with status {ended.code}") from ended
    except TracekitError:
        raise
    except Exception as error:
        raise TracekitError(f"{script}: failed: {first_line(error)}") from error


def _of_rank(output: Path, torch: Any) -> Path:
    """`output`, with the rank before its ending where there are several."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    else:
        rank, world = os.environ.get("RANK", ""), int(os.environ.get("WORLD_SIZE") or 1)
    if world == 1:
        return output
    stem, dot, ending = output.name.partition(".")
    return output.with_name(f"{stem}.rank{rank}{dot}{ending}")
