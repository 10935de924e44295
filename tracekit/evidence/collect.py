"""Collects evidence from questions: a trace's health, its units of work, and the call sites of its
events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from tracekit.causes import in_words_of, words
from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.evidence.accounts import account_between
from tracekit.evidence.model import (
    Account,
    Blocked,
    CallSite,
    Communication,
    Finding,
    OneOffEvent,
    RankWait,
    Trace,
    of_row,
)
from tracekit.evidence.units import ITERATION, UnitGroup
from tracekit.replay.limits import limits_of
from tracekit.text import percent

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.replay.one_offs import OneOff
    from tracekit.thresholds import Thresholds

# The questions whose answers an analysis contains; `--explain` prints them.
QUERIES = (
    "overview", "health", "capture_facts", "partition", "idle_causes", "launch_stats", "cpu_time",
    "top_kernels", "memory_traffic", "host_work", "device_work", "device_limits", "host_waits",
    "stream_waits", "replay_steps", "units", "window_limits", "one_off_candidates",
    "unrecorded_waits", "holes", "settings", "comm_overlap",
)  # fmt: skip

# By event_id.
CallSites = Mapping[int | None, CallSite]

# A unit whose device's peaks are not known.
_LIMITLESS = dict.fromkeys(("floor_ns", "must_ns", "mfu", "mbu", "modelled", "exact"))
# The most groups of units, of all levels, in an analysis.
_GROUPS = 50
# The most characters of a kernel's name in a sentence.
_NAME = 40


def trace_of(database: Session, trace_id: int, overview: dict[str, Any]) -> Trace:
    """The trace, out of its row of the question `overview`."""
    health = database.ask("health", trace=trace_id)
    captured = json.loads(database.ask("capture_facts", trace=trace_id)[0]["facts"] or "null")
    return of_row(
        Trace,
        overview,
        health=[
            of_row(Finding, row, message=in_words_of(overview["device_word"], row["message"]))
            for row in health
        ],
        capture=captured if isinstance(captured, dict) else None,
    )


def units_of(database: Session, trace_id: int) -> list[UnitGroup]:
    """The groups of outermost units, before they are judged."""
    rows = database.ask("units", trace=trace_id, top=_GROUPS)
    unjudged = {"verdict": None, "bottleneck": None}
    limits = {
        (row["kind"], row["group_id"]): {name: row[name] for name in _LIMITLESS}
        for row in limits_of(database, trace_id)
    }
    return [
        of_row(
            UnitGroup,
            row,
            group=row["group_id"],
            **unjudged,
            **limits.get((row["kind"], row["group_id"]), _LIMITLESS),
        )
        for row in rows
        if row["level"] == 1
    ]


def steps_of(database: Session, trace_id: int) -> dict[str, dict[str, Any]]:
    """The group of each step, and whether it is cold and whole, by the step's name."""
    return {
        row["name"]: {
            "group": None if row["group_id"] < 0 else row["group_id"],
            "is_cold": row["is_cold"],
            "is_whole": row["is_whole"],
        }
        for row in database.ask("replay_steps", trace=trace_id)
    }


def repeating_of(
    database: Session, trace_id: int, main: Account, units: Sequence[UnitGroup]
) -> Account | None:
    """A typical unit of what the trace repeats, if its units are no steps."""
    least = database.thresholds.fewest_alike
    alike = (each for each in units if each.count >= least and each.kind != ITERATION)
    group = next(alike, None)
    if group is None or group.is_main or not main.gpu:
        return None
    named, times = ("range", group.counted), (group.start_ns, group.end_ns)
    try:
        return account_between(database, trace_id, main, named, times)
    except TracekitError:
        # It runs on another device.
        return None


def rank_wait_of(
    database: Session, trace_id: int, main: Account, thresholds: Thresholds
) -> RankWait | None:
    """How long the main device probably waits for other ranks in the window; None if its exposed
    communication is little."""
    window, gpu = main.window, main.gpu
    if gpu is None or gpu.exposed_comm_ns < thresholds.rank_share * window.span_ns:
        return None
    waits = [
        (row["type"], min(row["wait_ns"], row["exposed_ns"]))
        for row in database.ask("collective_waits", trace=trace_id, top=main.ops)
        if window.start_ns <= row["start_ns"] < window.end_ns and row["device_id"] == gpu.device_id
    ]
    if not waits:
        return None
    types = {kind for kind, _ in waits}
    named = waits[0][0] if len(types) == 1 else ""
    return RankWait(named, len(waits), sum(ns for _, ns in waits))


def communication_of(
    database: Session, trace_id: int, main: Account, thresholds: Thresholds
) -> Communication | None:
    """The main device's communication in the window; None if hardly any is exposed."""
    window, gpu = main.window, main.gpu
    if gpu is None or gpu.exposed_comm_ns < thresholds.named_gain * window.span_ns:
        return None
    rows = database.ask("comm_overlap", trace=trace_id, kind=window.kind)
    alike = (gpu.device_id, window.name, gpu.exposed_comm_ns)
    row = next((r for r in rows if (r["device_id"], r["name"], r["exposed_ns"]) == alike), None)
    return Communication(row["communication_ns"], row["overlapped_ns"]) if row else None


def blocked_of(
    database: Session, trace_id: int, waits: tuple[int, int, int, int], least_ns: float
) -> Blocked | None:
    """The host's `waits` for the device (tracekit/replay/replay.py, `waits_for_device`), with the
    call site of the longest; None: they take less than `least_ns`."""
    count, wait_ns, longest_ns, event_id = waits
    if not count or wait_ns < least_ns:
        return None
    site = call_sites_of([event_id], database, trace_id).get(event_id, CallSite())
    return Blocked(count, wait_ns, longest_ns, site.name, site.where)


