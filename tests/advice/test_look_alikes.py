"""A remedy is silent where a program only looks like its fault (tests/controls/look_alikes.py)."""

import pytest

from tests.controls.look_alikes import LOOK_ALIKES
from tests.kit.simulated import Programs
from tracekit.database.remedies import all_remedies, query_of

TRACES = Programs()
TRACE = {name: TRACES.program(each.atoms, **each.metadata) for name, each in LOOK_ALIKES.items()}
# Savings that runs of one program differ by.
NOISE = 0.02


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_is_not_blamed(name, analyses):
    analysis, like = analyses[TRACE[name]], LOOK_ALIKES[name]
    blamed = [each for each in analysis.advice if query_of(each.remedy) == like.remedy]
    assert not [each for each in blamed if each.share is None or each.share >= NOISE], (
        f"{like.about} {blamed}"
    )


def test_each_look_alike_is_of_a_remedy_and_says_what_it_is():
    names = {query_of(each) for each in all_remedies()}
    for name, each in LOOK_ALIKES.items():
        assert each.remedy in names and each.about.endswith("."), name
