"""Budgets for a step of the user's program: limits on its operators, launches and waits.

The pytest plugin records a test's step. Its figures are checked against the test's budget, or
against the figures stored in a small file next to the test.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field, to_builtins

from tracekit.capture.profile import profile
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.files import require_unlinked, temporary_folder, written_whole
from tracekit.opening import load
from tracekit.records import parsed, record
from tracekit.text import counted, duration, printable
from tracekit.verdict.regime import REGIMES
from tracekit.verdicts import verdicts

# The counts in the query step_counts, and whether each needs a device.
COUNTS = {
    "operators": False,
    "launches": True,
    "synchronizations": True,
    "allocations": True,
    "copied_bytes": True,
    "kernels": True,
    "compiled_regions": False,
}
_MOST_NAMES = 200
_SCHEMA = "tracekit/step/1"
# Most file systems limit names to 255 bytes.
_SHOWN_CHARACTERS = 150
_FOLDER = "tracekit_baselines"
# Figures are means over several steps, which may differ.
_SLACK = 0.001
_MOST_CHANGES = 12
_OTHER = ("kernels_by_class", "regime", "host_share", "time", "graph_breaks")


class OverBudget(AssertionError):
    """A step exceeds its budget."""


class StepBudget(Struct):
    """The value of the fixture `tracekit_profile`: call it with the step."""

    test: str
    """The test's id."""
    folder: Path
    """The folder of the test's file."""
    leave: Path
    """The folder for traces of steps that exceed their budgets."""
    budget: Mapping[str, Any]
    update: bool

    def __call__(
        self,
        step: Callable[[], object],
        *,
        steps: int = 3,
        warmup: int = 3,
        shapes: bool = True,
        stacks: bool = False,
    ) -> Figures:
        """Runs the step `warmup` + 1 + `steps` times under torch.profiler, and returns its figures.

        With `stacks`, the report also shows Python lines, at a higher profiler cost.

        Raises:
            OverBudget: when the step exceeds its budget; the message says by how much, what
            changed,
                and where the trace is.
            TracekitError: when the budget names an unknown figure, the step cannot be recorded, or
                the stored figures cannot be read.
        """
        __tracebackhide__ = True
        check_budget(self.budget)
        base_file = file_of(self.test, self.folder)
        base = read_figures(base_file)
        trace = self.leave / f"{name_of(self.test)}.json.gz"
        require_unlinked(trace, self.leave.parent)
        self.leave.mkdir(parents=True, exist_ok=True)

        def recorded(trace: Path, steps: int, warmup: int, stacks: bool) -> Session:
            with profile(trace, steps, warmup=warmup, shapes=shapes, stacks=stacks) as run:
                for _ in range(warmup + 1 + steps):
                    step()
                    run.step()
            return load(trace)

        with recorded(trace, steps, warmup, stacks) as database:
            figures = figures_of(database)
        if self.update:
            write_figures(base_file, figures)
            return figures
        if not self.budget and base is None:
            raise OverBudget(
                f"no figures are stored for this step in {base_file}: store them with "
                "`pytest --tracekit-update`, or give the mark a budget"
            )
        excesses = broken(figures, self.budget, base)
        if not excesses:
            trace.unlink()
            return figures
        with temporary_folder() as folder:
            again = folder / "step.json.gz"
            try:
                # Recording Python lines would slow the judged steps, so this records an extra one.
                with load(trace) if stacks else recorded(again, 1, 1, True) as database:
                    places = places_of(database)
            except Exception as error:
                places = {}
                print(f"Python lines are unknown: recording an extra step failed: {error}")
        raise OverBudget(self._report(trace, figures, base, excesses, places))

    def _report(
        self,
        trace: Path,
        figures: Figures,
        base: Figures | None,
        found: list[Broken],
        places: Places,
    ) -> str:
        lines = ["the step is over its budget"]
        for each in found:
            lines.append(f"  {each.message}")
            lines += [f"    {line}" for line in tallied(each.figure, figures, base, places)]
        listed = {each.figure for each in found}
        if base is not None and (changed := changes(figures, base, listed)):
            lines += ["also changed since the figures were stored, per step:"]
            lines += [f"  {each}" for each in changed]
        lines += ["why:", *(f"  {each}" for each in figures.why), f"trace: {trace}"]
        return "\n".join([*lines, f"report: {_page(trace)}"])


def _page(trace: Path) -> str:
    """Writes the trace's page; returns its path, or why it was not written."""
    from tracekit.reporters.notebook import page_of
    from tracekit.trace.paths import stem

    page = trace.with_name(stem(trace.name) + ".html")
    try:
        require_unlinked(page, page.parent)
        with load(trace) as database:
            page_of(database, page, None, None)
    except TracekitError as error:
        return f"none: {error}"
    return str(page)


