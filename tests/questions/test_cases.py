"""The cases of tests/questions/cases: what questions and relations say of small traces."""

import pytest

from tests.kit.cases import answer, cases, expected


@pytest.mark.parametrize(
    ("trace_id", "case"), list(enumerate(cases().values(), start=1)), ids=list(cases())
)
def test_case(trace_id, case, cases_database):
    for question, parameters, (columns, *rows) in case.asked:
        found = answer(cases_database, trace_id, question, parameters, columns)
        wanted = [expected(*each) for each in zip(rows, found, strict=False)]
        assert found == [*wanted, *rows[len(found) :]], (question, columns)
