"""Advice on what a run did once: the remedies that answer it, and what they would save."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from tracekit.advice.model import Advice
from tracekit.causes import UNRECORDED
from tracekit.database.remedies import Remedy, all_remedies, query_of
from tracekit.replay.one_offs import OneOff
from tracekit.replay.replay import Replay


def advice_on_once(
    replay: Replay, least_ns: float, of_host: bool, *, is_cold: bool, is_warm: bool
) -> list[Advice]:
    """Advice on one-offs that saves at least `least_ns`, a line for each remedy, the highest saving
    first. `of_host`: those of the host count; if the device works through them, they add nothing.
    No warm-up helps against later ones. Where launches load code (`is_cold`), a warm-up
    comes first; where steps ran before the recording (`is_warm`), the run has had its warm-up."""
    found = []
    recurring = _recurring(replay)
    one_offs = [each for each in replay.one_offs if of_host or not each.on_host]
    owner = {id(each): _recurs(each, recurring) for each in one_offs}
    for remedy in all_remedies().values():
        if is_warm and remedy.at_start:
            continue
        mine = [
            each
            for each in one_offs
            if owner[id(each)] == remedy.name
            or (
                not owner[id(each)]
                and _answers(remedy, each)
                and (not remedy.at_start or _is_start(each, replay))
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
        found.append(advice)
    found.sort(key=lambda each: -each.saves_ns)
    if is_cold:
        warm = _warm(replay, found)
        return [warm, *(each for each in found if each.remedy != warm.remedy)]
    return found


def advice_without_share(
    remedy: Remedy,
    cause: str,
    where: str | None,
    count: int,
    saves_ns: int,
    doubts: Sequence[str] = (),
) -> Advice:
    """Advice on a one-off, whose price is not a share of a step. Other advice adds its share."""
    return Advice(
        remedy.name, remedy.title, cause, where, None, count, saves_ns, share=None, once=True,
        effort=remedy.effort, needs=remedy.needs,
        doubts=[each for each in (remedy.caveat, *doubts) if each], change=None,
        plugin=remedy.of_plugin.name if remedy.of_plugin else None,
    )  # fmt: skip


def _recurring(replay: Replay) -> list[tuple[Remedy, list[tuple[int, int]]]]:
    """The remedies of recurring work of which parts are long enough to be one-offs, with the event
    and start of each of their rows."""
    causes = {each.cause for each in replay.one_offs}
    found = []
    for remedy in all_remedies().values():
        if not remedy.claims or not causes & set(remedy.causes):
            continue
        if replay.database.is_possible(query_of(remedy.name)):
            rows = replay.remedies.rows(remedy.name)
            events = zip(rows["event_id"].tolist(), rows["start_ns"].tolist(), strict=True)
            found.append((remedy, list(events)))
    # An event's own remedy comes before that of work in it.
    return sorted(found, key=lambda each: each[0].claims != "events")


def _recurs(event: OneOff, found: list[tuple[Remedy, list[tuple[int, int]]]]) -> str | None:
    """The remedy for the recurring work that an event, or something in it, belongs to."""
    until_ns = event.start_ns + event.dur_ns
    for remedy, rows in found:
        if remedy.claims == "events":
            is_part = any(event.event_id == event_id for event_id, _ in rows)
        else:
            is_around = event.cause == remedy.causes[0]
            is_part = is_around and any(event.start_ns <= at_ns < until_ns for _, at_ns in rows)
        if is_part:
            return remedy.name
    return None


def _is_start(event: OneOff, replay: Replay) -> bool:
    """Whether it happened while a run may still warm up, and no step is as slow after that."""
    alike = [each for each in replay.one_offs if each.kind == "step" and each.cause == event.cause]
    return all(_is_early(each, replay) for each in ([event] if event.kind != "step" else alike))


def _is_early(event: OneOff, replay: Replay) -> bool:
    """Whether it happened before most launches; for kernels that take longer in one step, also
    before other steps showed what is usual."""
    device, steps = replay.graph.device, replay.steps
    if event.ops and steps.are_steps:
        slow = {each.name for each in replay.one_offs if each.kind == "step"}
        ends = zip(steps.names, steps.began_ns, steps.lasted_ns, strict=True)
        done = sum(began + ns <= event.start_ns and name not in slow for name, began, ns in ends)
        if done >= replay.thresholds.fewest_alike:
            return False
    launched_ns = device.call[device.linked] + replay.graph.host.origin_ns
    before = int(np.count_nonzero(launched_ns < event.start_ns))
    return bool(before <= replay.thresholds.allocation_settled_by * len(launched_ns))


def _warm(replay: Replay, once: Sequence[Advice]) -> Advice:
    """Advice to record a warm run, where launches load code."""
    sql = "FROM cold_calls(thresholds().cold_launch_ns, thresholds().late_launch_ns)"
    cold = replay.database.rows_of_trace(sql, replay.trace_id)
    saves_ns = sum(ns for *_, ns in cold)
    remedy = next(each for each in all_remedies().values() if each.at_start)
    found = [each for each in once if each.remedy == remedy.name and each.saves_ns >= saves_ns]
    return found[0] if found else advice_without_share(remedy, "launch", None, len(cold), saves_ns)


def _place_of(event: OneOff) -> str | None:
    """Its name, if that shows a call site of the program: a built-in function's name does not."""
    return None if event.name and event.name.startswith("<built-in ") else event.name


def _answers(remedy: Remedy, event: OneOff) -> bool:
    # Weights and checkpoints are copied when they are needed: there is nothing to change. And the
    # length of events that the end of the recording cut off is unknown.
    if event.kind in ("copies", "unended") or (event.ops and event.cause == "copy"):
        return False
    # Nothing shows what a host does that records nothing.
    if event.kind == "stretch" and event.cause == UNRECORDED:
        return False
    # A kernel that communicates for long waits for another rank, which no warm-up here changes.
    kinds = {"capture": "capture", "op": "late-rank", "loading": "launch"}
    answered = "new-shape" if event.is_new_shape else kinds.get(event.kind, event.cause)
    return answered in remedy.once
