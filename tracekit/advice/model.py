"""The fix list: what to change, where, and what each change is worth.

The structs here are the JSON of `tracekit advise --json`, key for key.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from tracekit.causes import LIMITS, UNKNOWN_LIMIT
from tracekit.database.remedies import Remedy, find_remedy
from tracekit.records import Shown

SCHEMA = "tracekit/advice/1"


class AdvisedPlace(Struct, frozen=True):
    """One of a change's call sites."""

    where: str
    """A Python line, module, operator or kernel."""
    detail: str | None
    """A detail, such as a size."""
    count: int
    """The number of the window's calls or GPU ops that it changes there."""
    saves_ns: int
    """How much it saves there alone."""
    share: float
    """saves_ns over the window's length without one-off events."""
    change: str
    """The change as `tracekit whatif` takes it."""


class Advice(Struct, frozen=True):
    """A change to the program, and how much it would save alone."""

    remedy: str
    """Its name; `tracekit advise --how NAME` says how to do it."""
    title: str
    """What to do, as an imperative."""
    cause: str
    """The cause of time that it reduces (tracekit/causes.py); if there are several, the one whose
    removal gains most in the window."""
    where: str | None
    """A Python line, module, operator or kernel (the one that saves most); None: the run as a
    whole."""
    detail: str | None
    """A detail, such as a size."""
    count: int
    """The number of the window's calls, GPU ops or events that it changes."""
    saves_ns: int
    """The window's length minus its length in a replay with this change alone, at all of its call
    sites; for a one-off event, its excess."""
    share: float | None
    """saves_ns over the window's length without one-off events; None: it is saved once."""
    once: bool
    """Whether it is about one-off events."""
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
    """The plugin whose remedy it is; null: it is tracekit's own."""


class CombinationStep(Struct, frozen=True):
    """What one piece of advice adds to the previous ones."""

    remedy: str
    """Its name."""
    where: str | None
    """Its place."""
    adds_ns: int
    """What it saves beyond the previous ones."""


class BestCombination(Struct, frozen=True):
    """The best combination of changes.

    It is found greedily: each round adds the advice that then saves most.
    """

    saves_ns: int
    """What they save together."""
    share: float
    """saves_ns over the window's length."""
    additions: list[CombinationStep]
    """The advice in the order in which it is added."""
    changes: list[str]
    """The changes as `tracekit whatif` takes them."""
    bound_by: dict[str, float]
    """The changed window's critical path by cause: shares of its length."""
    host_gain: float
    """The gain from then halving the host's work, as a fraction of the changed window."""
    device_gain: float
    """The gain from then halving the device's work, as a fraction of the changed window."""
    then: str = ""
    """What bounds the run then, as a sentence."""


class NotChecked(Struct, frozen=True):
    """Remedies that were not looked for, and why: what was not recorded, or does not repeat."""

    remedies: list[str]
    """Their names."""
    missing: str
    """What was not recorded, and how to record it; or why they do not apply to the recording."""


class FixList(Shown, frozen=True):
    """Possible changes to a run; the highest saving comes first, one-offs come last."""

    form: ClassVar[str] = SCHEMA

    trace: str
    """The trace's path."""
    window: str
    """The window's name."""
    window_ns: int
    """The window's length without one-off events."""
    bottleneck: str | None
    """The verdict's: the cause whose removal gains most. The list shows how much of it can be
    gained."""
    advice: list[Advice]
    """What to change; the highest saving comes first."""
    together: BestCombination | None
    """It has one change if no other adds to that. None: no change to a step saves enough."""
    unlooked: list[NotChecked]
    """Remedies that could not be looked for."""
    notes: list[str]
    """How the list relates to the verdict's bottleneck; why the list is empty."""
    unsure: list[Advice] = field(default_factory=list)
    """Changes that were found but are not advised: the trace has too few ops to represent a run, or
    does not tell what bounds it. The notes say so."""


def is_against(advice: Advice, bottleneck: str | None) -> bool:
    """Whether a piece of advice reduces a bottleneck. What limits kernels, math or memory, is
    rarely certain: less of either makes them faster."""
    causes, of_kernels = {*remedy_of(advice).causes}, {*LIMITS, UNKNOWN_LIMIT}
    return bottleneck in (causes | of_kernels if causes & of_kernels else causes)


def misses(advice: Advice, bottleneck: str | None) -> bool:
    """Whether a piece of advice reduces a cause of the step's time that is not the bottleneck."""
    of = remedy_of(advice)
    is_other = bottleneck is not None and not is_against(advice, bottleneck)
    return is_other and not (advice.once or of.is_batch or of.is_elsewhere)


def remedy_of(advice: Advice) -> Remedy:
    """The remedy of a piece of advice. One that is not known here, such as that of a plugin in a
    stored verdict, has what the advice says."""
    return find_remedy(advice.remedy) or Remedy(
        advice.remedy, advice.title, (advice.cause,), advice.needs,
        before="", after="", risks="", check="", sources=(), effort=advice.effort,
    )  # fmt: skip
