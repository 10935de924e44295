"""Advice on one-off events: remedies for them, and what they would save."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from tracekit.advice.model import Advice
from tracekit.causes import UNRECORDED
from tracekit.database.remedies import Remedy, all_remedies
from tracekit.replay.one_offs import OneOff
from tracekit.replay.replay import Replay


def advice_on_once(
    replay: Replay, least_ns: float, of_host: bool, *, is_cold: bool, is_warm: bool
) -> list[Advice]:
    """Advice on one-offs that saves at least `least_ns`, one line per remedy, highest saving first.
    `of_host`: one-offs on the host count; they add nothing if the device works through them. A
    warm-up does not help against later one-offs. If launches load code (`is_cold`), a warm-up comes
    first; if steps ran before the recording (`is_warm`), the run is already warm."""
    listed = []
    recurring = _recurring(replay)
    # Ranks that begin to record at different times meet in it: the run is not at fault.
    skewed = _arrivals(replay)
    one_offs = [
        one_off
        for one_off in replay.one_offs
        if (of_host or not one_off.on_host) and one_off.event_id not in skewed
    ]
    owner = {id(one_off): _recurs(one_off, recurring) for one_off in one_offs}
    for remedy in all_remedies().values():
        if is_warm and remedy.at_start:
            continue
        mine = [
            one_off
            for one_off in one_offs
            if owner[id(one_off)] == remedy.name
            or (
                not owner[id(one_off)]
                and _answers(remedy, one_off)
                and (not remedy.at_start or _is_start(one_off, replay))
            )
        ]
        saves_ns = sum(each.excess_ns for each in mine)
        if not mine or saves_ns < least_ns:
            continue
        longest = max(mine, key=lambda each: each.excess_ns)
        where = _place_of(longest)
        advice = advice_without_share(remedy, longest.cause, where, len(mine), saves_ns)
        if owner[id(longest)]:
            detail = str(replay.remedies.rows(remedy.name)["detail"][0])
            advice = replace(advice, title=remedy.title_of(detail))
        listed.append(advice)
    listed.sort(key=lambda each: -each.saves_ns)
    if is_cold:
        warm = _warm(replay, listed)
        return [warm, *(each for each in listed if each.remedy != warm.remedy)]
    return listed


def advice_without_share(
    remedy: Remedy,
    cause: str,
    where: str | None,
    count: int,
    saves_ns: int,
    doubts: Sequence[str] = (),
) -> Advice:
    """Advice on a one-off. Its price is not a share of a step; other advice adds its share."""
    return Advice(
        remedy.name, remedy.title, cause, where, None, count, saves_ns, share=None, once=True,
        effort=remedy.effort, needs=remedy.needs,
        doubts=[each for each in (remedy.caveat, *doubts) if each], change=None,
        plugin=remedy.of_plugin.name if remedy.of_plugin else None,
    )  # fmt: skip


def _arrivals(replay: Replay) -> set[int]:
    """The first collective, if it waits for ranks that record later, or sets up what they need."""
    sql = "SELECT trace_id, event_id FROM recorder_finding WHERE code = 'arrival_skew'"
    return {event_id for (event_id,) in replay.database.rows_of_trace(sql, replay.trace_id)}


def _recurring(replay: Replay) -> list[tuple[Remedy, list[tuple[int, int]]]]:
    """The remedies for recurring work whose parts are long enough to be one-offs, with the event
    and start of each row."""
    causes = {one_off.cause for one_off in replay.one_offs}
    recurring = []
    for remedy in all_remedies().values():
        if remedy.claims and causes & set(remedy.causes):
            rows = replay.remedies.rows(remedy.name)
            events = zip(rows["event_id"].tolist(), rows["start_ns"].tolist(), strict=True)
            recurring.append((remedy, list(events)))
    # A remedy for the event itself precedes one for work inside it.
    return sorted(recurring, key=lambda each: each[0].claims != "events")


def _recurs(event: OneOff, recurring: list[tuple[Remedy, list[tuple[int, int]]]]) -> str | None:
    """The remedy for recurring work that an event, or something inside it, belongs to."""
    until_ns = event.start_ns + event.dur_ns
    for remedy, rows in recurring:
        if remedy.claims == "events":
            is_part = any(event.event_id == event_id for event_id, _ in rows)
        else:
            is_around = event.cause == remedy.causes[0]
            is_part = is_around and any(event.start_ns <= at_ns < until_ns for _, at_ns in rows)
        if is_part:
            return remedy.name
    return None


def _is_start(event: OneOff, replay: Replay) -> bool:
    """Whether it happened while the run may still warm up, and no later step is as slow."""
    alike = [
        one_off
        for one_off in replay.one_offs
        if one_off.kind == "step" and one_off.cause == event.cause
    ]
    return all(_is_early(each, replay) for each in ([event] if event.kind != "step" else alike))


def _is_early(event: OneOff, replay: Replay) -> bool:
    """Whether it happened before most launches; for kernels that take longer in one step, also
    before other steps showed their usual time."""
    device, steps = replay.graph.device, replay.steps
    if event.ops:
        slow = {one_off.name for one_off in replay.one_offs if one_off.kind == "step"}
        ends = zip(steps.names, steps.began_ns, steps.lasted_ns, strict=True)
        done = sum(began + ns <= event.start_ns and name not in slow for name, began, ns in ends)
        if done >= replay.thresholds.fewest_alike:
            return False
    launched_ns = device.call[device.linked] + replay.graph.host.origin_ns
    before = int(np.count_nonzero(launched_ns < event.start_ns))
    return bool(before <= replay.thresholds.allocation_settled_by * len(launched_ns))


def _warm(replay: Replay, once: Sequence[Advice]) -> Advice:
    """Advice to record a warm run, if launches load code."""
    sql = "FROM cold_calls(thresholds().cold_launch_ns, thresholds().late_launch_ns)"
    cold = replay.database.rows_of_trace(sql, replay.trace_id)
    saves_ns = sum(ns for *_, ns in cold)
    remedy = next(each for each in all_remedies().values() if each.at_start)
    warmed = [each for each in once if each.remedy == remedy.name and each.saves_ns >= saves_ns]
    return (
        warmed[0] if warmed else advice_without_share(remedy, "launch", None, len(cold), saves_ns)
    )


def _place_of(event: OneOff) -> str | None:
    """The event's name, if it identifies a call site in the program. A built-in function's name
    does not."""
    return None if event.name and event.name.startswith("<built-in ") else event.name


def _answers(remedy: Remedy, event: OneOff) -> bool:
    # Weights and checkpoints are copied when needed, so there is nothing to change. The length of
    # events that the recording's end cuts off is unknown.
    if event.kind in ("copies", "unended") or (event.ops and event.cause == "copy"):
        return False
    # The trace does not show what the host does while it records nothing.
    if event.kind == "stretch" and event.cause == UNRECORDED:
        return False
    # A long communication kernel waits for another rank, and a warm-up here does not change that.
    kinds = {"capture": "capture", "op": "late-rank", "loading": "launch"}
    answered = "new-shape" if event.is_new_shape else kinds.get(event.kind, event.cause)
    return answered in remedy.once
