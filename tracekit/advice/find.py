"""Finds possible changes to a run: asks each remedy's query, and prices its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.advice.catalogue import EFFORTS, Remedy, catalogue
from tracekit.advice.model import (
    Advice,
    AdvisedPlace,
    AdvisedWindow,
    BestCombination,
    CombinationStep,
    FixList,
    NotChecked,
)
from tracekit.advice.places import Place, PricedPlace, find_places, price_alone
from tracekit.causes import OF_DEVICE, OF_HOST
from tracekit.replay.changes import query_of
from tracekit.replay.prices import STALLED, Prices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tracekit.replay.model import Gains
    from tracekit.replay.one_offs import OneOff
    from tracekit.replay.prices import WindowGains
    from tracekit.replay.replay import Replay
    from tracekit.thresholds import Thresholds

_WARM = "warm-up"
_ALLOCATOR = "allocator"


def find(
    gains: WindowGains,
    judged: AdvisedWindow,
    findings: Sequence[tuple[str, str, str]],
    missing: Mapping[str, str],
    thresholds: Thresholds,
    *,
    combine: bool,
) -> FixList:
    """Possible changes in a window of a trace; those that save most come first.

    One-offs come last, or first if they take longer than the rest of the window.
    `findings` are the code, severity and message of each problem of the trace, and `missing` the
    messages about what was not recorded, by code. Advice is listed if
    it saves the share `advised_gain` of the window. With `combine`, the list also has the best
    combination.
    """
    replay = gains.replay
    prices = Prices(replay, gains.window(judged.kind, judged.number))
    of_window = gains.gains(judged.kind, judged.number)
    least_ns = max(1, thresholds.advised_gain * prices.window_ns)
    # Changes together can save more than their sum.
    least_share = thresholds.advised_gain / 2
    absent = {**missing} | {code: message for code, _, message in findings}
    looked, unlooked = _applicable(replay, absent)
    if 0 < replay.graph.ops < thresholds.few_ops:
        looked = []
    is_cold = any(code == "cold_start" for code, _, _ in findings)
    # Code that is loaded once is not a loop.
    repeats = judged.repeats and not is_cold
    looked = [
        each
        for each in looked
        if (repeats or not each.in_loops)
        # In a combination, a change that gains nothing now may gain later.
        and (combine or _at_most(each, of_window) >= least_share)
    ]
    replay.remedies.ask(each.name for each in looked)
    priced: list[PricedPlace] = []
    for remedy in looked:
        rows = replay.remedies.rows(remedy.name)
        at = find_places(remedy, rows, judged.start_ns, judged.end_ns, thresholds.most_places)
        priced += [
            price_alone(each, prices, least_ns) for each in at if each.at_most_ns >= least_ns
        ]
    worth = _ranked([each for each in priced if each.saves_ns >= least_ns], thresholds)
    together: BestCombination | None = None
    if combine:
        # Includes changes that save nothing alone: another bottleneck may hide their gain.
        others = [each for each in priced if each not in worth]
        others.sort(key=lambda each: -each.place.at_most_ns)
        mine = [each for each in [*worth, *others] if _is_combined(each.place.remedy)]
        together = _together(mine[: thresholds.most_combined], prices, least_ns)
    # A larger batch saves time per sample, not time of this step: it has its own list.
    if looked and repeats and of_window.host >= thresholds.small_gain:
        main = max(OF_HOST, key=lambda cause: of_window.removed.get(cause, 0.0))
        batches = [
            each
            for each in catalogue().values()
            if each.is_batch and not each.has_query and main in each.causes
        ]
        larger = (_larger_batch(each, prices, thresholds.free_growth) for each in batches)
        worth += [each for each in larger if each and each.saves_ns >= least_ns]
    doubted = {code: message for code, severity, message in findings if severity != "info"}
    listed = [_advice(each, prices.window_ns, of_window.removed, doubted) for each in worth]
    # Once in the whole run: one-offs are compared with its length.
    whole_ns = gains.gains("trace", 0).window_ns
    once = _once(replay.one_offs, _recurring(replay), max(1, thresholds.advised_gain * whole_ns))
    if is_cold:
        once = [_warm(replay, once), *(each for each in once if each.remedy != _WARM)]
    is_start = is_cold or sum(each.saves_ns for each in once) > whole_ns
    return FixList(
        trace=replay.database.name,
        window=judged.name,
        window_ns=prices.window_ns,
        bottleneck=None,
        advice=[*once, *listed] if is_start else [*listed, *once],
        together=together,
        unlooked=unlooked,
        notes=[],
    )


def _larger_batch(remedy: Remedy, prices: Prices, growth: float) -> PricedPlace | None:
    """The largest batch that fits into the host's slack."""
    found = prices.larger_batch(growth)
    if found is None:
        return None
    times, length = found
    detail = f"{times} times as large in {length / prices.window_ns:.2f} times the time"
    place = Place(remedy, None, detail, 1, f"batch*{times}", prices.window_ns)
    return PricedPlace(place, prices.window_ns - round(length / times))