def settings_of(database: Session, trace_id: int) -> list[dict[str, Any]]:
    """What already runs (queries/trace/settings.sql), in the JSON of an analysis."""
    return [
        {"name": row["name"], "value": row["value"], "share": row["share"], "of": row["whole"]}
        for row in database.ask("settings", trace=trace_id)
    ]


def dominant_of(database: Session, trace_id: int, top: list[dict[str, Any]]) -> str:
    """What takes most of the time of compute kernels, as a clause: the longest of `top` (rows of
    the question `top_kernels`) if it takes most of it, or else a class of kernels."""
    times = database.rows_of_trace(catalog.schema("read_class_times"), trace_id)
    classes: Counter[str] = Counter(dict(sorted(times)))
    exchanged_ns = classes.pop("communication", 0)
    of = "kernel time without communication" if exchanged_ns else "kernel time"
    all_ns = max(1, classes.total())
    one = next((row for row in top if row["class"] != "communication"), None)
    if one and one["name"] and 2 * one["total_ns"] >= all_ns:
        name = one["name"].removeprefix("void ").partition("<")[0].partition("(")[0][:_NAME]
        return f"one kernel, {name}, takes {percent(one['total_ns'] / all_ns)} of {of}"
    named = words("kernels")
    most = next((name for name, _ in classes.most_common() if name in named), None)
    if most is None:
        return ""
    share = percent(classes[most] / all_ns)
    if 2 * classes[most] >= all_ns:
        return f"{named[most]} take {share} of {of}"
    return f"{named[most]} take the largest share of {of}, {share}"


def reached(database: Session, trace_id: int, thresholds: Thresholds) -> list[str]:
    """How near its work comes to the device's peaks, if enough of it is counted."""
    rows = database.ask("mfu", trace=trace_id, kind="gpu_active")
    least = thresholds.shaped_work_share
    known = [row for row in rows if row["share_of_peak"] and (row["share_counted"] or 0) >= least]
    if not known:
        return []
    row = known[0]
    said = [
        "Over the GPU-active span, matrix products, convolutions and attention take "
        f"{percent(row['matrix_share'])} of kernel time and run at "
        f"{percent(row['matrix_of_peak'])} of the device's peak."
    ]
    if (row["matrix_of_peak"] or 0) > thresholds.over_peak:
        return [f"{said[0]} That cannot be: check the shapes and the device (--hardware)."]
    is_most = row["share_counted"] >= thresholds.near_share
    if is_most and (row["of_roofs"] or 0) >= thresholds.tuned_reach:
        said.append(
            f"All kernels of known work run at {percent(row['of_roofs'])} of the nearer peak, of "
            "math or memory: little is left for faster kernels, so do less work."
        )
    return said


def recorder_of(database: Session, trace_id: int, missing: Container[str]) -> tuple[str, bool]:
    """The profiler that recorded the trace, and whether it recorded the shapes of operators. It may
    have done so although no operator has any, since some operators take no tensors. `missing` has
    the codes of the question `missing`."""
    sql = "SELECT trace_id, profiler, record_shapes FROM trace"
    ((profiler, is_flagged),) = database.rows_of_trace(sql, trace_id)
    return profiler, bool(is_flagged) or "no_shapes" not in missing


def events_of(one_offs: list[OneOff], sites: CallSites) -> list[OneOffEvent]:
    """The one-offs as reported, each with its call site.

    A step's excess is that of all threads; on the device, that of a cause. Events that the end of
    the recording cut off are not one-offs: they are left out.
    """
    events: list[OneOffEvent] = []
    for (start_ns, event_id, _), same in groupby(
        (one_off for one_off in one_offs if one_off.kind != "unended"),
        key=lambda one_off: (one_off.start_ns, one_off.event_id, one_off.on_host or one_off.cause),
    ):
        parts = list(same)
        first, site = parts[0], sites.get(event_id, CallSite())
        events.append(
            OneOffEvent(
                start_ns=start_ns,
                dur_ns=first.dur_ns,
                usual_ns=sum(each.usual_ns for each in parts),
                excess_ns=sum(each.excess_ns for each in parts),
                kind=first.kind,
                side="host" if first.on_host else "device",
                cause="capture" if first.kind == "capture" else first.cause,
                name=first.name,
                place=site.where,
                event_id=event_id,
                pid=first.pid,
                tid=first.tid,
                calls="a new shape"
                if first.is_new_shape
                else _calls([pair for each in parts for pair in each.inner], sites, first.name),
            )
        )
    return events


def _calls(inner: list[tuple[int, int]], sites: CallSites, of: str | None) -> str | None:
    """The names of the slices that took most of the time, two at most; the event's own name only if
    no slice inside it did."""
    by_name = Counter[str]()
    for event_id, ns in inner:
        by_name[sites.get(event_id, CallSite()).name or ""] += ns
    most = by_name.total() / 4
    names = [name for name, ns in by_name.most_common(2) if name and ns >= most]
    return ", ".join([name for name in names if name != of] or names) or None


def call_sites_of(
    event_ids: Iterable[int | None], database: Session, trace_id: int
) -> dict[int | None, CallSite]:
    """The call sites of events, by event_id; an id that is None or negative is of no event."""
    ids = ",".join(
        str(event_id) for event_id in event_ids if event_id is not None and event_id >= 0
    )
    rows = database.ask("event_sites", trace=trace_id, events=ids) if ids else []
    return {row["event_id"]: of_row(CallSite, row) for row in rows}


def name_links(links: list[dict[str, Any]], sites: CallSites) -> None:
    """Adds its name and its call site to each link."""
    for link in links:
        site = sites.get(link["event_id"], CallSite())
        link |= asdict(site)
        link["name"] = site.name or words("link").get(link["cause"], "(no slice recorded)")