class Broken(NamedTuple):
    """A figure that exceeds its budget or cannot be measured."""

    figure: str
    message: str


def check_budget(budget: Mapping[str, Any]) -> None:
    """Checks that a budget's figures are known and its values make sense.

    Raises:
        TracekitError: when a name or value is wrong; the message says which.
    """
    for name, value in budget.items():
        if name not in COUNTS and name not in _OTHER:
            names = ", ".join((*COUNTS, *_OTHER))
            raise TracekitError(f"{name!r} is not a figure of a budget; the figures are {names}")
        if name == "regime":
            is_sound = value in REGIMES.values()
        elif name == "kernels_by_class":
            is_sound = isinstance(value, Mapping) and all(map(is_number, value.values()))
        else:
            is_sound = is_number(value)
        if not is_sound:
            raise TracekitError(f"{name}={value!r} is not a valid budget")


def broken(figures: Figures, budget: Mapping[str, Any], base: Figures | None) -> list[Broken]:
    """The figures that exceed the budget; without a budget, those that exceed `base`."""
    limits = budget or (base.counts if base else {})
    return [
        Broken(name, message)
        for name, allowed in limits.items()
        for message in _judged(name, allowed, figures, base)
    ]


def _judged(name: str, allowed: Any, figures: Figures, base: Figures | None) -> Iterator[str]:
    if name == "time":
        yield from _time(allowed, figures, base)
        return
    if name == "regime":
        if figures.regime != allowed:
            yield f"regime: {figures.regime}, budget {allowed}"
        return
    value = figures.host_share if name == "host_share" else figures.counts.get(name)
    limits: dict[str, tuple[float | None, float]] = {name: (value, allowed)}
    if name == "kernels_by_class":
        of_class = figures.kernels_by_class if "kernels" in figures.counts else None
        limits = {
            f"{each} kernels": (None if of_class is None else of_class.get(each, 0), most)
            for each, most in allowed.items()
        }
    elif name == "graph_breaks":
        # Each graph break adds one region to a compiled function.
        limits = {name: (max(0.0, figures.counts["compiled_regions"] - 1), allowed)}
    of = "of the window" if name == "host_share" else "a step"
    for figure, (count, most) in limits.items():
        if count is None:
            yield f"{figure} cannot be measured: the trace has no device work"
        elif count > most + _SLACK:
            yield f"{figure}: {count:,g} {of}, budget {most:,g}"


def _time(allowed: float, figures: Figures, base: Figures | None) -> Iterator[str]:
    if base is None or base.step_ns is None:
        yield "there is no stored time to compare with: store one with --tracekit-update"
    elif figures.step_ns is None:
        yield "time cannot be measured: no step was timed without the profiler"
    elif base.device == figures.device and figures.step_ns > allowed * base.step_ns:
        yield (
            f"time: {duration(figures.step_ns)} a step, {figures.step_ns / base.step_ns:.2f} times "
            f"the stored {duration(base.step_ns)}, budget {allowed:g} times"
        )


def changes(figures: Figures, base: Figures, listed: Collection[str] = ()) -> list[str]:
    """Names whose counts differ from the stored figures, largest change first. Skips figures that
    are already `listed`."""
    changed = []
    for figure in COUNTS:
        if figure in ("copied_bytes", *listed) or figure not in figures.counts:
            continue
        now, then = figures.names.get(figure, {}), base.names.get(figure, {})
        for name in now.keys() | then.keys():
            change = now.get(name, 0) - then.get(name, 0)
            if abs(change) > _SLACK:
                line = f"{change:+,g} {printable(name)} ({figure}: {then.get(name, 0):,g} before)"
                changed.append((-abs(change), figure, line))
    more = len(changed) - _MOST_CHANGES
    largest = [line for _, _, line in sorted(changed)[:_MOST_CHANGES]]
    return largest + ([f"and {more:,} more"] if more > 0 else [])


def tallied(figure: str, figures: Figures, base: Figures | None, places: Places) -> Iterator[str]:
    """The names that a figure counts, one per line, with counts now and before and call sites."""
    figure = {"kernels_by_class": "kernels", "graph_breaks": "compiled_regions"}.get(figure, figure)
    now = figures.names.get(figure, {}) if figure in COUNTS else {}
    then = base.names.get(figure, {}) if base is not None else {}
    grown = sorted(now, key=lambda name: (then.get(name, 0) - now[name], name))
    for name in (grown if base is not None else list(now))[:_MOST_CHANGES]:
        before = f" ({then.get(name, 0):,g} before)" if base is not None else ""
        sites = list(places.get((figure, name), {}))
        where = f", from {printable(sites[0])}" if sites else ""
        others = f" and {counted(len(sites) - 1, 'other place')}" if len(sites) > 1 else ""
        yield f"{now[name]:>6,g} {printable(name)}{before}{where}{others}"
    if len(now) > _MOST_CHANGES:
        yield f"and {counted(len(now) - _MOST_CHANGES, 'other name')}"


