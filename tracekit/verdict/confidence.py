"""How sure a verdict is: what the doubts of tracekit/verdict/doubts.py leave of its confidence."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import words
from tracekit.evidence.model import forbids_verdicts
from tracekit.verdict.case import Case, Doubt
from tracekit.verdict.doubts import DOUBTS, FEW_OPS
from tracekit.verdict.model import FoundDoubt, Verdict
from tracekit.verdict.regime import UNKNOWN

# From the surest down.
LEVELS = ("high", "medium", "low")
# In ascending order; `none` belongs to an unknown regime.
_ASCENDING = ("none", *reversed(LEVELS))
# A verdict has at most the first number of sentences. The second is how many of them are reasons,
# even if there are many doubts.
_MOST, _FEWEST = 6, 4


class _Found(Struct, frozen=True):
    """A doubt that a case has."""

    doubt: Doubt
    sentence: str
    leaves: str | None
    """The highest confidence that it leaves; None: one level less."""
    turns: bool


def with_doubts(case: Case) -> Verdict:
    """The verdict with the confidence that its doubts leave, and a sentence for each. The
    recorder's come before the regime, or, if one leaves nothing of it, in its place."""
    verdict, found = case.verdict, _found(case)
    if blocking := [each for each in found if each.leaves == "none"]:
        return _without_regime(case, blocking)
    listed = [each for each in found if not each.doubt.stated]
    recorded = [each for each in listed if each.doubt.of_recorder]
    own = sorted(
        (each for each in listed if not each.doubt.of_recorder), key=lambda each: not each.turns
    )
    first = next((each for each in recorded if each.doubt.opens), None)
    reasons = verdict.why[: max(_FEWEST, _MOST - len(own))]
    # How long ops take without the profiler matters less than how few they are.
    is_few = any(each.doubt.code == FEW_OPS for each in own)
    level = _left(case, found)
    # What leaves the highest confidence is said, and is no doubt of a verdict that has it.
    lowering = [each for each in recorded if each.leaves != level or level != LEVELS[0]]
    doubts = [*own, *lowering] if is_few else [*lowering, *own]
    return replace(
        verdict,
        headline=f"{first.sentence} {verdict.headline}" if first else verdict.headline,
        confidence=level,
        why=[*_sentences(recorded), *reasons, *_sentences(own)][:_MOST],
        try_next=[*_advice(recorded), *verdict.try_next],
        doubts=_sentences(doubts),
        lowered_by=[
            FoundDoubt(each.doubt.code, each.sentence, each.doubt.stated or each is first)
            for each in (*doubts, *(each for each in found if each.doubt.stated))
        ],
    )


def _found(case: Case) -> list[_Found]:
    found: list[_Found] = []
    is_judged = case.verdict.regime != UNKNOWN and case.verdict.margin is not None
    for doubt in DOUBTS:
        if not (doubt.of_recorder or is_judged):
            continue
        others = [each for each in found if not each.doubt.of_recorder]
        if doubt.if_sure and _left(case, others) != LEVELS[0]:
            continue
        if any(each.doubt.code in doubt.unless for each in found):
            continue
        sentence = doubt.says(case)
        if sentence is not None:
            leaves = doubt.caps(case) if callable(doubt.caps) else doubt.caps
            turns = doubt.turns(case) if callable(doubt.turns) else doubt.turns
            found.append(_Found(doubt, sentence, leaves, turns))
    return found


def _left(case: Case, found: Sequence[_Found]) -> str:
    """The confidence that these doubts leave."""
    if case.verdict.regime == UNKNOWN:
        return "none"
    lower = sum(each.leaves is None for each in found)
    level = LEVELS[min(lower, len(LEVELS) - 1)]
    return min([level, *(each.leaves for each in found if each.leaves)], key=_ASCENDING.index)


def _without_regime(case: Case, blocking: Sequence[_Found]) -> Verdict:
    """The verdict where the recorder's faults leave no regime. The remaining reasons and prices are
    only about the work that happened to be recorded."""
    sentences, rest = _sentences(blocking), case.verdict.why[:1]
    if forbids_verdicts(case.evidence.health):
        rest = []
    return replace(
        case.verdict,
        headline=sentences[0],
        regime=UNKNOWN,
        bottleneck=None,
        confidence="none",
        why=[*sentences, *rest][:_MOST],
        savings=[],
        margin=None,
        try_next=_advice(blocking),
        doubts=sentences,
        lowered_by=[
            FoundDoubt(each.doubt.code, each.sentence, each is blocking[0]) for each in blocking
        ],
    )


def _sentences(found: Sequence[_Found]) -> list[str]:
    return [each.sentence for each in found]


def _advice(found: Sequence[_Found]) -> list[str]:
    """What to record instead."""
    return [words("record")[each.doubt.code] for each in found]
