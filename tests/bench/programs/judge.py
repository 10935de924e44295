"""After the run on a GPU: first screens to be marked, then promises beside what was observed, the
recorder's cost, and units without their marks."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import tracekit
from tests.bench.faults import COLUMNS, Tried, beside, of_list
from tests.bench.measuring import head, line, measured
from tests.bench.programs import JITTED, NAMES
from tests.bench.programs.measure import RECORDINGS, UNMARKED, Measured, recording
from tests.bench.recorder_cost import Recorded, of_capture, spread
from tests.kit.hidden_marks import found_again, hide_marks
from tracekit.experiments.timing import step_ratio
from tracekit.text import duration

MARKS, MARK_COLUMNS = "marks.csv", ("program", "right", "why")
# The errors that promises may have, as shares of what was observed: the median, and nine of ten.
MOST_MEDIAN, MOST_NINTH = 0.10, 0.20
_WORST = 3


def results(folder: Path) -> list[Measured]:
    """What `measure` left in a folder."""
    paths = [folder / f"{name}.json" for name in NAMES if files_of(folder, name)]
    return [Measured.read(path) for path in paths if path.exists()]


def not_recorded(folder: Path) -> Iterator[str]:
    """The programs without recordings, and why."""
    for name in NAMES:
        path = folder / f"{name}.json"
        if not files_of(folder, name):
            why = Measured.read(path).failed if path.exists() else {}
            yield f"- {name} is not recorded: {', '.join(why.values()) or 'it did not end'}"


def files_of(folder: Path, name: str) -> list[Path]:
    """The recordings whose fix lists count: without stacks and with them; of JAX's step, its XPlane
    and its trace JSON."""
    if name == JITTED:
        found = [folder / f"{name}{ending}" for ending in (".xplane.pb", ".trace.json.gz")]
    else:
        found = [recording(folder / name, kind) for kind in ("shapes", "stacks")]
    return found if all(each.exists() for each in found) else []


# -- first screens ---------------------------------------------------------------------------------


def screens(folder: Path) -> Path:
    """Writes the first screen of each program, and the file that takes their marks; keeps marks.

    A mark's `right` is yes, no or partly: whether the screen is right by the raw trace.
    """
    (folder / "screens").mkdir(exist_ok=True)
    kept = marks(folder)
    names = [each.name for each in results(folder)]
    for name in names:
        said = measured("-m", "tracekit", "analyze", files_of(folder, name)[-1]).said
        text = said or "tracekit could not analyze it\n"
        (folder / "screens" / f"{name}.txt").write_text(text, encoding="utf-8")
    with (folder / MARKS).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(MARK_COLUMNS)
        writer.writerows((name, *kept.get(name, ("", ""))) for name in sorted({*names, *kept}))
    return folder / MARKS


def marks(folder: Path) -> dict[str, tuple[str, str]]:
    """Whether each program's screen is right, and why; empty: not marked yet."""
    if not (folder / MARKS).exists():
        return {}
    with (folder / MARKS).open(encoding="utf-8", newline="") as file:
        return {row["program"]: (row["right"], row["why"]) for row in csv.DictReader(file)}


# -- tables ----------------------------------------------------------------------------------------


def table(folder: Path, others: list[Tried], even_unmarked: bool) -> Iterator[str]:
    """All tables. A program counts once its first screen is marked."""
    known = {name: right for name, (right, _) in marks(folder).items() if right}
    yield from not_recorded(folder)
    found = [each for each in results(folder) if even_unmarked or each.name in known]
    left_out = [each.name for each in results(folder) if each not in found]
    if left_out:
        yield f"not marked in {folder / MARKS} yet: {', '.join(left_out)}\n"
    if not found:
        return
    for where in sorted({f"{each.device}, {each.software}" for each in found}):
        rehearsed = ": a rehearsal, no figure here is a GPU's" if where.startswith("cpu,") else ""
        yield f"measured on {where}{rehearsed}\n"
    if known:
        right = sum(each == "yes" for each in known.values())
        yield f"first screens: {right} of {len(known)} right\n"
    yield from changes(folder, found, others)
    yield ""
    yield from recorders(folder, found)
    yield ""
    yield from units(folder, found)


