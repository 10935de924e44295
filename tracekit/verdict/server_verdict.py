"""The verdict on a server: which of its processes holds the others up, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tracekit.evidence.server import ServerEvidence, ServerUnits
from tracekit.text import counted, duration, most_of_whole, of_whole, percent
from tracekit.verdict.model import RunSaving, RunVerdict

# What holds a server up, as its savings name it.
FRONT_END, SCHEDULING, IMBALANCE = "front-end", "scheduling", "imbalance"
# The parts of a unit in words, by the fields of ServerUnits without `_ns`.
_PARTS = {
    "device": "on the device", "scheduling": "scheduling", "exchanging": "exchanging messages",
    "waiting": "waiting for requests", "other": "other work of the host",
}  # fmt: skip
_KINDS = {"mixed": "mixed step"}
_PRICES = {
    FRONT_END: (
        "The engine waits for requests while the front end works: if that took no time, the same "
        "steps would take {}."
    ),
    SCHEDULING: (
        "The device waits while the next step is scheduled: if that ran beside the device's work, "
        "the same steps would take {}."
    ),
    IMBALANCE: "With as many requests on each engine, the steps of the slowest would take {}.",
}


def judge_server(server: ServerEvidence) -> RunVerdict:
    """The verdict on a server whose engines were not recorded as ranks of one run."""
    units = server.units
    empty = RunVerdict(
        headline="", ranks=[each.rank for each in units], world_size=None, steps=0, step_ns=None,
        span_ns=None, start_skew_ns=None, pace_rank=None, late_ranks=[], waiting=[],
        lateness=None, pipeline=None, collectives=None, clocks=None, bubble_ns=0, slow_links=[],
        savings=[], why=[], unknown=[],
    )  # fmt: skip
    return replace(
        empty, headline=headline(server), savings=savings_of(server), why=sentences(server)
    )


def with_server(run: RunVerdict, server: ServerEvidence) -> RunVerdict:
    """The verdict on a run, with who holds up the server whose engines its ranks are."""
    requests = {each.requests for each in server.units}
    if run.collectives is not None and len(requests) == 1:
        # The ranks of one engine do each step together.
        server = replace(server, units=[slowest_of(server.units)])
    savings = savings_of(server)
    others = max((each.share for each in run.savings), default=0.0)
    held_up = held_up_by(server)
    is_held = held_up.share > others if held_up else is_saturated(server)
    leads = run.pace is None and is_held
    units = slowest_of(server.units).units if run.steps else 1
    savings = [replace(each, saves_ns=round(each.saves_ns / units)) for each in savings]
    return replace(
        run,
        headline=headline(server) if leads else run.headline,
        savings=sorted([*run.savings, *savings], key=lambda each: -each.saves_ns),
        why=[*sentences(server), *run.why],
    )


def slowest_of(units: Sequence[ServerUnits]) -> ServerUnits:
    """The engine whose units take longest."""
    return max(units, key=lambda each: each.total_ns / each.units)


# -- what would shorten its work


def savings_of(server: ServerEvidence) -> list[RunSaving]:
    """What would shorten the steps of the slowest engine, most first, if it does so noticeably."""
    slowest = slowest_of(server.units)
    found = {
        FRONT_END: slowest.held_ns,
        SCHEDULING: slowest.scheduling_ns,
        IMBALANCE: _uneven_ns(server.units),
    }
    least_ns = server.thresholds.small_gain * slowest.total_ns
    savings = [
        RunSaving(name, None, ns, ns / slowest.total_ns)
        for name, ns in found.items()
        if ns >= least_ns > 0
    ]
    return sorted(savings, key=lambda each: -each.saves_ns)


def held_up_by(server: ServerEvidence) -> RunSaving | None:
    """What would shorten them most, if by enough to hold the server up."""
    least = server.thresholds.turn_gain
    return next((each for each in savings_of(server) if each.share >= least), None)


def is_saturated(server: ServerEvidence) -> bool:
    """Whether a front end works nearly all the time."""
    return server.works_share >= float(server.thresholds.front_end_busy_share)


def _uneven_ns(units: Sequence[ServerUnits]) -> int:
    """How much less time the slowest engine takes if all have as many requests. Between engines
    that do the same work, a unit's length grows evenly with its requests."""
    requests = [each.requests or 0.0 for each in units]
    slowest = slowest_of(units)
    is_uneven = slowest.requests == max(requests) > min(requests)
    if not is_uneven or len({each.kind for each in units}) > 1:
        return 0
    mean_ns = sum(each.total_ns / each.units for each in units) / len(units)
    return round(slowest.total_ns - slowest.units * mean_ns)


