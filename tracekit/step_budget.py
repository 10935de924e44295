"""Records a step of a test and holds it to its budget: what the pytest plugin gives a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tracekit.budgets import (
    Broken,
    Figures,
    Places,
    broken,
    changes,
    check_budget,
    counted,
    figures_of,
    file_of,
    name_of,
    places_of,
    read_figures,
    require_no_former,
    write_figures,
)
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    from tracekit.database.session import Session


class OverBudget(AssertionError):
    """A step takes more than its budget allows."""


@dataclass
class StepBudget:
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
        from tracekit.capture.profile import profile
        from tracekit.opening import load

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
        raise OverBudget(self._told(trace, figures, base, found, places))

    def _told(
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
        lines += ["why:", *(f"  {each}" for each in figures.why)]
        lines.append(f"trace: {trace}")
        lines.append(f"report: {_report(trace)}")
        return "\n".join(lines)


def _report(trace: Path) -> str:
    """Writes the trace's page; returns its path, or why there is none."""
    from tracekit.opening import load

    page = trace.with_name(trace.name.removesuffix(".json.gz") + ".html")
    try:
        from tracekit.reporters.html import reports

        with load(trace) as database:
            reports.write_any(database, page)
    except ImportError:
        return "none: pip install 'tracekit[report]'"
    except TracekitError as error:
        return f"none: {error}"
    return str(page)
