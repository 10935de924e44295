"""Two runs of lakes -> the two traces that stand for them in a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracekit.errors import TracekitError
from tracekit.ingest.resources import Resources
from tracekit.lake.layout import Rank, selection
from tracekit.lake.reading import Lake, open_pairs, selected
from tracekit.lake.storage import storage


@dataclass(frozen=True)
class Pair:
    """Two opened traces, by their trace_ids, and how many others each of them stands for."""

    lake: Lake
    a: int
    b: int
    note: str


def open_pair(a: str, b: str, resources: Resources | None = None) -> Pair:
    """Opens one trace of each of two lakes, or parts of lakes: the first rank that both have.

    Raises:
        TracekitError: when a path selects several runs, or they have no rank in common.
    """
    sides = []
    for path in (a, b):
        where = selection(path)
        ranks = selected(where)
        runs = sorted({each.run for each in ranks})
        if len(runs) > 1:
            shown = ", ".join(runs[:8])
            raise TracekitError(
                f"{path}: holds several runs: choose one, as LAKE/run=NAME: {shown}"
            )
        sides.append((storage(where.root), ranks))
    (store_a, ranks_a), (store_b, ranks_b) = sides
    first, second = common(ranks_a, ranks_b)
    lake = open_pairs([(first, store_a), (second, store_b)], resources or Resources())
    counts = [len(ranks) for ranks in (ranks_a, ranks_b)]
    return Pair(lake, first.trace_id, second.trace_id, _note(first, second, counts))


def common(a: Sequence[Rank], b: Sequence[Rank]) -> tuple[Rank, Rank]:
    """The first rank that two runs have in common.

    Raises:
        TracekitError: when they have none.
    """
    if len(a) == len(b) == 1:
        return a[0], b[0]
    others = {each.name: each for each in b}
    for each in a:
        if each.name in others:
            return each, others[each.name]
    raise TracekitError(
        f"run {a[0].run!r} and run {b[0].run!r} have no rank in common: choose one of each, as "
        "LAKE/run=NAME/rank=N"
    )


def _note(first: Rank, second: Rank, counts: Sequence[int]) -> str:
    if max(counts) == 1:
        return ""
    return (
        f"compares {first.name} of run {first.run!r}, which has {counts[0]:,}, with {second.name} "
        f"of run {second.run!r}, which has {counts[1]:,}"
    )
