"""What a verdict is made from, and what a doubt about it is."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tracekit.evidence.model import Evidence, Finding, Period
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Verdict
from tracekit.verdict.regime import Bound


class Basis(Struct, frozen=True):
    """What a verdict rests on."""

    evidence: Evidence
    thresholds: Thresholds
    bound: Bound | None = None
    """What bounds the window by its replays; None: no device was recorded, or there is nothing to
    replay."""

    @property
    def period(self) -> Period:
        """The window that is judged."""
        return self.evidence.period

    def finding(self, code: str) -> Finding | None:
        """The trace's finding of this code."""
        return next((each for each in self.evidence.health if each.code == code), None)


class Case(Basis, frozen=True, kw_only=True):
    """A verdict in the making, and what it rests on. Refinements and doubts are functions of it."""

    verdict: Verdict
    """As the refinements so far leave it."""


class Doubt(Struct, frozen=True):
    """Something that lowers the confidence of a verdict."""

    code: str
    """Its name; of the recorder's, the finding's code."""
    says: Callable[[Case], str | None]
    """Its sentence; None: the case is not doubtful in this way."""
    turns: bool | Callable[[Case], bool] = False
    """Whether it could turn the verdict: such doubts come first, as a screen may have room for
    one."""
    caps: str | Callable[[Case], str | None] | None = None
    """The highest confidence that it leaves; `none`: the regime is unknown; None: one level less
    than without it."""
    stated: bool = False
    """The first sentence or the margin says it, so its sentence is not given again."""
    if_sure: bool = False
    """It matters only if nothing else is doubtful."""
    unless: tuple[str, ...] = ()
    """Codes of doubts before it that say more."""
    of_recorder: bool = False
    """It is about what the recorder left out or added, so it also matters where the regime is
    unknown, and comes before the reasons."""
    opens: bool = False
    """Of the recorder's: it may come before the first sentence."""
