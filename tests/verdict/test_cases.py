"""The cases of tests/verdict/cases: the verdict on evidence, without a trace."""

import pytest

from tests.kit.evidenced import judge
from tests.verdict.cases import doubts, memory, recording, sentences, sides

MODULES = (sides, doubts, sentences, recording, memory)
CASES = {title: case for each in MODULES for title, case in each.CASES.items()}


@pytest.mark.parametrize("title", CASES)
def test_the_verdict_on(title):
    CASES[title].check()


def test_no_two_cases_have_one_title():
    assert len(CASES) == sum(len(each.CASES) for each in MODULES)


def test_a_verdict_that_is_not_sure_says_by_code_what_lowers_it():
    for title, case in CASES.items():
        verdict = judge(case.evidence)
        codes = [each.code for each in verdict.lowered_by]
        assert len(codes) == len({*codes}), title
        assert codes or verdict.confidence in ("high", "none"), title
        listed = [each.sentence for each in verdict.lowered_by]
        assert [each for each in listed if each in verdict.doubts] == verdict.doubts, title


@pytest.mark.parametrize(
    ("title", "code", "is_stated"),
    [
        ("windows that disagree", "other_windows", False),
        ("prompts between decoding steps", "other_steps", False),
        ("a device that was done with the last launch, and was not recorded",
         "unrecorded_device", True),
        ("an overhead in a cut file, which the missing end may deny", "truncated", True),
        ("a busy side whose halving gains nothing", "close_call", False),
    ],
)  # fmt: skip
def test_what_the_first_sentence_says_is_no_doubt_beside_it(title, code, is_stated):
    verdict = judge(CASES[title].evidence)
    first = verdict.lowered_by[0]
    assert (first.code, first.stated) == (code, is_stated)
    assert (first.sentence in (verdict.headline, *verdict.notes)) == is_stated
