"""Budgets for a step of the user's program: how many operators, launches and waits it may take.

The pytest plugin records the step of a test. Its figures are checked against its budget, and
against the figures that are stored for it in a small file beside its test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from tracekit.budgets.figures import (
    COUNTS,
    Figures,
    Places,
    figures_of,
    file_of,
    is_number,
    name_of,
    places_of,
    read_figures,
    require_no_former,
    write_figures,
)
from tracekit.capture.profile import profile
from tracekit.errors import TracekitError
from tracekit.opening import load
from tracekit.text import duration, printable
from tracekit.verdict.regime import REGIMES

if TYPE_CHECKING:
    from tracekit.database.session import Session

# Figures are the mean of several steps, which may differ.
_SLACK = 0.001
_MOST_CHANGES = 12
_OTHER = ("kernels_by_class", "regime", "host_share", "time", "graph_breaks")


class Broken(NamedTuple):
    """A figure that is over its budget, or that cannot be known."""

    figure: str
    message: str


def check_budget(budget: Mapping[str, Any]) -> None:
    """Checks that a budget names known figures, with values that make sense.

    Raises:
        TracekitError: some name or value does not; the message says which.
    """
    for name, value in budget.items():
        if name not in COUNTS and name not in _OTHER:
            known = ", ".join((*COUNTS, *_OTHER))
            raise TracekitError(f"{name!r} is not a figure of a budget; the figures are {known}")
        if name == "regime":
            is_sound = value in REGIMES.values()
        elif name == "kernels_by_class":
            is_sound = isinstance(value, Mapping) and all(map(is_number, value.values()))
        else:
            is_sound = is_number(value)
        if not is_sound:
            raise TracekitError(f"the budget {name}={value!r} is not one that can be held")


def broken(figures: Figures, budget: Mapping[str, Any], base: Figures | None) -> list[Broken]:
    """The figures that are over the budget; without a budget, over the counts of `base`."""
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
        # Each break makes one more region of a compiled function.
        limits = {name: (max(0.0, figures.counts["compiled_regions"] - 1), allowed)}
    of = "of the window" if name == "host_share" else "a step"
    for each, (found, most) in limits.items():
        if found is None:
            yield f"{each} cannot be known: the trace has no work of a device"
        elif found > most + _SLACK:
            yield f"{each}: {found:,g} {of}, budget {most:,g}"


def _time(allowed: float, figures: Figures, base: Figures | None) -> Iterator[str]:
    if base is None or base.step_ns is None:
        yield "time has nothing to compare with: store it with --tracekit-update"
    elif figures.step_ns is None:
        yield "time cannot be known: no step was timed without the profiler"
    elif base.device == figures.device and figures.step_ns > allowed * base.step_ns:
        yield (
            f"time: {duration(figures.step_ns)} a step, {figures.step_ns / base.step_ns:.2f} times "
            f"the stored {duration(base.step_ns)}, budget {allowed:g} times"
        )


def changes(figures: Figures, base: Figures, listed: Collection[str] = ()) -> list[str]:
    """What runs more often or less often than in the stored figures, the largest change first; but
    not of figures that are `listed` already."""
    found = []
    for figure in COUNTS:
        if figure in ("copied_bytes", *listed) or figure not in figures.counts:
            continue
        now, then = figures.names.get(figure, {}), base.names.get(figure, {})
        for name in now.keys() | then.keys():
            change = now.get(name, 0) - then.get(name, 0)
            if abs(change) > _SLACK:
                told = f"{change:+,g} {printable(name)} ({figure}: {then.get(name, 0):,g} before)"
                found.append((-abs(change), figure, told))
    more = len(found) - _MOST_CHANGES
    largest = [told for _, _, told in sorted(found)[:_MOST_CHANGES]]
    return largest + ([f"and {more:,} more"] if more > 0 else [])


def counted(figure: str, figures: Figures, base: Figures | None, places: Places) -> Iterator[str]:
    """What a figure counted, a line for each name: how often now and before, and from where."""
    figure = {"kernels_by_class": "kernels", "graph_breaks": "compiled_regions"}.get(figure, figure)
    now = figures.names.get(figure, {}) if figure in COUNTS else {}
    then = base.names.get(figure, {}) if base is not None else {}
    grown = sorted(now, key=lambda name: (then.get(name, 0) - now[name], name))
    for name in (grown if base is not None else list(now))[:_MOST_CHANGES]:
        before = f" ({then.get(name, 0):,g} before)" if base is not None else ""
        sites = list(places.get((figure, name), {}))
        where = f", from {printable(sites[0])}" if sites else ""
        more = f" and {len(sites) - 1:,} other places" if len(sites) > 1 else ""
        yield f"{now[name]:>6,g} {printable(name)}{before}{where}{more}"
    if len(now) > _MOST_CHANGES:
        yield f"and {len(now) - _MOST_CHANGES:,} other names"


class OverBudget(AssertionError):
    """A step takes more than its budget allows."""


class StepBudget(Struct):
    """What the fixture `tracekit_profile` gives a test: call it with the step."""

    test: str
    """The test's id."""
    folder: Path
    """The folder of the test's file."""
    leave: Path
    """Where the traces of steps that are over their budgets are left."""
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

        With `stacks`, the report tells the lines of Python too, and the profiler costs more.

        Raises:
            OverBudget: when the step is over its budget; the message says by how much, what changed
                and where its trace is.
            TracekitError: when the budget names an unknown figure, the step cannot be recorded, or
                the stored figures cannot be read.
        """
        __tracebackhide__ = True
        check_budget(self.budget)
        base_file = file_of(self.test, self.folder)
        base = read_figures(base_file)
        if base is None and not self.update and (not self.budget or "time" in self.budget):
            require_no_former(self.test, self.folder)
        self.leave.mkdir(parents=True, exist_ok=True)
        trace = self.leave / f"{name_of(self.test)}.json.gz"

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
        found = broken(figures, self.budget, base)
        if not found:
            trace.unlink()
            return figures
        if stacks:
            with load(trace) as database:
                places = places_of(database)
        else:
            # Recording lines of Python would slow the steps that are judged: record one more.
            with TemporaryDirectory() as folder:
                again = Path(folder) / "step.json.gz"
                try:
                    with recorded(again, 1, 1, True) as database:
                        places = places_of(database)
                except Exception as error:
                    places = {}
                    print(f"the lines of Python are not known: one more step failed: {error}")
        raise OverBudget(self._report(trace, figures, base, found, places))

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
            lines += [f"    {line}" for line in counted(each.figure, figures, base, places)]
        listed = {each.figure for each in found}
        if base is not None and (changed := changes(figures, base, listed)):
            lines += ["also changed since the figures were stored, per step:"]
            lines += [f"  {each}" for each in changed]
        lines += ["why:", *(f"  {each}" for each in figures.why), f"trace: {trace}"]
        return "\n".join([*lines, f"report: {_page(trace)}"])


def _page(trace: Path) -> str:
    """Writes the trace's page; returns its path, or why there is none."""
    from tracekit.reporters.notebook import page_of

    page = trace.with_name(trace.name.removesuffix(".json.gz") + ".html")
    try:
        with load(trace) as database:
            page_of(database, page, None, None, None)
    except TracekitError as error:
        return f"none: {error}"
    return str(page)