def _together(priced: list[PricedPlace], prices: Prices, least_ns: float) -> BestCombination | None:
    """The best combination of the changes that were priced alone."""
    places = [each.place for each in priced]
    found = prices.combined(
        [each.change for each in places], [each.saves_ns for each in priced], least_ns
    )
    if found is None:
        return None
    taken = [(places[number], adds_ns) for number, adds_ns in found.taken]
    return BestCombination(
        saves_ns=found.saves_ns,
        share=found.saves_ns / prices.window_ns,
        additions=[
            CombinationStep(each.remedy.name, each.where, adds_ns) for each, adds_ns in taken
        ],
        changes=[each.change for each, _ in taken],
        bound_by=found.bound_by,
        host_gain=found.host_gain,
        device_gain=found.device_gain,
    )


def _is_combined(remedy: Remedy) -> bool:
    return not remedy.is_apart and not remedy.is_batch


def _ranked(priced: list[PricedPlace], thresholds: Thresholds) -> list[PricedPlace]:
    """The highest saving first; the least effort first if a replay can hardly tell the savings
    apart."""
    ranked: list[PricedPlace] = []
    for each in sorted(priced, key=lambda each: -each.saves_ns):
        at = len(ranked)
        while at and _is_easier(each, ranked[at - 1], thresholds):
            at -= 1
        ranked.insert(at, each)
    return sorted(ranked, key=lambda each: (each.place.remedy.is_apart, each.place.remedy.is_batch))


def _is_easier(one: PricedPlace, other: PricedPlace, thresholds: Thresholds) -> bool:
    efforts = (EFFORTS.index(each.place.remedy.effort) for each in (one, other))
    close_ns = (1 - thresholds.price_error) * other.saves_ns
    return one.saves_ns >= close_ns and next(efforts) < next(efforts)


def _at_most(remedy: Remedy, gains: Gains) -> float:
    """An upper bound of a remedy's gain: from removing the causes of its sides. A wait may belong
    to another cause of the same side."""
    sides = (OF_HOST, OF_DEVICE)
    causes = {cause for side in sides if set(remedy.causes) & set(side) for cause in side}
    return sum(gains.removed.get(cause, 0.0) for cause in causes)


def _applicable(
    replay: Replay, missing: Mapping[str, str]
) -> tuple[list[Remedy], list[NotChecked]]:
    """The remedies to look for, and those that cannot be looked for in this trace."""
    database = replay.database
    looked = []
    unlooked: dict[str, list[str]] = {}
    for remedy in catalogue().values():
        if not remedy.has_query or (not replay.graph.ops and "no_gpu_ops" in remedy.codes):
            continue
        if not database.is_possible(query_of(remedy.name)):
            continue
        lacking = [missing[code] for code in remedy.blind if code in missing]
        if lacking:
            unlooked.setdefault("; ".join(lacking), []).append(remedy.name)
        else:
            looked.append(remedy)
    return looked, [NotChecked(names, message) for message, names in unlooked.items()]


