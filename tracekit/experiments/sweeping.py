"""One workload family over a grid of sizes: timed, captured once each, in one database.

What a point's trace cannot hold (times without the profiler, why a variant did not run) goes into
its metadata, so that the database alone answers: queries/sweep/sweep_points.sql.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tracekit.capture import (
    CannotRun,
    Options,
    Runnable,
    WrongAnswer,
    find_device,
    import_torch,
    parameters_of,
    prepare,
    record,
)
from tracekit.database import Database, open_database
from tracekit.errors import TracekitError, first_line
from tracekit.experiments.timing import ROUNDS, Rounds, StepFailed, interleaved
from tracekit.files import require_writable
from tracekit.loading import load
from tracekit.workloads import WORKLOADS

if TYPE_CHECKING:
    import torch

SCHEMA = "tracekit/sweep/1"

# What a grid may vary, from the outermost to the innermost; the fields of `Options` of that name.
AXES = ("dtype", "batch", "seq", "dim", "hidden")

Size = int | str


class Progress(Protocol):
    """Is told how far a sweep is."""

    def start(self, points: int) -> object:
        """So many points are to be run."""

    def at(self, what: str) -> object:
        """What is being done."""

    def done(self, points: int) -> object:
        """So many more points are in the database."""


@dataclass(frozen=True)
class Gains:
    """What its trace, replayed, says that halves of work would gain: fractions of its length."""

    host: float
    device: float
    cuda_graph: float


@dataclass(frozen=True)
class Point:
    """A workload at one size: a row of the query `sweep_points`, and the verdict on its trace.

    `share_busy` is of its GPU-active span, as the verdict is. Without a GPU there are no gains, and
    `share_compute`, of the profiler's steps, is what operators take that compute.
    """

    trace_id: int
    workload: str
    variant: str | None
    device: str
    batch: int | None
    seq: int | None
    dim: int | None
    hidden: int | None
    dtype: str
    activation: str | None
    reason: str | None
    is_wrong: bool
    step_ns: int | None
    spread: float | None
    rows_per_s: float | None
    host_ns: int | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    profiled_step_ns: int | None
    dilation: float | None
    operators: float | None
    launches: float | None
    kernels: float | None
    kernel_ns: int | None
    traffic_bytes: int | None
    traffic_bytes_per_s: float | None
    regime: str | None = None
    bottleneck: str | None = None
    share_busy: float | None = None
    share_compute: float | None = None
    gains: Gains | None = None

    @property
    def size(self) -> tuple[Size | None, ...]:
        """Where in the grid it is: a value for each of AXES."""
        return tuple(getattr(self, axis) for axis in AXES)


@dataclass(frozen=True)
class Shape:
    """A place of the grid: what bounds the baseline there, and what is fastest.

    That is the baseline itself, unless three quarters of another's rounds were faster. `speedup` is
    over the baseline; None where that was not in the same rounds.
    """

    dtype: str
    batch: int | None
    seq: int | None
    dim: int | None
    hidden: int | None
    regime: str | None
    fastest: str | None
    speedup: float | None


@dataclass(frozen=True)
class Sweep:
    """The points that were asked for, in the grid's order, shape by shape."""

    database: str
    device: str
    baseline: str
    variants: list[str]
    captured: int
    """Points that were run now; the others were in the database."""
    points: list[Point]
    shapes: list[Shape]

    @property
    def is_right(self) -> bool:
        """Whether no variant gives a wrong answer."""
        return not any(point.is_wrong for point in self.points)

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {"schema": SCHEMA} | asdict(self)


def variants_of(target: str, chosen: Sequence[str] = ()) -> list[str]:
    """The workloads meant: one by its name, or a family (`mlp` is all `mlp-*`), or some of it.

    Raises:
        TracekitError: when there is no such workload, family or variant.
    """
    family = [name for name in WORKLOADS if name.startswith(f"{target}-")]
    family = [target] if target in WORKLOADS else family
    if not family:
        known = ", ".join(WORKLOADS)
        raise TracekitError(f"no workload is named {target!r}: use mlp for all mlp-*, or {known}")
    found = []
    for each in chosen:
        name = each if each in family else f"{target}-{each}"
        if name not in family:
            known = ", ".join(family)
            raise TracekitError(f"{target} has no variant {each!r}: it has {known}")
        found.append(name)
    return list(dict.fromkeys(found)) or family


