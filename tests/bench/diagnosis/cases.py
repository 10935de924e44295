"""All cases with their traces: real ones by reference, others made on demand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from tests.bench.diagnosis.programs import programs
from tests.bench.diagnosis.score import Case, labels
from tests.conftest import SHARED_TRACES


def traces(
    folder: Path, kinds: Collection[str] | None = None, named: str = ""
) -> Iterator[tuple[Case, Path]]:
    """The cases of these kinds whose names contain `named`, with their traces. Simulated ones are
    written to `folder`, and captures recorded there."""

    def is_wanted(case: Case) -> bool:
        return named in case.name and (kinds is None or case.kind in kinds)

    for case in filter(is_wanted, labels()):
        path = SHARED_TRACES / f"{case.name}.json.gz"
        if path.exists():
            yield case, path
    if kinds is None or set(kinds) - {"real", "captured"}:
        for number, program in enumerate(programs()):
            if is_wanted(program.case):
                yield program.case, program.write(folder / f"{number}.json")
    if kinds is None or "captured" in kinds:
        # It imports PyTorch.
        from tests.bench.diagnosis.captured import captured

        yield from captured(is_wanted, folder)