def _advice(
    priced: PricedPlace, window_ns: int, removed: dict[str, float], doubted: dict[str, str]
) -> Advice:
    whole, remedy = priced.place, priced.place.remedy
    best = priced.parts[0].place if priced.parts else whole
    # The first one, if gains are equal.
    cause = max(remedy.causes, key=lambda each: removed.get(each, 0.0))
    return Advice(
        remedy=remedy.name,
        title=remedy.title,
        cause=cause,
        where=best.where,
        detail=best.detail,
        count=whole.count,
        saves_ns=priced.saves_ns,
        share=priced.saves_ns / window_ns,
        once=False,
        effort=remedy.effort,
        needs=remedy.needs,
        doubts=[each for each in [remedy.caveat] if each]
        + [doubted[code] for code in remedy.codes if code in doubted],
        change=whole.change,
        places=[
            AdvisedPlace(
                where=each.place.where or "",
                detail=each.place.detail,
                count=each.place.count,
                saves_ns=each.saves_ns,
                share=each.saves_ns / window_ns,
                change=each.place.change,
            )
            for each in priced.parts
        ],
    )


def _recurring(replay: Replay) -> dict[str, list[tuple[int, int]]]:
    """By remedy: the event and start of work that recurs, although parts of it are long enough to
    be one-offs."""
    causes = {each.cause for each in replay.one_offs}
    found = {}
    for name in (_ALLOCATOR, STALLED):
        if causes & set(catalogue()[name].causes) and replay.database.is_possible(query_of(name)):
            rows = replay.remedies.rows(name)
            found[name] = list(
                zip(rows["event_id"].tolist(), rows["start_ns"].tolist(), strict=True)
            )
    return found


def _recurs(event: OneOff, found: dict[str, list[tuple[int, int]]]) -> str | None:
    """The remedy for recurring work that an event belongs to: by itself, or by what it
    allocates."""
    if any(event.event_id == event_id for event_id, _ in found.get(STALLED, [])):
        return STALLED
    until_ns = event.start_ns + event.dur_ns
    if event.cause == "allocation" and any(
        event.start_ns <= start_ns < until_ns for _, start_ns in found.get(_ALLOCATOR, [])
    ):
        return _ALLOCATOR
    return None


def _once(
    one_offs: Sequence[OneOff], recurring: dict[str, list[tuple[int, int]]], least_ns: float
) -> list[Advice]:
    """Advice on one-offs, a line for each remedy."""
    found = []
    owner = {id(each): _recurs(each, recurring) for each in one_offs}
    for remedy in catalogue().values():
        mine = [
            each
            for each in one_offs
            if owner[id(each)] == remedy.name or (not owner[id(each)] and _answers(remedy, each))
        ]
        saves_ns = sum(each.excess_ns for each in mine)
        if not mine or saves_ns < least_ns:
            continue
        longest = max(mine, key=lambda each: each.excess_ns)
        found.append(
            _of_once(
                remedy, longest.cause, _place_of(longest), len(mine), saves_ns,
                [remedy.caveat] if remedy.caveat else [],
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: -each.saves_ns)


def _warm(replay: Replay, once: Sequence[Advice]) -> Advice:
    """Advice to record a warm run, where launches load code."""
    asked = "FROM cold_launches(thresholds().cold_launch_ns, thresholds().late_launch_ns)"
    cold = replay.database.rows_of_trace(asked, replay.trace_id)
    saves_ns, remedy = sum(ns for *_, ns in cold), catalogue()[_WARM]
    found = [each for each in once if each.remedy == _WARM and each.saves_ns >= saves_ns]
    return found[0] if found else _of_once(remedy, "launch", None, len(cold), saves_ns, [])


def _of_once(
    remedy: Remedy, cause: str, where: str | None, count: int, saves_ns: int, doubts: list[str]
) -> Advice:
    """Advice on a one-off: its price is not a share of a step, and comes from no replay."""
    return Advice(
        remedy.name, remedy.title, cause, where, None, count, saves_ns, share=None, once=True,
        effort=remedy.effort, needs=remedy.needs, doubts=doubts, change=None,
    )  # fmt: skip


def _place_of(event: OneOff) -> str | None:
    """Its name, if that shows a call site of the program: a built-in function's name does not."""
    return None if event.name and event.name.startswith("<built-in ") else event.name


def _answers(remedy: Remedy, event: OneOff) -> bool:
    # Weights and checkpoints are copied when they are needed: there is nothing to change. And the
    # length of events that the end of the recording cut off is unknown.
    if event.kind in ("copies", "unended") or (event.ops and event.cause == "copy"):
        return False
    return ("capture" if event.kind == "capture" else event.cause) in remedy.once