def sweep(
    target: str,
    output: str | Path,
    axes: Mapping[str, Sequence[Size]] | None = None,
    *,
    variants: Sequence[str] = (),
    baseline: str | None = None,
    options: Options | None = None,
    rounds: int = ROUNDS,
    retry: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Times and captures each variant at each size, unless `output` has it already.

    `axes` gives the values of some of AXES; `options` all else. Variants of one size take turns in
    `rounds`. Each finished size is added to the database at once, so that the same call goes on
    where another was interrupted. A variant that cannot run is a point with the reason. Speed-ups
    are over `baseline`, the first variant unless given.

    Raises:
        TracekitError: when there is no such workload, size or device, torch is missing, the
            database cannot be read or written, or the device fails for good.
    """
    names = variants_of(target, variants)
    first = variants_of(target, [baseline])[0] if baseline else names[0]
    if first not in names:
        raise TracekitError(f"the baseline {first} is none of the variants: {', '.join(names)}")
    shapes = _shapes(names, axes or {}, options or Options())
    if rounds < 1:
        raise TracekitError("a sweep needs at least one round")
    require_writable(output)
    job = _Job(Path(output), find_device(shapes[0].device), first, rounds, retry, progress)
    captured = job.run(names, shapes)
    wanted = [job.key(name, shape) for shape in shapes for name in names]
    with open_database(output) as database:
        rows = {_key_of(row): row for row in database.ask("sweep_points", baseline=first)}
        found = [point_of(database, rows[key]) for key in wanted]
    compared = compare(found, first)
    return Sweep(str(output), job.device_name, first, names, captured, found, compared)


def compare(points: Sequence[Point], baseline: str) -> list[Shape]:
    """What is fastest at each size, in the points' order."""
    sizes: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        sizes.setdefault(point.size, []).append(point)
    found = []
    for size, here in sizes.items():
        base = next((point for point in here if point.workload == baseline), None)
        ran = sorted((point for point in here if point.step_ns), key=lambda p: p.step_ns or 0)
        if base in ran and all(point.speedup is not None for point in ran):
            clear = [point for point in ran if (point.speedup_low or 0) > 1]
            ran = [max(clear, key=lambda p: p.speedup or 0)] if clear else [base]
        fastest, speedup = (ran[0].workload, ran[0].speedup) if ran else (None, None)
        regime = base.regime if base else None
        place: dict[str, Any] = dict(zip(AXES, size, strict=True))
        found.append(Shape(**place, regime=regime, fastest=fastest, speedup=speedup))
    return found


def _shapes(
    names: list[str], axes: Mapping[str, Sequence[Size]], options: Options
) -> list[Options]:
    """The grid, each of its places as the options to run with."""
    for axis, values in axes.items():
        without = [name for name in names if axis not in (*WORKLOADS[name].sizes, "dtype")]
        if without and values:
            raise TracekitError(f"{without[0]} has no size {axis!r}")
    given = {axis: dict.fromkeys(axes[axis]) for axis in AXES if axes.get(axis)}
    places: list[dict[str, Any]] = [
        dict(zip(given, values, strict=True)) for values in product(*given.values())
    ]
    return [replace(options, **place) for place in places]


def point_of(database: Database, row: Mapping[str, Any]) -> Point:
    """A row of `sweep_points` with the verdict on its trace."""
    known = {each.name for each in fields(Point)}
    point = Point(**{name: value for name, value in row.items() if name in known})
    if point.reason is not None:
        return point
    found = database.verdict(point.trace_id)
    span_ns, host = found.window.span_ns, found.host
    gains = found.causal.gains if found.causal else None
    return replace(
        point,
        regime=found.verdict.regime,
        bottleneck=found.verdict.bottleneck,
        share_busy=found.gpu.busy_ns / span_ns if found.gpu and span_ns else None,
        share_compute=host.compute_ns / span_ns if host and span_ns else None,
        gains=Gains(gains.host, gains.device, gains.cuda_graph) if gains else None,
    )


Key = tuple[Size | None, ...]
_KEY = ("workload", "device", *AXES, "activation")


def _key_of(row: Mapping[str, Any]) -> Key:
    return tuple(row[name] for name in _KEY)


@dataclass
class _Job:
    """Runs what the database `output` lacks."""

    output: Path
    device: torch.device
    baseline: str
    rounds: int
    retry: bool
    progress: Progress | None

    @property
    def device_name(self) -> str:
        return import_torch().cuda.get_device_name() if self.device.type == "cuda" else "CPU"

    def key(self, name: str, shape: Options) -> Key:
        """What tells a point from others, as the database does."""
        sizes = parameters_of(name, shape, self.device)
        return _key_of(dict.fromkeys(_KEY) | sizes | {"workload": name, "device": self.device_name})

    def run(self, names: list[str], shapes: list[Options]) -> int:
        """Runs the missing points, shape by shape; returns how many there were."""
        done: set[Key] = set()
        if self.output.exists():
            with open_database(self.output) as database:
                rows = database.ask("sweep_points")
            done = {_key_of(row) for row in rows if not (self.retry and row["reason"])}
        work = [(shape, [n for n in names if self.key(n, shape) not in done]) for shape in shapes]
        missing = sum(len(lacking) for _, lacking in work)
        if self.progress:
            self.progress.start(missing)
        for shape, lacking in work:
            if lacking:
                self._run_shape(shape, lacking)
                if self.progress:
                    self.progress.done(len(lacking))
        return missing

    def _run_shape(self, shape: Options, names: list[str]) -> None:
        """Times what is missing, beside the baseline, captures it, and adds it to the database."""
        if "torch._dynamo" in sys.modules:
            # It gives up on a function that it has compiled for many shapes.
            import_torch().compiler.reset()
        points: dict[str, Runnable | CannotRun] = {}
        for name in dict.fromkeys([self.baseline, *names]):
            self._at(name, shape, "builds")
            points[name] = self._prepared(name, shape)
        self._at(", ".join(names), shape, "are timed")
        timed = self._timed(points)
        rounds = [{"workload": name} | asdict(each) for name, each in timed.items()]
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name in names:
                self._at(name, shape, "is captured")
                paths.append(Path(folder) / f"{name}.json.gz")
                point = points[name]
                if isinstance(point, Runnable):
                    point = self._captured(point, shape, paths[-1], timed[name], rounds)
                if isinstance(point, CannotRun):
                    self._note(point, name, shape, paths[-1])
            load(paths, self.output, append=True).close()

    def _prepared(self, name: str, shape: Options) -> Runnable | CannotRun:
        try:
            found = prepare(name, shape)
        except CannotRun as error:
            self._check_device(name)
            return error
        if note := found.facts.get("note"):
            # Something else runs in its place: that is no figure of this variant.
            return CannotRun(name, re.split(r": | \(", note)[0])
        return found

    def _timed(self, points: dict[str, Runnable | CannotRun]) -> dict[str, Rounds]:
        """The rounds of all that run; what fails in them cannot run, and the others start over."""
        while True:
            steps = {name: each.step for name, each in points.items() if isinstance(each, Runnable)}
            try:
                return interleaved(steps, self.device, self.rounds)
            except StepFailed as error:
                self._check_device(error.name)
                points[error.name] = CannotRun(error.name, error.reason)

    def _captured(
        self,
        point: Runnable,
        shape: Options,
        output: Path,
        timed: Rounds,
        rounds: list[dict[str, Any]],
    ) -> Runnable | CannotRun:
        facts = {
            "unprofiled_step_ns": timed.median_ns,
            "sweep": {"device": self.device_name, "baseline": self.baseline, "rounds": rounds},
        }
        try:
            record(point, output, shape, facts)
        except TracekitError as error:
            self._check_device(point.target)
            return CannotRun(point.target, str(error).removeprefix(f"{point.target}: "))
        return point

    def _note(self, error: CannotRun, name: str, shape: Options, output: Path) -> None:
        """A trace without events that says why there are none."""
        sweep = {
            "device": self.device_name,
            "baseline": self.baseline,
            "reason": error.reason,
            "is_wrong": isinstance(error, WrongAnswer),
        }
        parameters = parameters_of(name, shape, self.device)
        facts = {"workload": name, "parameters": parameters, "sweep": sweep}
        with gzip.open(output, "wt", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "tracekit": facts, "traceEvents": []}, file)

    def _check_device(self, name: str) -> None:
        """Ends the sweep where an error left the device useless: all that follows would fail."""
        if self.device.type != "cuda":
            return
        try:
            import_torch().cuda.synchronize()
        except Exception as error:
            raise TracekitError(
                f"{name}: the device takes no more work: {first_line(error)}; what is finished is "
                f"in {self.output}: call again to go on"
            ) from error

    def _at(self, name: str, shape: Options, what: str) -> None:
        if self.progress:
            sizes = [f"{axis} {value}" for axis in AXES if (value := getattr(shape, axis))]
            self.progress.at(f"{name} {what}: {', '.join(sizes)}")