class Figures(Struct, frozen=True):
    """The figures of a recorded step. Counts are per step; a missing key could not be measured."""

    counts: dict[str, float]
    """The counts, by the figures of the query step_counts."""
    kernels_by_class: dict[str, float]
    names: dict[str, dict[str, float]]
    """How often each operator, call or kernel ran, by figure."""
    regime: str
    """`overhead-bound`, `compute-bound` or `unknown`."""
    host_share: float | None
    """The share of the judged window in which the device waited for the host; None: unknown."""
    step_ns: int | None
    """The median step time without the profiler; None: not timed."""
    device: str
    """The device that it ran on: `step_ns` applies only to that device."""
    why: list[str] = field(default_factory=list)
    """The verdict's sentences."""


def figures_of(database: Session) -> Figures:
    """The figures of the only trace in a database.

    Raises:
        TracekitError: when the database holds several.
    """
    trace_id = database.only(None)
    analysis = verdicts(database, trace_id)[0]
    classes: Counter[str] = Counter()
    names: dict[str, Counter[str]] = {name: Counter() for name in COUNTS}
    for row in database.ask("step_counts", trace=trace_id):
        names[row["figure"]][str(row["name"])] += row["per_step"]
        if row["class"] is not None:
            classes[row["class"]] += row["per_step"]
    has_device = bool(database.ask("overview", trace=trace_id)[0]["gpu_ops"])
    counted_names = [name for name, of_device in COUNTS.items() if has_device or not of_device]
    noted = analysis.trace.capture or {}
    return Figures(
        counts={name: round(names[name].total(), 3) for name in counted_names},
        kernels_by_class={name: round(count, 3) for name, count in sorted(classes.items())},
        names={
            figure: {name: round(count, 3) for name, count in counter.most_common(_MOST_NAMES)}
            for figure, counter in sorted(names.items())
            if counter
        },
        regime=analysis.verdict.regime,
        host_share=analysis.verdict.shares.get("idle_host_late") if has_device else None,
        step_ns=noted.get("unprofiled_step_ns"),
        device=", ".join(analysis.trace.devices) if has_device else platform.processor() or "CPU",
        why=list(analysis.verdict.why),
    )


def is_number(value: object) -> bool:
    """Whether this is a finite number that is valid for a figure."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63


# Counts per line of the operator, call or kernel that the key (a figure and a name) gives.
Places = dict[tuple[str, str], dict[str, float]]


def places_of(database: Session) -> Places:
    """The call sites of everything counted in a database's only trace, most frequent first."""
    places: Places = {}
    for row in database.ask("step_places", trace=database.only(None)):
        if row["place"] is not None:
            by_place = places.setdefault((row["figure"], str(row["name"])), {})
            by_place[row["place"]] = row["per_step"]
    return places


def name_of(test: str) -> str:
    """A file name without extension for the test with this id: unique even on case-insensitive
    file systems."""
    shown = re.sub(r"[^a-z0-9_]+", "-", test.lower()).strip("-")[:_SHOWN_CHARACTERS]
    return f"{shown}-{hashlib.sha256(test.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def file_of(test: str, folder: Path) -> Path:
    """The file of figures for a test whose module is in `folder`, wherever pytest is started."""
    file, _, inside = test.partition("::")
    return folder / _FOLDER / f"{name_of(f'{Path(file).name}::{inside}')}.json"


def read_figures(path: Path) -> Figures | None:
    """The stored figures; None if there is no file.

    Raises:
        TracekitError: when `write_figures` did not write the file.
    """
    try:
        fields = parsed(path.read_text("utf-8"))
        if fields.pop("schema") != _SCHEMA or fields.keys() - set(Figures.__struct_fields__):
            raise ValueError
        figures = record(Figures, fields)
        named = (figures.counts, figures.kernels_by_class, *figures.names.values())
        numbers = [figures.host_share or 0, *(number for each in named for number in each.values())]
        is_timed = figures.step_ns is None or figures.step_ns > 0
        if not (
            all(map(is_number, numbers)) and figures.counts.keys() <= COUNTS.keys() and is_timed
        ):
            raise ValueError
        return figures
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TracekitError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TracekitError(
            f"{path} was not written by --tracekit-update: run that again"
        ) from error


def write_figures(path: Path, figures: Figures) -> None:
    """Stores figures, one per line, in a fixed order."""
    fields = {"schema": _SCHEMA} | to_builtins(figures) | {"why": []}
    require_unlinked(path, path.parents[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", "utf-8")
