"""The query files: each says what it answers, in the form that tools read."""

import re
from pathlib import Path

import pytest

from tracekit import catalog
from tracekit.analysis import QUERIES

ALL = sorted(catalog.queries().values(), key=lambda query: query.name)


@pytest.mark.parametrize("query", ALL, ids=lambda query: query.name)
def test_a_query_file_documents_itself(query):
    assert query.question.endswith("?")
    assert query.columns
    assert all(column.unit and column.help for column in query.columns)
    body = [line for line in query.sql.splitlines() if not line.startswith("--")]
    read = set(re.findall(r"getvariable\('(\w+)'\)", "\n".join(body)))
    assert read == {parameter.name for parameter in query.parameters}
    for parameter in query.parameters:
        if parameter.default != "all":
            assert f"coalesce(getvariable('{parameter.name}'), {parameter.default})" in query.sql
    assert ";" not in "\n".join(body)


def test_columns_of_time_are_integer_nanoseconds():
    for query in ALL:
        for column in query.columns:
            assert (column.unit == "ns") == column.name.endswith("_ns"), (query.name, column.name)
            if column.name.startswith("share"):
                assert column.unit.startswith("fraction of"), (query.name, column.name)


def test_what_the_analysis_asks_is_in_the_catalog():
    assert set(QUERIES) <= set(catalog.queries())


def test_every_view_file_is_built():
    folder = Path(__file__).parents[1] / "queries" / "views"
    assert {file.stem for file in folder.glob("*.sql")} == set(catalog.VOCABULARY)
