"""Collects what happened once in a run of several ranks."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tracekit.replay.one_offs import OneOff, without
from tracekit.replay.ranks.rank_replay import RankReplay
from tracekit.replay.simulator import Scale


def once_of(joined: RankReplay) -> tuple[dict[str, int], list[Scale] | None]:
    """What the hosts of a run's ranks did once, in ns by cause: the longest of a rank in each step,
    since the ranks wait for each other. And the scales of a replay without it; None: nothing.

    What one rank does once, and another one in another step, recurs: it is no one-off of the run
    in as many steps as show what is usual.
    """
    thresholds = joined.database.thresholds
    found = [
        [(each, _step(joined, number, each)) for each in replay.one_offs if each.on_host]
        for number, replay in enumerate(joined.replays)
    ]
    steps: dict[str, set[int]] = defaultdict(set)
    for each, step in (pair for own in found for pair in own):
        steps[each.cause].add(step)
    once = {cause for cause, those in steps.items() if len(those) < thresholds.fewest_alike}
    if not joined.step_names:
        once = {*steps}
    chosen = [[each for each, _ in own if each.cause in once] for own in found]
    if not any(chosen):
        return {}, None
    longest: dict[tuple[str, int], int] = defaultdict(int)
    for own in found:
        totals: dict[tuple[str, int], int] = defaultdict(int)
        for each, step in own:
            totals[each.cause, step] += each.excess_ns * (each.cause in once)
        for key, ns in totals.items():
            longest[key] = max(longest[key], ns)
    by_cause: dict[str, int] = defaultdict(int)
    for (cause, _), ns in longest.items():
        by_cause[cause] += ns
    scales = [
        without(own, replay.graph) for own, replay in zip(chosen, joined.replays, strict=True)
    ]
    return {cause: ns for cause, ns in by_cause.items() if ns}, scales


def _step(joined: RankReplay, number: int, one_off: OneOff) -> int:
    """The step of a run, counted among those that all ranks recorded, in which a rank's one-off
    begins; -1: before them."""
    replay, names = joined.replays[number], joined.step_names
    if not names:
        return -1
    host = replay.graph.host
    begins = host.time_of(replay.steps.begin[[replay.steps.names.index(name) for name in names]])
    at = host.time_of(np.array([one_off.begin]))
    return int(np.searchsorted(begins, at, "right")[0]) - 1
