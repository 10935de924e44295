"""The cases of tests/questions/cases: what questions and relations say of small traces."""

import re
from pathlib import Path

import pytest

from tests.kit.cases import answer, cases, expected
from tracekit.database.catalog import queries


@pytest.mark.parametrize(
    ("trace_id", "case"), list(enumerate(cases().values(), start=1)), ids=list(cases())
)
def test_case(trace_id, case, cases_database):
    for question, parameters, (columns, *rows) in case.asked:
        found = answer(cases_database, trace_id, question, parameters, columns)
        wanted = [expected(*each) for each in zip(rows, found, strict=False)]
        assert found == [*wanted, *rows[len(found) :]], (question, columns)


def test_each_question_has_a_case_or_is_asked_elsewhere():
    root = Path(__file__).parents[2]
    files = [each for at in ("tracekit", "tests") for each in (root / at).rglob("*.py")]
    words = set(re.findall(r"\w+", "".join(each.read_text() for each in files)))
    words |= {name for case in cases().values() for name, *_ in case.asked}
    # Remedies have controls; tests/compare asks those of two runs by parts of their names.
    asked = {name for name, each in queries().items() if each.topic not in ("remedies", "diff")}
    assert asked - words == set(), "write tests/questions/cases/NAME.txt"
