"""The SQL files: one form, and no number that judges outside tracekit/thresholds.py."""

import re
from pathlib import Path

import pytest

QUERIES = Path(__file__).parents[1] / "queries"
FILES = sorted(QUERIES.rglob("*.sql"))
BY_FILE = {"argvalues": FILES, "ids": lambda file: str(file.relative_to(QUERIES))}

# What a number means that is not a judgement: an expression that holds it.
MEANINGS = [
    r"'.*?'",
    r"\[-?\d+:?\]",  # a place in a list
    r"1e9|1e3|1000\b|\b100(\.0)? \*",  # units
    r"\bpercentile\([^()]*(\([^()]*\))?[^()]*, \d+\)",
    r"getvariable\(''\), (20|1000)\)",  # how many rows are shown
    r"len\(\w\) BETWEEN 3 AND 5",  # tensors of convolutions: batch, channels and space
    r"10 \* up_to >= 9 \*",  # the 90th percentile of a time
]


def code(file: Path) -> str:
    """A file's text without its comments."""
    return re.sub(r"--[^\n]*", "", file.read_text())


@pytest.mark.parametrize("file", **BY_FILE)
def test_no_number_that_judges_stands_in_a_query(file):
    text = code(file)
    for meaning in MEANINGS:
        text = re.sub(meaning, "''", text)
    number = r"(?:\d{5,}|\d+\.\d+|\d*[3-9]|\d{2,})"
    compared = re.findall(
        rf"(?:(?<![<>])[<>]=?(?![<>])|BETWEEN|AND|greatest\(|least\(|''\),) -?{number}\b", text
    )
    large = re.findall(r"\b\d{5,}\b", text)
    parts = re.findall(r"\b\d+\.\d+\b", text)
    known = {"views/work.sql": ["2.5"], "views/windows.sql": ["10000"]}
    name = str(file.relative_to(QUERIES))
    assert [n for n in compared + large + parts if n not in known.get(name, [])] == []