# -- in words


def headline(server: ServerEvidence) -> str:
    """Who holds up the server."""
    of, best = slowest_of(server.units), held_up_by(server)
    if best is not None:
        return _held_up(server, of, best.remove)
    if is_saturated(server):
        works = percent(server.works_share)
        return (
            f"The front end holds the server up: it works {works} of its time, and requests queue"
        )
    device = most_of_whole(of.device_ns, of.total_ns)
    rest = {name: getattr(of, f"{name}_ns") for name in _PARTS if name != "device"}
    most = max(rest, key=lambda name: rest[name])
    if rest[most] < server.thresholds.small_gain * of.total_ns:
        beside = "scheduling and the front end" if server.front_ends else "scheduling"
        return f"The device works {device}: it hardly waits for {beside}"
    return f"The device works {device}; most of the rest is {_PARTS[most]} ({duration(rest[most])})"


def _held_up(server: ServerEvidence, of: ServerUnits, by: str) -> str:
    if by == FRONT_END:
        held = of_whole(of.held_ns, of.total_ns)
        return f"The front end holds the server up: an engine waits {held} for it"
    if by == SCHEDULING:
        idle = of_whole(of.scheduling_ns, of.total_ns)
        return f"The scheduler holds the server up: the device waits {idle} for it"
    requests = sum(each.requests or 0.0 for each in server.units)
    return (
        f"{counted(len(server.units), 'engine')} share the requests unevenly: {_named(of)} has "
        f"{of.requests:.1f} of {requests:.1f} at once"
    )


def _named(of: ServerUnits) -> str:
    return "an engine" if of.rank is None else f"rank {of.rank}"


def sentences(server: ServerEvidence) -> list[str]:
    """Where the time of a unit goes, what holds the server up, and how its engines differ."""
    said = [_account(server, slowest_of(server.units))]
    said += [_PRICES[each.remove].format(_less(each)) for each in savings_of(server)]
    if len(server.units) > 1:
        said.append(f"The engines: {'; '.join(map(_engine, server.units))}.")
    if not server.front_ends:
        said.append("No front end was recorded: what it does beside the engines is unknown.")
    elif not any(each.beside_ns for each in server.units):
        said.append("The front end was not recorded at the same time as the engines.")
    return said


def _account(server: ServerEvidence, of: ServerUnits) -> str:
    """Where the time of a unit goes on one engine."""
    parts = [
        f"{duration(round(ns / of.units))} {words}"
        for name, words in _PARTS.items()
        if (ns := getattr(of, f"{name}_ns")) >= server.thresholds.shown_gain * of.total_ns
    ]
    beside = ""
    if of.beside_ns:
        does = f", mostly {server.does}" if server.does else ""
        beside = f"; beside it the front end works {duration(round(of.beside_ns / of.units))}{does}"
    where = f" of {_named(of)}" if len(server.units) > 1 else ""
    return (
        f"A {_KINDS.get(of.kind, of.kind)}{where} takes {duration(round(of.total_ns / of.units))} "
        f"(mean of {of.units:,}): {', '.join(parts)}{beside}."
    )


def _less(saving: RunSaving) -> str:
    return f"{percent(saving.share)} less time ({duration(saving.saves_ns)})"


def _engine(of: ServerUnits) -> str:
    """What an engine does a second."""
    total_ns = max(1, of.total_ns)
    requests = "" if of.requests is None else f" of {of.requests:.1f} requests"
    return (
        f"{_named(of)} does {of.units * 1e9 / total_ns:,.0f} {_KINDS.get(of.kind, of.kind)}s a "
        f"second{requests}, and its device works {percent(of.device_ns / total_ns)} of the time"
    )
