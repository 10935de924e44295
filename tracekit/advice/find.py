"""Finds possible changes to a run: runs each remedy's query and prices its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tracekit.advice.model import (
    TOGETHER,
    Advice,
    AdvisedPlace,
    BestCombination,
    CombinationStep,
    FixList,
    NotChecked,
)
from tracekit.advice.once import advice_on_once, advice_without_share
from tracekit.causes import OF_DEVICE, OF_HOST
from tracekit.database.remedies import EFFORTS, Remedy, all_remedies, query_of
from tracekit.evidence.model import Finding, Window
from tracekit.replay.changes import Rows, is_target
from tracekit.replay.model import WHOLE_TRACE, Gains, Price, WindowId
from tracekit.replay.prices import Prices, WindowGains
from tracekit.replay.replay import Replay
from tracekit.thresholds import Thresholds


class Place(Struct, frozen=True):
    """A remedy at one call site, or at all its call sites together."""

    remedy: Remedy
    where: str | None
    detail: str | None
    count: int
    change: str
    """The change as `tracekit whatif` takes it."""
    at_most_ns: int
    """An upper bound on the time that it removes, on any thread or device. For changes that also
    remove time outside their rows, the window's length."""
    parts: tuple[Place, ...] = ()
    """The call sites with the most time, if there are several."""
    price: Price = Price(0, 0)
    """The remedy's saving there; 0 before pricing."""


def find(
    gains: WindowGains,
    window_id: WindowId,
    of_window: Gains,
    window: Window,
    findings: Sequence[Finding],
    missing: Mapping[str, str],
    *,
    repeats: bool,
    combine: bool,
) -> FixList:
    """Possible changes in a window of a trace, highest saving first.

    One-offs come last, or first if they take longer than the rest of the window, or may happen
    again and cost far more.
    `of_window` has the gains in the judged part of the window. `findings` are the trace's problems,
    and `missing` the messages about data that was not recorded, by code. `repeats` says whether
    most kernels run again and again. Advice is listed if it saves the share `advised_gain` of that
    part. With `combine`, the list also has the best combination.
    """
    replay, thresholds = gains.replay, gains.replay.thresholds
    prices = Prices(replay, replay.window(window_id))
    least_ns = max(1, thresholds.advised_gain * of_window.window_ns)
    # Changes together can save more than their sum.
    least_share = thresholds.advised_gain / 2
    absent = {**missing} | {finding.code: finding.message for finding in findings}
    is_few = 0 < replay.graph.ops < thresholds.few_ops
    is_few = is_few and len(replay.steps) < thresholds.fewest_alike
    codes = {finding.code for finding in findings}
    is_cold = "cold_start" in codes
    looked, unlooked = _applicable(replay, absent, _once_only(repeats, is_cold, is_few))
    # In a combination, a change that gains nothing now may gain later.
    looked = [each for each in looked if combine or _at_most(each, of_window) >= least_share]
    replay.remedies.ask(each.name for each in looked)
    priced: list[Place] = []
    times = (window.start_ns, window.end_ns)
    for remedy in looked:
        rows = replay.remedies.rows(remedy.name)
        at = _find_places(remedy, rows, times, prices.window.on_host(times), thresholds.most_places)
        priced += [
            _price_alone(each, prices, least_ns) for each in at if each.at_most_ns >= least_ns
        ]
    worth = _ranked([each for each in priced if each.price.saves_ns >= least_ns], thresholds)
    together: BestCombination | None = None
    if combine:
        # Includes changes that save nothing alone, since another bottleneck may hide their gain.
        others = [each for each in priced if each not in worth]
        others.sort(key=lambda each: -each.at_most_ns)
        mine = [each for each in [*worth, *others] if not each.remedy.is_beside]
        together = _together(mine[: thresholds.most_combined], prices, least_ns)
    # A larger batch saves time per sample, not time of this step: it has its own list.
    if repeats and not is_cold and not is_few and of_window.host >= thresholds.small_gain:
        main = max(OF_HOST, key=lambda cause: of_window.removed.get(cause, 0.0))
        batches = [
            each
            for each in all_remedies().values()
            if each.is_batch and not each.has_query and main in each.causes
        ]
        larger = (_larger_batch(batch, prices) for batch in batches)
        worth += [each for each in larger if each and each.price.saves_ns >= least_ns]
    doubted = {finding.code: finding.message for finding in findings if finding.severity != "info"}
    listed = [_advice(each, of_window.removed, doubted) for each in worth]
    # One-offs happen once in the whole run, so they are compared with its length.
    whole, is_warm = gains.gains(WHOLE_TRACE), "warmed_up" in codes
    least_once_ns = max(1, thresholds.advised_gain * whole.window_ns)
    of_host = is_cold or whole.one_offs_ns >= least_once_ns
    once = advice_on_once(replay, least_once_ns, of_host, is_cold=is_cold, is_warm=is_warm)
    # A start that is longer than the rest comes first, and so does what interrupts the run later
    # and costs more than the first change saves in all steps.
    is_start = is_cold or sum(each.saves_ns for each in once) > whole.window_ns
    recurring_ns = max((each.price.saves_ns for each in worth[:1]), default=0)
    often = max(1, len(replay.steps))
    urgent = [each for each in once if _interrupts(each, 2 * often * recurring_ns)]
    later = [each for each in once if each not in urgent]
    listed_first = [each.change for each in worth if not each.remedy.is_beside][:TOGETHER]
    first_ns = prices.price(*listed_first).saves_ns if len(listed_first) > 1 else None
    fixes = FixList(
        trace=replay.database.name,
        window=window.name,
        window_ns=prices.window_ns,
        bottleneck=None,
        advice=[*once, *listed] if is_start else [*urgent, *listed, *later],
        together=together,
        unlooked=unlooked,
        notes=[],
        first_ns=first_ns,
    )
    return without_prices(fixes) if is_few else fixes


