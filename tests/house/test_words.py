"""Messages are plain English: a number agrees with its noun."""

import ast
import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Limits, and counts that a condition before them bounds: never 1.
ALWAYS_MANY = {
    "characters",
    "world",
    "evidence.world_size",
    "run.world_size",
    "part.elements",
    "present",
}


def test_a_number_agrees_with_its_noun():
    """`counted` says 1 event and 2 events: no message has a number before a fixed plural."""
    nouns = "event kernel operator rank file run trace call collective step place name stack row"
    plural = re.compile(rf" (?:other )?(?:{'|'.join(f'{each}s' for each in nouns.split())})\b")
    wrong = [
        f"{path.relative_to(ROOT)}:{text.lineno}: {ast.unparse(text)}"
        for path in (ROOT / "tracekit").rglob("*.py")
        for text in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(text, ast.JoinedStr)
        for number, words in pairwise(text.values)
        if isinstance(number, ast.FormattedValue) and isinstance(words, ast.Constant)
        if number.format_spec is not None and ast.unparse(number.format_spec) == "f','"
        if plural.match(str(words.value))
        if not ast.unparse(number.value).strip("_").isupper()
        if ast.unparse(number.value) not in ALWAYS_MANY
    ]
    assert wrong == []
