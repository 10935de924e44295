"""Figures in a file beside the test, small enough to be read in a review."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tracekit.budgets.figures import Figures
from tracekit.errors import TracekitError
from tracekit.files import written_whole

_SCHEMA = "tracekit/step/1"


def read(path: Path) -> Figures | None:
    """The stored figures; None where there is no file.

    Raises:
        TracekitError: when the file is not one that `write` wrote.
    """
    try:
        fields = json.loads(path.read_text("utf-8"))
        if fields.pop("schema") != _SCHEMA:
            raise ValueError
        return Figures(**fields)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise TracekitError(f"{path}: is not a file of --tracekit-update: run it again") from error


def write(path: Path, figures: Figures) -> None:
    """Stores figures, one on a line, in an order that does not change."""
    fields = {"schema": _SCHEMA} | asdict(figures) | {"why": []}
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        beside.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", "utf-8")
