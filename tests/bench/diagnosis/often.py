"""docs/explanation/how-often-right.md: how often each remedy came first, and was right.

`python -m tests.bench.diagnosis --tool tracekit --page` writes it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.bench.diagnosis.score import (
    COLUMNS,
    SILENT,
    SMALL,
    Answer,
    Case,
    Mark,
    labels,
    mark,
    row,
    table,
)

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "how-often-right.md"
REAL = "real"
PART = "part"
_KINDS = {REAL: "real", PART: "real: parts and mutations"}
_HEAD = """\
# How often it is right

Each answer below is held against known facts: an expert's reading of a real trace that was written
down before the answer was seen, or a simulated program whose gain is measured by running it without
the fault. [The benchmark](../../tests/bench/diagnosis/README.md) says where the facts come from and
what each column means; [the real traces one by one](../../tests/bench/VERDICTS.md), against two
experts. `make diagnosis PAGE=1` writes this page.

Real and simulated cases are counted apart: rules that fit simulated programs prove little about
real ones. Rules may also fit the real traces that they were written beside. So three other experts,
who knew neither rules nor answers, read ninety parts and mutations of these traces (cut, poorer, or
replayed with a slower or faster host or device), thirty at a time. When first asked, tracekit
agreed with them on the regime of 82, on the cause of 63 of 69 and on the first change of 74; what
they showed to be wrong was mended before the next thirty, and the row below is of today.

Experts differ, too. A fourth read the last thirty: the two would accept each other's regime in 27
or 28 of them, each other's cause in 26 or 27 of 27, and each other's first change in all. One of
them accepts tracekit's regime in all thirty, its cause in 25 of 26, and its first change in 27.

"""
_RULES = """
## Rule by rule

How often a remedy came first in the list, and was an accepted first change, of real traces by each
of two readers, who differ; and in how many programs that do not have the fault (its repaired twin,
and programs that look like it: tests/controls/look_alikes.py) it stayed silent.

"""
_COLUMNS = (
    "remedy", "first on real", "right", "by the second reader", "first on simulated", "right",
    "silent where it must be",
)  # fmt: skip


def page(cases: Sequence[Case], said: dict[str, Answer]) -> str:
    """The page, of all cases and the answers by their names."""
    marks = {case.name: mark(case, said[case.name]) for case in cases}
    kinds: defaultdict[str, list[Mark]] = defaultdict(list)
    for case in cases:
        kinds[_KINDS.get(case.kind, f"simulated: {case.kind}")].append(marks[case.name])
    columns = ("kind of case", *COLUMNS[1:])
    of_kinds = table(columns, [row(kind, each) for kind, each in kinds.items()], is_padded=False)
    of_rules = table(_COLUMNS, _rules(cases, said, marks), is_padded=False)
    return f"{_HEAD}{of_kinds}\n{_RULES}{of_rules}\n"


def _rules(
    cases: Sequence[Case], said: dict[str, Answer], marks: dict[str, Mark]
) -> list[list[str]]:
    # Each of real and of simulated cases.
    first: Counter[tuple[str, bool]] = Counter()
    right: Counter[tuple[str, bool]] = Counter()
    second: Counter[tuple[str, bool]] = Counter()
    others = {case.name: case for case in labels("second")}
    silent: defaultdict[str, list[bool]] = defaultdict(list)
    for case in (each for each in cases if each.kind != PART):
        answer = said[case.name]
        changes, is_real = answer.changes or (), case.kind == REAL
        blames = changes and (answer.saves is None or answer.saves >= SMALL or case.changes)
        if blames and marks[case.name].change is not None:
            first[changes[0], is_real] += 1
            right[changes[0], is_real] += bool(marks[case.name].change)
            other = others.get(case.name)
            second[changes[0], is_real] += bool(other and mark(other, answer).change)
        if case.kind in SILENT:
            # Named after the remedy: `twin NAME, mended`, `look-alike NAME: TITLE`.
            name = case.name.split()[1].rstrip(",:")
            silent[name].append(name not in changes or (answer.saves or 0.0) < SMALL)
    counts = ((first, True), (right, True), (second, True), (first, False), (right, False))
    names = sorted({name for name, _ in first} | {*silent})
    return [
        [
            name,
            *(
                str(count[name, is_real]) if first[name, is_real] else "-"
                for count, is_real in counts
            ),
            f"{sum(silent[name])} of {len(silent[name])}" if silent[name] else "-",
        ]
        for name in names
    ]
