"""Asks the tools about all cases, and prints how often each is right.

    python -m tests.bench.diagnosis [--tool NAME] [--kind KIND] [--failures] [--page] [NAME]

NAME restricts the cases to those whose names contain it. `--failures` lists the errors in each
tool's answers, with the label beside the answer; `--page` writes tracekit's to the documentation.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.bench.diagnosis import often
from tests.bench.diagnosis.parts import part, real
from tests.bench.diagnosis.programs import programs
from tests.bench.diagnosis.score import COLUMNS, Case, failures, labels, mark, row, table
from tests.bench.diagnosis.tools import TOOLS, answers
from tests.conftest import SHARED_TRACES

KINDS = ("real", "part", "twin", "mended", "look-alike", "healthy", "misleading", "mix")


def traces(folder: Path, kinds: Collection[str], named: str) -> Iterator[tuple[Case, Path]]:
    """The cases of these kinds whose names contain `named`, with their traces: real ones by
    reference, their parts and simulated ones written to `folder`."""
    for case in labels():
        path = SHARED_TRACES / f"{case.name}.json.gz"
        if "real" in kinds and named in case.name and path.exists():
            yield case, path
    for number, case in enumerate(labels("parts")):
        name, kind, seed = case.name.split(", ")
        if "part" in kinds and named in case.name and (SHARED_TRACES / f"{name}.json.gz").exists():
            path = folder / f"part-{number}.json"
            path.write_text(json.dumps(part(real(name), kind, int(seed))), encoding="utf-8")
            yield case, path
    for number, program in enumerate(() if {*kinds} <= {"real", "part"} else programs()):
        if program.case.kind in kinds and named in program.case.name:
            yield program.case, program.write(folder / f"{number}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", action="append", choices=[*TOOLS])
    parser.add_argument("--failures", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("named", nargs="?", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subjects = list(traces(Path(folder), options.kind or KINDS, options.named))
        cases = [case for case, _ in subjects]
        negative = sum(each.is_negative for each in cases)
        kinds = Counter(each.kind for each in cases)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        print(f"{len(cases)} cases ({told}), of which {negative} are negative\n", flush=True)
        rows, wrong, by_kind = [], [], defaultdict(list)
        for name in options.tool or TOOLS:
            began = time.perf_counter()
            said = answers(name, subjects)
            marks = {case.name: mark(case, said[case.name]) for case in cases}
            rows.append([*row(name, marks.values()), f"{time.perf_counter() - began:.0f} s"])
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
            for case in cases:
                by_kind[name, case.kind].append(marks[case.name])
            wrong += [f"\n{name}\n", *failures(cases, said)]
            if options.page and name == "tracekit":
                often.PAGE.write_text(often.page(cases, said))
    print(table([*COLUMNS, "took"], rows))
    for name in options.tool or TOOLS:
        print(f"\n{name}, by kind of case\n")
        print(table(COLUMNS, [row(kind, m) for (tool, kind), m in by_kind.items() if tool == name]))
    if options.failures:
        print("\n".join(wrong))


if __name__ == "__main__":
    main()