def _interrupts(once: Advice, least_ns: int) -> bool:
    """Whether a one-off of this program may happen again, and takes this long."""
    remedy = all_remedies()[once.remedy]
    return not (remedy.at_start or remedy.is_elsewhere) and once.saves_ns >= least_ns > 0


def without_prices(fixes: FixList) -> FixList:
    """The list for a trace that does not show what changes save: changes to the program are
    unsure."""
    recurring = [fix for fix in fixes.advice if not fix.once]
    unsure = [each for each in recurring if not all_remedies()[each.remedy].is_apart]
    once = [fix for fix in fixes.advice if fix.once]
    unsure = [*fixes.unsure, *unsure]
    return replace(fixes, advice=once, unsure=unsure, together=None, first_ns=None)


def of_part(fixes: FixList, part_ns: int) -> FixList:
    """The list with prices in a part of the window. Recording less keeps its price."""

    def priced(saves_ns: int) -> dict[str, float]:
        price = Price(saves_ns, fixes.window_ns).of_part(part_ns)
        return {"saves_ns": price.saves_ns, "share": price.share}

    if not part_ns or part_ns == fixes.window_ns:
        return fixes
    advice = [
        fix
        if fix.share is None or all_remedies()[fix.remedy].is_apart
        else replace(
            fix,
            **priced(fix.saves_ns),
            places=[replace(place, **priced(place.saves_ns)) for place in fix.places],
        )
        for fix in fixes.advice
    ]
    together = fixes.together and replace(fixes.together, **priced(fixes.together.saves_ns))
    first_ns = fixes.first_ns and Price(fixes.first_ns, fixes.window_ns).of_part(part_ns).saves_ns
    return replace(
        fixes, advice=advice, together=together, window_ns=part_ns, first_ns=first_ns
    )  # fmt: skip


def _price_alone(place: Place, prices: Prices, least_ns: float) -> Place:
    """The call site with the remedy's saving. If that is at least `least_ns`, also its parts where
    the remedy alone saves something, highest saving first."""
    priced = replace(place, price=prices.price(place.change), parts=())
    if priced.price.saves_ns < least_ns:
        return priced
    parts = [replace(part, price=prices.price(part.change)) for part in place.parts]
    worth = [part for part in parts if part.price.saves_ns > 0]
    return replace(priced, parts=tuple(sorted(worth, key=lambda each: -each.price.saves_ns)))


