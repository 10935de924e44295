"""Times and captures a workload family over a grid of sizes, into one database.

Facts outside a point's events (times without the profiler, why a variant did not run) go into the
trace's metadata, so that the database is self-contained: queries/sweep/sweep_points.sql.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from tracekit.capture.recorder import import_torch
from tracekit.capture.workload import (
    CannotRun,
    Options,
    Runnable,
    WrongAnswer,
    find_device,
    parameters_of,
    prepare,
    record,
)
from tracekit.errors import TracekitError, first_line
from tracekit.experiments.points import AXES, Size, Sweep, compare, point_of
from tracekit.experiments.timing import ROUNDS, Rounds, StepFailed, interleaved
from tracekit.files import require_writable, temporary_folder
from tracekit.opening import load, open_database
from tracekit.workloads import WORKLOADS

if TYPE_CHECKING:
    import torch


def variants_of(target: str, chosen: Sequence[str] = ()) -> list[str]:
    """The workloads that `target` names: one workload, or a family (`mlp` is all `mlp-*`).

    `chosen` selects some variants of the family.

    Raises:
        TracekitError: when the workload, family or variant does not exist.
    """
    family = [name for name in WORKLOADS if name.startswith(f"{target}-")]
    family = [target] if target in WORKLOADS else family
    if not family:
        variants = ", ".join(WORKLOADS)
        raise TracekitError(
            f"there is no workload named {target!r}: use mlp for all mlp-*, or {variants}"
        )
    names = []
    for variant in chosen:
        name = variant if variant in family else f"{target}-{variant}"
        if name not in family:
            variants = ", ".join(family)
            raise TracekitError(f"{target} has no variant {variant!r}: it has {variants}")
        names.append(name)
    return list(dict.fromkeys(names)) or family


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
    on_start: Callable[[int], object] = str,
    on_done: Callable[[int], object] = str,
    say: Callable[[str], object] = str,
) -> Sweep:
    """Times and captures each variant at each size, unless `output` has it already.

    `axes` gives values for some of AXES; `options` gives everything else. The variants of one size
    take turns in `rounds`. Each finished size is added to the database at once, so the same call
    resumes an interrupted sweep. A variant that cannot run becomes a point with the reason.
    Speed-ups refer to `baseline`, by default the first variant.

    Raises:
        TracekitError: when the workload, size or device does not exist, torch is missing, the
            database cannot be read or written, or the device stops working.
    """
    names = variants_of(target, variants)
    first = variants_of(target, [baseline])[0] if baseline else names[0]
    if first not in names:
        raise TracekitError(f"the baseline {first} is not one of the variants: {', '.join(names)}")
    shapes = _shapes(names, axes or {}, options or Options())
    if rounds < 1:
        raise TracekitError("a sweep needs at least one round")
    require_writable(output)
    job = _Job(Path(output), find_device(shapes[0].device), first, rounds, retry, say)
    work = job.work(names, shapes)
    captured = sum(len(lacking) for _, lacking in work)
    on_start(captured)
    for shape, lacking in work:
        if lacking:
            job.run_shape(shape, lacking)
            on_done(len(lacking))
    wanted = [job.key(name, shape) for shape in shapes for name in names]
    with open_database(output) as database:
        rows = {_key_of(row): row for row in database.ask("sweep_points", baseline=first)}
        points = [point_of(database, rows[key]) for key in wanted]
    compared = compare(points, first)
    return Sweep(str(output), job.device_name, first, names, captured, points, compared)


def _shapes(
    names: list[str], axes: Mapping[str, Sequence[Size]], options: Options
) -> list[Options]:
    """The positions in the grid, each as the options to run with."""
    for axis, values in axes.items():
        without = [name for name in names if axis not in (*WORKLOADS[name].sizes, "dtype")]
        if without and values:
            raise TracekitError(f"{without[0]} does not have the size {axis!r}")
    given = {axis: dict.fromkeys(axes[axis]) for axis in AXES if axes.get(axis)}
    places: list[dict[str, Any]] = [
        dict(zip(given, values, strict=True)) for values in product(*given.values())
    ]
    return [replace(options, **place) for place in places]


Key = tuple[Size | None, ...]
_KEY = ("workload", "device", *AXES, "activation")


def _key_of(row: Mapping[str, Any]) -> Key:
    return tuple(row[name] for name in _KEY)


class _Job(Struct):
    """Runs the points that the database `output` lacks."""

    output: Path
    device: torch.device
    baseline: str
    rounds: int
    retry: bool
    say: Callable[[str], object]

    @property
    def device_name(self) -> str:
        return import_torch().cuda.get_device_name() if self.device.type == "cuda" else "CPU"

    def key(self, name: str, shape: Options) -> Key:
        """The columns that identify a point in the database."""
        sizes = parameters_of(name, shape, self.device)
        return _key_of(dict.fromkeys(_KEY) | sizes | {"workload": name, "device": self.device_name})

    def work(self, names: list[str], shapes: list[Options]) -> list[tuple[Options, list[str]]]:
        """The points that are missing, shape by shape."""
        done: set[Key] = set()
        if self.output.exists():
            with open_database(self.output) as database:
                rows = database.ask("sweep_points")
            done = {_key_of(row) for row in rows if not (self.retry and row["reason"])}
        return [(shape, [n for n in names if self.key(n, shape) not in done]) for shape in shapes]

    def run_shape(self, shape: Options, names: list[str]) -> None:
        """Times the missing variants and the baseline, and adds their traces to the database."""
        import_torch()
        from tracekit.experiments.slowing import forget_compiled

        forget_compiled()
        points: dict[str, Runnable | CannotRun] = {}
        for name in dict.fromkeys([self.baseline, *names]):
            self._at(name, shape, "building")
            points[name] = self._prepared(name, shape)
        self._at(", ".join(names), shape, "timing")
        timed = self._timed(points)
        rounds = [{"workload": name} | to_builtins(each) for name, each in timed.items()]
        sweep = self._facts(rounds=rounds)
        with temporary_folder() as folder:
            paths = []
            for name in names:
                self._at(name, shape, "capturing")
                paths.append(folder / f"{name}.json.gz")
                point = points[name]
                if isinstance(point, Runnable):
                    facts = {"unprofiled_step_ns": timed[name].median_ns, "sweep": sweep}
                    try:
                        record(point, paths[-1], shape, facts)
                        continue
                    except TracekitError as error:
                        self._check_device(name)
                        point = CannotRun(name, str(error).removeprefix(f"{name}: "))
                self._note(point, name, shape, paths[-1])
            load(paths, self.output, append=True).close()

    def _prepared(self, name: str, shape: Options) -> Runnable | CannotRun:
        try:
            prepared = prepare(name, shape)
        except CannotRun as error:
            self._check_device(name)
            return error
        if note := prepared.facts.get("note"):
            # Another variant runs instead, and its time would not be this variant's.
            return CannotRun(name, re.split(r": | \(", note)[0])
        return prepared

    def _timed(self, points: dict[str, Runnable | CannotRun]) -> dict[str, Rounds]:
        """The rounds of all variants that can run; those that fail are marked."""

        def mark(error: StepFailed) -> None:
            self._check_device(error.name)
            points[error.name] = CannotRun(error.name, error.reason)

        steps = {name: each.step for name, each in points.items() if isinstance(each, Runnable)}
        return interleaved(steps, self.device, self.rounds, mark)

    def _facts(self, **more: object) -> dict[str, Any]:
        return {"device": self.device_name, "baseline": self.baseline, **more}

    def _note(self, error: CannotRun, name: str, shape: Options, output: Path) -> None:
        """Writes a trace without events whose metadata says why the variant did not run."""
        sweep = self._facts(reason=error.reason, is_wrong=isinstance(error, WrongAnswer))
        parameters = parameters_of(name, shape, self.device)
        facts = {"workload": name, "parameters": parameters, "sweep": sweep}
        with gzip.open(output, "wt", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "tracekit": facts, "traceEvents": []}, file)

    def _check_device(self, name: str) -> None:
        """Ends the sweep if an error broke the device: every later point would fail, too."""
        if self.device.type != "cuda":
            return
        try:
            import_torch().cuda.synchronize()
        except Exception as error:
            raise TracekitError(
                f"{name}: the device stopped working: {first_line(error)}; {self.output} keeps the "
                "finished points: run the same command again to continue"
            ) from error

    def _at(self, name: str, shape: Options, what: str) -> None:
        sizes = [f"{axis} {value}" for axis in AXES if (value := getattr(shape, axis))]
        self.say(f"{what} {name}: {', '.join(sizes)}")
