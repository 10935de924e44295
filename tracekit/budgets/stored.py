"""Figures in a file beside the test, small enough to be read in a review."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracekit.budgets.checking import is_number
from tracekit.budgets.figures import COUNTS, Figures
from tracekit.errors import TracekitError
from tracekit.files import written_whole

_SCHEMA = "tracekit/step/1"


# Most file systems end names at 255 bytes.
_SHOWN_CHARACTERS = 150
_FOLDER = "tracekit_baselines"


def name_of(test: str) -> str:
    """A file name without its ending for the test of this id: no two tests share one, on file
    systems that ignore case either."""
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


def read(path: Path) -> Figures | None:
    """The stored figures; None where there is no file.

    Raises:
        TracekitError: when the file is not one that `write` wrote.
    """
    try:
        fields = json.loads(path.read_text("utf-8"))
        if fields.pop("schema") != _SCHEMA or not _are_sound(found := Figures(**fields)):
            raise ValueError
        return found
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TracekitError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise TracekitError(f"{path}: is not a file of --tracekit-update: run it again") from error


def _are_sound(figures: Figures) -> bool:
    """Whether each figure has a value of its type."""
    return (
        all(map(_are_numbers, (figures.counts, figures.kernels_by_class, *figures.names.values())))
        and figures.counts.keys() <= COUNTS.keys()
        and isinstance(figures.regime, str)
        and (figures.host_share is None or is_number(figures.host_share))
        and (figures.step_ns is None or (is_number(figures.step_ns) and figures.step_ns > 0))
        and isinstance(figures.device, str)
    )


def _are_numbers(figures: Any) -> bool:
    return isinstance(figures, dict) and all(map(is_number, figures.values()))


def write(path: Path, figures: Figures) -> None:
    """Stores figures, one on a line, in an order that does not change."""
    fields = {"schema": _SCHEMA} | asdict(figures) | {"why": []}
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", "utf-8")
