"""The fix list: what to change, where, and what each change is worth.

The dataclasses here are the JSON of `tracekit advise --json`, key for key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tracekit.records import Shown

SCHEMA = "tracekit/advice/1"


@dataclass(frozen=True)
class AdvisedWindow:
    """The window that advice is about, as the replay and as the tables know it."""

    kind: str
    number: int
    name: str
    start_ns: int
    end_ns: int
    repeats: bool
    """Whether most of the trace's kernels run again and again."""


@dataclass(frozen=True)
class AdvisedPlace:
    """One of the places of a change."""

    where: str
    """A Python line, module, operator or kernel."""
    detail: str | None
    """What about it, such as a size."""
    count: int
    """How many calls or GPU ops of the window it changes there."""
    saves_ns: int
    """What it saves there alone."""
    share: float
    """saves_ns over the window's length without one-off events."""
    change: str
    """The change as `tracekit whatif` takes it."""


@dataclass(frozen=True)
class Advice:
    """A change to the program at one place, and what it would save alone."""

    remedy: str
    """Its name; `tracekit advise --how NAME` tells how to do it."""
    title: str
    """What to do, as an imperative."""
    cause: str
    """The cause of time that it lessens (tracekit/causes.py); of several, the one whose removal
    gains most in the window."""
    where: str | None
    """A Python line, module, operator or kernel, of several the one that saves most; None: the run
    as a whole."""
    detail: str | None
    """What about it, such as a size."""
    count: int
    """How many calls, GPU ops or events of the window it changes."""
    saves_ns: int
    """The window's length less its length in a replay with this change alone, at all of its places;
    of a one-off event, its excess."""
    share: float | None
    """saves_ns over the window's length without one-off events; None: it is saved once."""
    once: bool
    """Whether it is about what happened once."""
    effort: str
    """low, medium or high."""
    needs: str
    """What has to hold for it to work."""
    doubts: list[str]
    """What makes its price doubtful."""
    change: str | None
    """The change as `tracekit whatif` takes it."""
    places: list[AdvisedPlace] = field(default_factory=list)
    """Of a change at several places, those that save most alone."""


@dataclass(frozen=True)
class CombinationStep:
    """What one piece of advice adds to those before it."""

    remedy: str
    """Its name."""
    where: str | None
    """Its place."""
    adds_ns: int
    """What it saves beyond those before it."""


@dataclass(frozen=True)
class BestCombination:
    """What the best combination gives.

    It is found greedily: at each turn, the advice that then saves most.
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
    """What halving the host's work would gain then, as a fraction of the changed window."""
    device_gain: float
    """The same with the device's work."""


@dataclass(frozen=True)
class NotChecked:
    """Remedies that could not be looked for, and what was not recorded."""

    remedies: list[str]
    """Their names."""
    missing: str
    """What was not recorded, and how to record it."""


@dataclass(frozen=True, repr=False)
class FixList(Shown, form=SCHEMA):
    """What could be changed in a run, most worth first; what happened once comes last."""

    trace: str
    """The trace's path."""
    window: str
    """The window's name."""
    window_ns: int
    """The window's length without one-off events."""
    bottleneck: str | None
    """The verdict's: the cause whose removal gains most. What can be had of it, the list tells."""
    advice: list[Advice]
    """What to change, most worth first."""
    together: BestCombination | None
    """Of one change, if no other adds to it. None: no change to a step saves enough."""
    unlooked: list[NotChecked]
    """Remedies that could not be looked for."""
    notes: list[str]
    """How the list and the verdict's bottleneck go together; why the list is empty."""
