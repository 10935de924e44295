"""The figures of a step of the user's program, and the small file that stores them."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field, to_builtins

from tracekit.errors import TracekitError
from tracekit.files import written_whole
from tracekit.records import parsed, record
from tracekit.verdicts import verdicts

if TYPE_CHECKING:
    from tracekit.database.session import Session

# The counts of the query step_counts, and whether they need a device.
COUNTS = {
    "operators": False,
    "launches": True,
    "synchronisations": True,
    "allocations": True,
    "copied_bytes": True,
    "kernels": True,
    "compiled_regions": False,
}
_MOST_NAMES = 200
_SCHEMA = "tracekit/step/1"
# Most file systems end names at 255 bytes.
_SHOWN_CHARACTERS = 150
_FOLDER = "tracekit_baselines"


class Figures(Struct, frozen=True):
    """A step of a recorded run. Counts are per step; a key that is missing cannot be known."""

    counts: dict[str, float]
    """The counts, by the figures of the query step_counts."""
    kernels_by_class: dict[str, float]
    names: dict[str, dict[str, float]]
    """How often each operator, call or kernel ran, by figure."""
    regime: str
    """`overhead-bound`, `compute-bound` or `unknown`."""
    host_share: float | None
    """The time in which the device waited for the host, over the judged window; None: unknown."""
    step_ns: int | None
    """The median step without the profiler; None: it was not timed."""
    device: str
    """The device it ran on: `step_ns` applies only to that device."""
    why: list[str] = field(default_factory=list)
    """The verdict's sentences."""


def figures_of(database: Session) -> Figures:
    """The figures of the only trace of a database.

    Raises:
        TracekitError: when it holds several.
    """
    trace_id = database.only(None)
    analysis = verdicts(database, trace_id)[0]
    classes: Counter[str] = Counter()
    names: dict[str, Counter[str]] = {name: Counter() for name in COUNTS}
    for row in database.ask("step_counts", trace=trace_id):
        names[row["figure"]][str(row["name"])] += row["per_step"]
        if row["class"] is not None:
            classes[row["class"]] += row["per_step"]
    overview = database.ask("overview", trace=trace_id)[0]
    has_device = bool(overview["gpu_ops"])
    known = [name for name, of_device in COUNTS.items() if has_device or not of_device]
    noted = analysis.trace.capture or {}
    return Figures(
        counts={name: round(names[name].total(), 3) for name in known},
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
    """Whether this is a finite number that a figure can have."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63


# For a figure and the name of what it counts: how often a step runs it in each place.
Places = dict[tuple[str, str], dict[str, float]]


def places_of(database: Session) -> Places:
    """Where the only trace of a database runs what is counted, the place of most first."""
    found: Places = {}
    for row in database.ask("step_places", trace=database.only(None)):
        if row["place"] is not None:
            by_place = found.setdefault((row["figure"], str(row["name"])), {})
            by_place[row["place"]] = row["per_step"]
    return found


def name_of(test: str) -> str:
    """A file name, without its ending, for the test of this id: unique, even on file systems that
    ignore case."""
    shown = re.sub(r"[^a-z0-9_]+", "-", test.lower()).strip("-")[:_SHOWN_CHARACTERS]
    return f"{shown}-{hashlib.sha256(test.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def file_of(test: str, folder: Path) -> Path:
    """The file with the figures of a test whose own file is in `folder`. It is the same wherever
    pytest is started."""
    file, _, inside = test.partition("::")
    return folder / _FOLDER / f"{name_of(f'{Path(file).name}::{inside}')}.json"


def require_no_former(test: str, folder: Path) -> None:
    """Checks that no figures are stored under the test's former name, which other tests may share.

    Raises:
        TracekitError: when there are some.
    """
    former = re.sub(r"[^\w.-]+", "-", test).strip("-").rpartition(".py-")[2]
    file = folder / _FOLDER / f"{former}.json"
    if file.exists():
        raise TracekitError(
            f"{file}: several tests may share this file: store the figures again with "
            "`pytest --tracekit-update`, and delete it"
        )


def read_figures(path: Path) -> Figures | None:
    """The stored figures; None if there is no file.

    Raises:
        TracekitError: when `write_figures` did not write the file.
    """
    try:
        fields = parsed(path.read_text("utf-8"))
        if fields.pop("schema") != _SCHEMA or fields.keys() - set(Figures.__struct_fields__):
            raise ValueError
        found = record(Figures, fields)
        named = (found.counts, found.kernels_by_class, *found.names.values())
        numbers = [found.host_share or 0, *(number for each in named for number in each.values())]
        is_timed = found.step_ns is None or found.step_ns > 0
        if not (all(map(is_number, numbers)) and found.counts.keys() <= COUNTS.keys() and is_timed):
            raise ValueError
        return found
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TracekitError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TracekitError(f"{path}: is not a file of --tracekit-update: run it again") from error


def write_figures(path: Path, figures: Figures) -> None:
    """Stores figures, one per line, in a fixed order."""
    fields = {"schema": _SCHEMA} | to_builtins(figures) | {"why": []}
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", "utf-8")
