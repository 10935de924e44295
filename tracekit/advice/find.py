"""Finds what could be changed in a run: asks each remedy's query, and prices what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.advice.catalogue import Remedy, catalogue
from tracekit.advice.model import Advice, FixList, Together, Unlooked
from tracekit.advice.prices import Priced, Prices, places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracekit.database.reader import Reader
    from tracekit.replay.gains import WindowGains
    from tracekit.replay.one_offs import OneOff
    from tracekit.thresholds import Thresholds


@dataclass(frozen=True)
class Judged:
    """The window that advice is about, as the replay and as the tables know it."""

    kind: str
    number: int
    name: str
    start_ns: int
    end_ns: int


def find(gains: WindowGains, judged: Judged, thresholds: Thresholds, *, combine: bool) -> FixList:
    """What could be changed in a window of a trace, most worth first.

    Advice is listed if it saves the share `advised_gain` of the window. With `combine`, the list
    also tells what the best combination gives.
    """
    replay = gains.replay
    database, trace_id = replay.database, replay.trace_id
    prices = Prices(gains, judged.kind, judged.number)
    least_ns = thresholds.advised_gain * prices.window_ns
    found = _findings(database, trace_id)
    unlooked: dict[str, list[str]] = {}
    priced: list[Priced] = []
    alone = gains.gains(judged.kind, judged.number)
    for remedy in catalogue().values():
        if remedy.is_batch and alone.host >= thresholds.small_gain:
            larger = prices.larger_batch(remedy, thresholds.free_growth)
            priced += [larger] if larger else []
        if not remedy.has_query or (not replay.graph.ops and "no_gpu_ops" in remedy.codes):
            continue
        lacking = [found[code][1] for code in remedy.blind if code in found]
        if lacking:
            unlooked.setdefault("; ".join(lacking), []).append(remedy.name)
            continue
        rows = replay.remedies.rows(remedy.name)
        at = places(remedy, rows, judged.start_ns, judged.end_ns, thresholds.most_places)
        priced += [prices.alone(each) for each in at if each.at_most_ns >= least_ns]
    worth = sorted(
        (each for each in priced if each.saves_ns >= max(1, least_ns)),
        # What a larger batch saves is time per sample, not of this step: it comes last.
        key=lambda each: (each.place.remedy.is_batch, -each.saves_ns),
    )
    doubted = {code: message for code, (severity, message) in found.items() if severity != "info"}
    advice = [_advice(each, prices.window_ns, alone.removed, doubted) for each in worth]
    together: Together | None = None
    steps = [each for each in worth if not each.place.remedy.is_batch]
    if combine and len(steps) > 1:
        together = prices.together(steps[: thresholds.most_combined], max(1, least_ns))
    return FixList(
        trace=database.ask("overview", trace=trace_id)[0]["path"],
        window=judged.name,
        window_ns=prices.window_ns,
        advice=advice + _once(replay.one_offs, least_ns),
        together=together,
        unlooked=[Unlooked(names, missing) for missing, names in unlooked.items()],
        notes=[],
    )


def _findings(database: Reader, trace_id: int) -> dict[str, tuple[str, str]]:
    """Severity and message of what is wrong with a trace, or missing in it, by code."""
    wrong = database.ask("health", trace=trace_id)
    missing = [{"severity": "info"} | row for row in database.ask("missing", trace=trace_id)]
    return {row["code"]: (row["severity"], row["message"]) for row in missing + wrong}


def _advice(
    priced: Priced, window_ns: int, removed: dict[str, float], doubted: dict[str, str]
) -> Advice:
    place, remedy = priced.place, priced.place.remedy
    # Of equal gains, the first.
    cause = max(remedy.causes, key=lambda each: removed.get(each, 0.0))
    return Advice(
        remedy=remedy.name,
        title=remedy.title,
        cause=cause,
        where=place.where,
        detail=place.detail,
        count=place.count,
        saves_ns=priced.saves_ns,
        share=priced.saves_ns / window_ns,
        once=False,
        effort=remedy.effort,
        needs=remedy.needs,
        doubts=[each for each in [remedy.doubts] if each]
        + [doubted[code] for code in remedy.codes if code in doubted],
        change=place.change,
    )


def _once(one_offs: Sequence[OneOff], least_ns: float) -> list[Advice]:
    """Advice on what happened once, a line for each remedy."""
    found = []
    for remedy in catalogue().values():
        mine = [each for each in one_offs if _answers(remedy, each)]
        saves_ns = sum(each.excess_ns for each in mine)
        if not mine or saves_ns < max(1, least_ns):
            continue
        longest = max(mine, key=lambda each: each.excess_ns)
        found.append(
            Advice(
                remedy=remedy.name,
                title=remedy.title,
                cause=longest.cause,
                where=longest.name,
                detail=None,
                count=len(mine),
                saves_ns=saves_ns,
                share=None,
                once=True,
                effort=remedy.effort,
                needs=remedy.needs,
                doubts=[remedy.doubts] if remedy.doubts else [],
                change=None,
            )
        )
    return sorted(found, key=lambda each: -each.saves_ns)


def _answers(remedy: Remedy, event: OneOff) -> bool:
    return ("capture" if event.kind == "capture" else event.cause) in remedy.once
