"""The fix list: what to change, where, and what each change saves.

The structs define the JSON of `tracekit advise --json`.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from tracekit.causes import LIMITS, UNKNOWN_LIMIT
from tracekit.database.remedies import Remedy, find_remedy
from tracekit.records import Shown

SCHEMA = "tracekit/advice/1"
TOGETHER = 5
"""The changes, first in the list, whose saving together is priced."""


class AdvisedPlace(Struct, frozen=True):
    """One of a change's call sites."""

    where: str
    """A Python line, module, operator or kernel."""
    detail: str | None
    """A detail, such as a size."""
    count: int
    """The number of calls or GPU ops in the window that it changes there."""
    saves_ns: int
    """The saving at this call site alone."""
    share: float
    """saves_ns over the window's length without one-off events."""
    change: str
    """The change as `tracekit whatif` takes it."""


class Advice(Struct, frozen=True):
    """A change to the program, and how much it saves by itself."""

    remedy: str
    """Its name; `tracekit advise --how NAME` says how to do it."""
    title: str
    """What to do, as an imperative."""
    cause: str
    """The cause of time that it reduces (tracekit/causes.py); if several, the one whose removal
    gains most in the window."""
    where: str | None
    """The call site that saves most: a Python line, module, operator or kernel; None: the whole
    run."""
    detail: str | None
    """A detail, such as a size."""
    count: int
    """The number of calls, GPU ops or events in the window that it changes."""
    saves_ns: int
    """The window's length minus its length in a replay with this change alone, at all of its call
    sites; for a one-off event, its excess."""
    share: float | None
    """saves_ns over the window's length without one-off events; None: saved only once."""
    once: bool
    """Whether it concerns one-off events."""
    effort: str
    """low, medium or high."""
    needs: str
    """Conditions under which it works."""
    doubts: list[str]
    """Why its price is doubtful."""
    change: str | None
    """The change as `tracekit whatif` takes it."""
    places: list[AdvisedPlace] = field(default_factory=list)
    """The call sites that save most alone, if there are several."""
    plugin: str | None = None
    """The plugin that provides the remedy; null: tracekit itself."""


class CombinationStep(Struct, frozen=True):
    """The saving that one piece of advice adds to the previous ones."""

    remedy: str
    """Its name."""
    where: str | None
    """Its place."""
    adds_ns: int
    """The saving beyond the previous ones."""


class BestCombination(Struct, frozen=True):
    """The best combination of changes.

    It is found greedily: each round adds the advice that then saves most.
    """

    saves_ns: int
    """Their combined saving."""
    share: float
    """saves_ns over the window's length."""
    additions: list[CombinationStep]
    """The advice in the order in which it is added."""
    changes: list[str]
    """The changes as `tracekit whatif` takes them."""
    bound_by: dict[str, float]
    """Shares of the changed window's critical path, by cause."""
    host_gain: float
    """The further gain from halving the host's work, as a fraction of the changed window."""
    device_gain: float
    """The further gain from halving the device's work, as a fraction of the changed window."""
    then: str = ""
    """A sentence on what bounds the changed run."""


class NotChecked(Struct, frozen=True):
    """Remedies that were skipped, and why: missing data, or work that does not repeat."""

    remedies: list[str]
    """Their names."""
    missing: str
    """The missing data and how to record it, or why they do not apply to the recording."""


class FixList(Shown, frozen=True):
    """Possible changes to a run, highest saving first, one-offs last."""

    form: ClassVar[str] = SCHEMA

    trace: str
    """The trace's path."""
    window: str
    """The window's name."""
    window_ns: int
    """The window's length without one-off events."""
    bottleneck: str | None
    """The verdict's bottleneck: the cause whose removal gains most. The list shows how much of that
    can be gained."""
    advice: list[Advice]
    """The changes, highest saving first."""
    together: BestCombination | None
    """The best combination; a single change if no other adds to it. None: no change to a step saves
    enough."""
    unlooked: list[NotChecked]
    """Remedies that were skipped."""
    notes: list[str]
    """How the list relates to the verdict's bottleneck, or why the list is empty."""
    unsure: list[Advice] = field(default_factory=list)
    """Candidate changes that are not advised, since the trace has too few ops to represent a run or
    does not show what bounds it. The notes say so."""
    first_ns: int | None = None
    """What the first five changes to recurring work save together; null: fewer than two."""


def is_against(advice: Advice, bottleneck: str | None) -> bool:
    """Whether a piece of advice reduces a bottleneck. Whether math or memory limits kernels is
    rarely certain, and less of either makes them faster."""
    causes, of_kernels = {*remedy_of(advice).causes}, {*LIMITS, UNKNOWN_LIMIT}
    return bottleneck in (causes | of_kernels if causes & of_kernels else causes)


def misses(advice: Advice, bottleneck: str | None) -> bool:
    """Whether a piece of advice reduces a cause of the step's time that is not the bottleneck."""
    of = remedy_of(advice)
    is_other = bottleneck is not None and not is_against(advice, bottleneck)
    return is_other and not (advice.once or of.is_batch or of.is_elsewhere)


def remedy_of(advice: Advice) -> Remedy:
    """The remedy behind a piece of advice. An unknown one, such as a plugin's in a stored verdict,
    is rebuilt from the advice."""
    return find_remedy(advice.remedy) or Remedy(
        advice.remedy, advice.title, (advice.cause,), advice.needs,
        before="", after="", risks="", check="", sources=(), effort=advice.effort,
    )  # fmt: skip
