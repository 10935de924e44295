"""All cases with their traces: real ones by reference, simulated ones written when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench.diagnosis.programs import programs
from tests.bench.diagnosis.score import Case, labels
from tests.conftest import SHARED_TRACES


def traces(folder: Path, named: str = "") -> Iterator[tuple[Case, Path]]:
    """Cases whose names contain `named`, with their traces; simulated ones are written to
    `folder`."""
    for case in labels("real"):
        path = SHARED_TRACES / f"{case.name}.json.gz"
        if named in case.name and path.exists():
            yield case, path
    for number, program in enumerate(programs()):
        if named in program.case.name:
            path = folder / f"{number}.json"
            path.write_bytes(program.trace())
            yield program.case, path
