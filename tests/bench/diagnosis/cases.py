"""All cases with their traces: real ones by reference, simulated ones written when asked for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.diagnosis.programs import programs
from tests.bench.diagnosis.score import Case
from tests.conftest import SHARED_TRACES

REAL = Path(__file__).with_name("cases") / "real.toml"


def real() -> list[Case]:
    """The labels of the real traces."""
    with REAL.open("rb") as file:
        rows: list[dict[str, Any]] = tomllib.load(file)["case"]
    return [_case(each) for each in rows]


def _case(row: dict[str, Any]) -> Case:
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
    }
    return Case(name=values.pop("trace"), kind="real", **values)


def traces(folder: Path, named: str = "") -> Iterator[tuple[Case, Path]]:
    """Cases whose names contain `named`, with their traces; simulated ones are written to
    `folder`."""
    for case in real():
        path = SHARED_TRACES / f"{case.name}.json.gz"
        if named in case.name and path.exists():
            yield case, path
    for number, program in enumerate(programs()):
        if named in program.case.name:
            path = folder / f"{number}.json"
            path.write_bytes(program.trace())
            yield program.case, path
