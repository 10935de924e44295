"""A verdict's confidence, lowered by the doubts in tracekit/verdict/doubts.py."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import words
from tracekit.evidence.model import forbids_verdicts
from tracekit.verdict.case import Case, Doubt
from tracekit.verdict.doubts import DOUBTS, FEW_OPS
from tracekit.verdict.model import FoundDoubt, Verdict
from tracekit.verdict.regime import UNKNOWN

# From highest to lowest.
LEVELS = ("high", "medium", "low")
# In ascending order; `none` belongs to an unknown regime.
_ASCENDING = ("none", *reversed(LEVELS))
# The longest first sentence.
_WORDS, _LETTERS = 25, 160
# A verdict has at most the first number of sentences. The second is how many of them are reasons,
# even if there are many doubts.
_MOST, _FEWEST = 6, 4


class _Found(Struct, frozen=True):
    """A doubt that applies to a case."""

    doubt: Doubt
    sentence: str
    leaves: str | None
    """The highest confidence with this doubt; None: one level lower."""
    turns: bool


def with_doubts(case: Case) -> Verdict:
    """The verdict with its confidence lowered by doubts, and a sentence for each. Doubts about the
    recorder come before the regime, or replace it if they make it unknown."""
    verdict, applying = case.verdict, _found(case)
    if blocking := [each for each in applying if each.leaves == "none"]:
        return _without_regime(case, blocking)
    listed = [each for each in applying if not each.doubt.stated]
    recorded = [each for each in listed if each.doubt.of_recorder]
    sure = sorted(
        (each for each in listed if not each.doubt.of_recorder), key=lambda each: not each.turns
    )
    first = next((each for each in recorded if each.doubt.opens), None)
    reasons = verdict.why[: max(_FEWEST, _MOST - len(sure))]
    # The ops' time without the profiler matters less than their small number.
    is_few = any(each.doubt.code == FEW_OPS for each in sure)
    level = _left(case, applying)
    # A finding that leaves the highest confidence is reported, but is not a doubt.
    lowering = [each for each in recorded if each.leaves != level or level != LEVELS[0]]
    doubts = [*sure, *lowering] if is_few else [*lowering, *sure]
    return replace(
        verdict,
        notes=[*([first.sentence] if first else []), *verdict.notes],
        confidence=level,
        why=[*_sentences(recorded), *reasons, *_sentences(sure)][:_MOST],
        try_next=[*_advice(recorded), *verdict.try_next],
        doubts=_sentences(doubts),
        lowered_by=[
            FoundDoubt(each.doubt.code, each.sentence, each.doubt.stated or each is first)
            for each in (*doubts, *(each for each in applying if each.doubt.stated))
        ],
    )


def _found(case: Case) -> list[_Found]:
    doubts: list[_Found] = []
    is_judged = case.verdict.regime != UNKNOWN and case.verdict.margin is not None
    for doubt in DOUBTS:
        if not (doubt.of_recorder or is_judged):
            continue
        others = [each for each in doubts if not each.doubt.of_recorder]
        if doubt.if_sure and _left(case, others) != LEVELS[0]:
            continue
        if any(each.doubt.code in doubt.unless for each in doubts):
            continue
        sentence = doubt.says(case)
        if sentence is not None:
            leaves = doubt.caps(case) if callable(doubt.caps) else doubt.caps
            turns = doubt.turns(case) if callable(doubt.turns) else doubt.turns
            doubts.append(_Found(doubt, sentence, leaves, turns))
    return doubts


def _left(case: Case, found: Sequence[_Found]) -> str:
    """The confidence with these doubts."""
    if case.verdict.regime == UNKNOWN:
        return "none"
    lower = sum(each.leaves is None for each in found)
    level = LEVELS[min(lower, len(LEVELS) - 1)]
    return min([level, *(each.leaves for each in found if each.leaves)], key=_ASCENDING.index)


def _without_regime(case: Case, blocking: Sequence[_Found]) -> Verdict:
    """The verdict if faults in the recording make the regime unknown. The remaining reasons and
    prices cover only the work that happened to be recorded."""
    sentences, rest = _sentences(blocking), case.verdict.why[:1]
    if forbids_verdicts(case.evidence.health):
        rest = []
    return replace(
        case.verdict,
        headline=_short(sentences[0]),
        regime=UNKNOWN,
        bottleneck=None,
        confidence="none",
        why=[*sentences, *rest][:_MOST],
        savings=[],
        margin=None,
        try_next=_advice(blocking),
        doubts=sentences,
        notes=[],
        lowered_by=[
            FoundDoubt(each.doubt.code, each.sentence, each is blocking[0]) for each in blocking
        ],
    )


def _short(sentence: str) -> str:
    """A sentence as the first one of a verdict: of a long one the part before what follows from it,
    which stands among the reasons."""
    parts = [sentence[: each.start()] for each in re.finditer("; |: ", sentence)]
    whole = (part for part in reversed(parts) if part.count("(") == part.count(")"))
    for part in (sentence.rstrip("."), *whole):
        if len(part.split()) <= _WORDS and len(part) < _LETTERS:
            return f"{part}."
    return sentence


def _sentences(found: Sequence[_Found]) -> list[str]:
    return [each.sentence for each in found]


def _advice(found: Sequence[_Found]) -> list[str]:
    """What to record instead."""
    return [words("record")[each.doubt.code] for each in found]
