"""The case that a verdict is built from, and doubts about it."""

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
    """The window's bound according to replays; None: no device was recorded, or there is nothing
    to replay."""

    @property
    def period(self) -> Period:
        """The window that is judged."""
        return self.evidence.period

    def finding(self, code: str) -> Finding | None:
        """The trace's finding with this code."""
        return next((finding for finding in self.evidence.health if finding.code == code), None)


class Case(Basis, frozen=True, kw_only=True):
    """An unfinished verdict and what it rests on: the input of refinements and doubts."""

    verdict: Verdict
    """The verdict after the refinements so far."""


class Doubt(Struct, frozen=True):
    """Something that lowers the confidence of a verdict."""

    code: str
    """The doubt's name; for doubts about the recorder, the finding's code."""
    says: Callable[[Case], str | None]
    """Returns the sentence; None: the doubt does not apply."""
    turns: bool | Callable[[Case], bool] = False
    """Whether it could change the verdict. Such doubts come first, since the first screen may show
    only one."""
    caps: str | Callable[[Case], str | None] | None = None
    """The highest confidence with this doubt; `none`: the regime is unknown; None: one level lower
    than without it."""
    stated: bool = False
    """Whether the first sentence or the margin already says it, so its sentence is not repeated."""
    if_sure: bool = False
    """Whether it matters only if there are no other doubts."""
    unless: tuple[str, ...] = ()
    """Codes of earlier doubts that say more."""
    of_recorder: bool = False
    """Whether it is about missing or added data in the recording. Such a doubt also matters if the
    regime is unknown, and comes before the reasons."""
    opens: bool = False
    """Whether a doubt about the recorder may come before the first sentence."""