def changes(folder: Path, found: list[Measured], others: list[Tried]) -> Iterator[str]:
    """The saving that the fix list promises for each change, beside the observed one."""
    yield from head(COLUMNS)
    tried = [*others]
    for program in found:
        lists = [of_list(path) for path in files_of(folder, program.name)]
        for switch, change in program.changes.items():
            name = f"{program.name}, {switch}: {change.remedy}"
            if change.before is None or change.after is None:
                yield line(name, change.failed or "not measured", *"-----")
                continue
            observed = 1 - step_ratio(change.before, change.after).ratio / change.samples
            faulty_us = median(change.before.step_ns) / 1e3
            tried.append(beside(name, change.remedy, lists, observed, faulty_us))
            yield str(tried[-1])
        for what, why in program.failed.items():
            yield line(f"{program.name}, {what}", why, *"-----")
    yield from (str(each) for each in others)
    promised = [each for each in tried if each.error is not None]
    yield ""
    yield from errors("all promises", promised)
    yield from errors("promises of a first change", [each for each in promised if _is_first(each)])
    worst = sorted(promised, key=lambda each: -abs(each.error or 0.0))[:_WORST]
    yield from (f"- among the worst: {each.fault}: {_points(each):+.1f} points" for each in worst)


def errors(what: str, tried: list[Tried]) -> Iterator[str]:
    """The median error and that of nine in ten, in points of the step and of what was observed."""
    if len(tried) < 2:
        yield f"- {what}: {len(tried)}"
        return
    points = [abs(_points(each)) for each in tried]
    shares = [abs(each.error or 0.0) / max(abs(each.observed), 1e-9) for each in tried]
    ninth, ninth_share = (
        quantiles(each, n=10, method="inclusive")[-1] for each in (points, shares)
    )
    met = median(shares) <= MOST_MEDIAN and ninth_share <= MOST_NINTH
    yield (
        f"- {what}: {len(tried)}; median error {median(points):.1f} points"
        f" ({median(shares):.0%} of the saving), nine of ten within {ninth:.1f} points"
        f" ({ninth_share:.0%}); targets {MOST_MEDIAN:.0%} and {MOST_NINTH:.0%}:"
        f" {'met' if met else 'missed'}"
    )


def _points(tried: Tried) -> float:
    return 100 * (tried.error or 0.0)


def _is_first(tried: Tried) -> bool:
    """Whether the list has the change first."""
    return tried.place == 1


def recorders(folder: Path, found: list[Measured]) -> Iterator[str]:
    """What each kind of recording cost the host per step, and the estimate, where the GPU waits."""
    kinds = list(RECORDINGS)
    yield from head(("program", *(f"{kind}: measured, estimated" for kind in kinds)))
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    for program in found:
        cells = []
        for kind in kinds:
            path = recording(folder / program.name, kind)
            cost = of_capture(path) if path.exists() else None
            cells.append(_cost(cost))
            if cost and cost.estimated_ns and cost.measured_ns > 0:
                ratios[kind].append(cost.ratio)
        yield line(program.name, *cells)
    yield ""
    yield from (f"- {kind}, estimated over measured: {spread(ratios[kind])}" for kind in kinds)


def _cost(cost: Recorded | None) -> str:
    if cost is None:
        return "-"
    estimated = duration(round(cost.estimated_ns)) if cost.estimated_ns else "none"
    sign = "-" if cost.measured_ns < 0 else ""
    return f"{sign}{duration(abs(cost.measured_ns))}, {estimated}"


def units(folder: Path, found: list[Measured]) -> Iterator[str]:
    """Units where marks are hidden, and in the recording of the same program without `step()`."""
    yield from head(
        ("program", "marks", "found, marks hidden", "from one to the next, marked", "found",
         "GPU time in the right unit", "without step(): units", "from one to the next")
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as made:
        for program in found:
            marked, plain = (recording(folder / program.name, k) for k in ("shapes", UNMARKED))
            if not (marked.exists() and plain.exists()):
                continue
            hidden = Path(made, f"{program.name}.json")
            truth = hide_marks(marked, hidden)
            with tracekit.load(hidden, verdicts=False) as run:
                again = found_again(run, 1, truth)
            with tracekit.load(plain, verdicts=False) as run:
                bare = found_again(run, 1, truth)
            right = "-" if again.right is None else f"{again.right:.0%}"
            yield line(
                program.name, again.marks, again.units, *map(_long, (again.marked_ns,
                again.period_ns)), right, bare.units, _long(bare.period_ns),
            )  # fmt: skip


def _long(ns: float | None) -> str:
    return "-" if ns is None else duration(round(ns))


def read_faults(path: Path | None) -> list[Tried]:
    """What faults.py wrote, for one table with these programs."""
    return [Tried(**each) for each in json.loads(path.read_text(encoding="utf-8"))] if path else []