def _find_places(
    remedy: Remedy, rows: Rows, times: tuple[int, int], on_host: tuple[int, int], most: int
) -> list[Place]:
    """A remedy's call sites in a window: all together, listing at most `most`; or one by one, if
    each has its own cause. `times` are the window's, and `on_host` is when the host works on it."""
    is_op = is_target(rows, "op")
    start_ns, end_ns = (np.where(is_op, *each) for each in zip(times, on_host, strict=True))
    unknown = np.ma.getmaskarray(rows["start_ns"])
    start = np.where(unknown, start_ns, np.ma.filled(rows["start_ns"], 0))
    inside = (start < end_ns) & (start + np.ma.filled(rows["dur_ns"], 0) >= start_ns)
    chosen = {name: rows[name][inside] for name in ("place", "detail", "target", "event_id")}
    number: dict[str, int] = {}
    numbers = (number.setdefault(name, len(number)) for name in chosen["place"])
    place = np.fromiter(numbers, np.int64, len(chosen["place"]))
    dur = np.ma.filled(rows["dur_ns"], 0)[inside]
    factor = np.ma.filled(rows["factor"], 1.0)[inside].astype(np.float64)
    saved = np.bincount(place, dur * (1 - factor), len(number))
    whole_window = any(is_target(chosen, each).any() for each in ("call", "cuda-graph"))
    event_id = np.ma.filled(chosen["event_id"], -1).astype(np.int64)
    # The number of distinct events at each call site.
    many = int(event_id.max(initial=0)) + 2
    distinct = np.unique(place * many + event_id + 1)
    counts = np.bincount(distinct // many, minlength=len(number))
    first = np.unique(place, return_index=True)[1]
    places = [
        Place(
            remedy,
            name or None,
            str(chosen["detail"][first[at]]) or None,
            int(counts[at]),
            f"remedy:{remedy.name}:{name}" if name else f"remedy:{remedy.name}",
            times[1] - times[0] if whole_window or remedy.is_batch else int(saved[at]),
        )
        for name, at in number.items()
    ]
    places.sort(key=lambda each: (-each.at_most_ns, each.where is None, each.where or ""))
    if len(places) < 2 or remedy.is_by_place:
        return places[:most]
    # A call site without a name has no change of its own.
    parts = tuple(each for each in places[:most] if each.where)
    return [
        Place(
            remedy,
            places[0].where,
            places[0].detail,
            len(np.unique(event_id)),
            f"remedy:{remedy.name}",
            sum(each.at_most_ns for each in places),
            parts,
        )
    ]


def _larger_batch(remedy: Remedy, prices: Prices) -> Place | None:
    """The largest batch that fits into the host's slack."""
    batch = prices.larger_batch()
    if batch is None:
        return None
    times, length = batch
    # Times differ by a few percent between replays.
    longer = max(1.0, length / prices.window_ns)
    detail = f"{times} times as large in {longer:.2f} times the time"
    price = Price(prices.window_ns - round(length / times), prices.window_ns)
    return Place(remedy, None, detail, 1, f"batch*{times}", prices.window_ns, price=price)


def _together(places: list[Place], prices: Prices, least_ns: float) -> BestCombination | None:
    """The best combination of the individually priced changes; None: no change saves enough."""
    alone = [place.price.saves_ns for place in places]
    if max(alone, default=0) < least_ns:
        return None
    taken, path, host, device = prices.combined([place.change for place in places], alone, least_ns)
    price = Price(sum(adds_ns for _, adds_ns in taken), prices.window_ns)
    steps = [
        CombinationStep(places[at].remedy.name, places[at].where, adds_ns) for at, adds_ns in taken
    ]
    changes = [places[at].change for at, _ in taken]
    return BestCombination(price.saves_ns, price.share, steps, changes, path, host, device)


def _ranked(priced: list[Place], thresholds: Thresholds) -> list[Place]:
    """Highest saving first; but less effort comes before more that does not save much more."""
    ranked: list[Place] = []
    for priced_advice in sorted(priced, key=lambda each: -each.price.saves_ns):
        at = len(ranked)
        while at and _is_easier(priced_advice, ranked[at - 1], thresholds):
            at -= 1
        ranked.insert(at, priced_advice)
    return sorted(ranked, key=lambda each: (each.remedy.is_apart, each.remedy.is_batch))


# The remedy for the time of the program's own functions.
_OWN_WORK = "python-lines"


def _is_easier(one: Place, other: Place, thresholds: Thresholds) -> bool:
    is_switch = other.remedy.title_of(other.detail) != other.remedy.title
    if one.remedy.name == _OWN_WORK and other.remedy.frees_launches and not is_switch:
        # A graph replays launches; what the program's functions do besides stays with the host. An
        # engine has a switch for graphs, and its functions are not the program's.
        return bool(other.price.saves_ns <= thresholds.worth_effort * one.price.saves_ns)
    levels = EFFORTS.index(other.remedy.effort) - EFFORTS.index(one.remedy.effort)
    most = thresholds.worth_effort**levels * one.price.saves_ns
    return levels > 0 and other.price.saves_ns <= most


def _at_most(remedy: Remedy, gains: Gains) -> float:
    """An upper bound on a remedy's gain: the gain of removing all causes on its sides, since a wait
    may belong to another cause of the same side."""
    sides = (OF_HOST, OF_DEVICE)
    causes = {cause for side in sides if set(remedy.causes) & set(side) for cause in side}
    return sum(gains.removed.get(cause, 0.0) for cause in causes)


def _once_only(repeats: bool, is_cold: bool, is_few: bool) -> str:
    """Why remedies that pay in loops are skipped; empty: they are not."""
    pay = "they pay only where the same work runs again and again, and"
    if is_few:
        return f"{pay} these few ops do not show that"
    # Code that is loaded once is not a loop.
    if is_cold:
        return f"{pay} this recording is cold: record a warm run"
    return "" if repeats else f"{pay} most kernels here ran once or twice"


def _applicable(
    replay: Replay, missing: Mapping[str, str], once_only: str
) -> tuple[list[Remedy], list[NotChecked]]:
    """The remedies to look for, and those that this trace does not allow. Remedies that pay in
    loops are skipped if the work runs only once: `once_only` says why."""
    database = replay.database
    looked = []
    unlooked: dict[str, list[str]] = {}
    for remedy in all_remedies().values():
        if not remedy.has_query or (not replay.graph.ops and "no_gpu_ops" in remedy.codes):
            continue
        if not database.is_possible(query_of(remedy.name)):
            continue
        lacking = [missing[code] for code in remedy.blind if code in missing]
        lacking += [once_only] * (remedy.in_loops and bool(once_only))
        if lacking:
            unlooked.setdefault("; ".join(lacking), []).append(remedy.name)
        else:
            looked.append(remedy)
    return looked, [NotChecked(names, message) for message, names in unlooked.items()]


def _advice(place: Place, removed: dict[str, float], doubted: dict[str, str]) -> Advice:
    remedy, best = place.remedy, (*place.parts, place)[0]
    # The first one, if gains are equal.
    cause = max(remedy.causes, key=lambda each: removed.get(each, 0.0))
    doubts = [doubted[code] for code in remedy.codes if code in doubted]
    return replace(
        advice_without_share(
            remedy, cause, best.where, place.count, place.price.saves_ns, doubts
        ),
        title=remedy.title_of(best.detail),
        detail=best.detail,
        share=place.price.share,
        once=False,
        change=place.change,
        places=[
            AdvisedPlace(
                part.where or "", part.detail, part.count, part.price.saves_ns,
                part.price.share, part.change,
            )
            for part in place.parts
        ],
    )  # fmt: skip
