"""The cases of tests/questions/cases: what questions and relations say of small traces."""

import re
from pathlib import Path

import pytest

from tests.kit.cases import FOLDER, answer, cases, expected, misread
from tracekit.database.catalog import queries


@pytest.mark.parametrize(
    ("trace_id", "case"), list(enumerate(cases().values(), start=1)), ids=list(cases())
)
def test_a_case_has_the_expected_rows(trace_id, case, cases_database):
    for question, parameters, (columns, *rows) in case.asked:
        found = answer(cases_database, trace_id, question, parameters, columns)
        wanted = [expected(*each) for each in zip(rows, found, strict=False)]
        assert found == [*wanted, *rows[len(found) :]], (question, columns)


def test_each_question_has_a_case_or_is_asked_elsewhere():
    root = Path(__file__).parents[2]
    files = [each for at in ("tracekit", "tests") for each in (root / at).rglob("*.py")]
    words = set(re.findall(r"\w+", "".join(each.read_text() for each in files)))
    words |= {name for case in cases().values() for name, *_ in case.asked}
    # Remedies have controls; tests/compare asks questions about two runs by parts of their names.
    asked = {name for name, each in queries().items() if each.topic not in ("remedies", "diff")}
    assert asked - words == set(), "write tests/questions/cases/NAME.txt"


@pytest.mark.parametrize("name", ["collective_stats", "graph_replays", "units"])
def test_one_space_between_two_cells_is_reported_with_its_line(name):
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    for number, line in enumerate(lines):
        for gap in re.finditer(r"(?<=\S) {2,}(?=\S)", line):
            joined = f"{line[: gap.start()]} {line[gap.end() :]}"
            wrong = "\n".join([*lines[:number], joined, *lines[number + 1 :]])
            places = {said.partition(":")[0] for said in misread(wrong)}
            # One column fewer makes each row below wrong.
            assert f"line {number + 1}" in places or lines[number - 1].startswith("? "), joined
            assert places
    assert list(misread("\n".join(lines))) == []
