"""Collects what makes ranks late now and then: what takes longer than in the median step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tracekit.causes import CAUSES
from tracekit.database.session import Session
from tracekit.evidence.run import Lateness
from tracekit.replay.ranks.stragglers import Pricing

# The calls that are named, most frequent first.
_NAMED = 3


def lateness_of(database: Session, pricing: Pricing) -> Lateness | None:
    """What the ranks' steps take beyond the median step, and calls beyond their usual time; None:
    they cannot be compared, or take no longer."""
    joined, peers = pricing.joined, pricing.peers
    numbers = {trace_id: number for number, trace_id in enumerate(joined.trace_ids)}
    stops = _stops(database, pricing, numbers)
    for row in stops:
        own = peers.stops.setdefault(numbers[row["trace_id"]], {})
        own[row["event_id"]] = row["dur_ns"] - row["usual_ns"]
    run = pricing.steady()
    saves_ns = 0 if run is None else pricing.saved(run)
    if saves_ns < database.thresholds.named_gain * pricing.before.span_ns:
        return None
    excess = np.zeros((2, len(CAUSES)), np.int64)
    for number in numbers.values():
        steady = peers.steady(number)
        if steady is not None:
            excess += (peers.totals(number) - steady).sum(axis=1)
    _, cause = np.unravel_index(excess.argmax(), excess.shape)
    names = Counter(row["name"] for row in stops)
    return Lateness(
        saves_ns=saves_ns,
        cause=CAUSES[int(cause)],
        excess_ns=int(excess.sum()),
        stops=len(stops),
        stopped_ranks=len({row["trace_id"] for row in stops}),
        stopped_ns=sum(row["dur_ns"] - row["usual_ns"] for row in stops),
        longest_ns=max((row["dur_ns"] for row in stops), default=0),
        kinds=len(names),
        places=[name for name, _ in names.most_common(_NAMED)],
    )


def _stops(database: Session, pricing: Pricing, numbers: dict[int, int]) -> list[dict[str, Any]]:
    """The calls that stop, without those that happened once in the run."""
    rows = [row for row in database.ask("rank_stops") if row["trace_id"] in numbers]
    stopped = {numbers[row["trace_id"]] for row in rows}
    own_ns = {number: pricing.peers.host_ns(number) for number in stopped}
    return [
        row
        for row in rows
        if own_ns[numbers[row["trace_id"]]].get(row["event_id"], 0) > row["usual_ns"]
    ]
