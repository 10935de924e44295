"""Where in the program the events of an analysis come from."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tracekit.causes import words
from tracekit.evidence.model import OneOffEvent

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.replay.one_offs import OneOff

Sites = dict[int | None, dict[str, Any]]


def events_of(found: list[OneOff], sites: Sites) -> list[OneOffEvent]:
    """The one-offs as reported, each with its place in the program.

    A step's excess is that of all threads; on the device, that of a cause. What the end of the
    recording cut off did not happen once: it is left out.
    """
    events: list[OneOffEvent] = []
    for (start_ns, event_id, _), same in groupby(
        (each for each in found if each.kind != "unended"),
        key=lambda each: (each.start_ns, each.event_id, each.on_host or each.cause),
    ):
        parts = list(same)
        first, site = parts[0], sites.get(event_id, {})
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
                place=site.get("python_line") or site.get("module") or site.get("cpu_op"),
                event_id=event_id,
                pid=first.pid,
                tid=first.tid,
            )
        )
    return events


def sites_of(event_ids: Iterable[int | None], database: Session, trace_id: int) -> Sites:
    """The places in the program that events come from, by event_id: rows of the question
    `event_sites`."""
    ids = ",".join(str(each) for each in event_ids if each is not None)
    if not ids:
        return {}
    rows = database.ask("event_sites", trace=trace_id, events=ids)
    return {row["event_id"]: row for row in rows}


def places_of(event_ids: Iterable[int], database: Session, trace_id: int) -> dict[int, str]:
    """The Python line, module or operator of events by event_id, or their name."""
    sites = sites_of((each for each in event_ids if each >= 0), database, trace_id)
    return {
        event: place
        for event, site in sites.items()
        for place in [site["python_line"] or site["module"] or site["cpu_op"] or site["name"]]
        if event is not None and place
    }


def name_links(links: list[dict[str, Any]], sites: Sites) -> None:
    """Adds to each link its name and the place in the program that it comes from."""
    for link in links:
        site = sites.get(link["event_id"], {})
        link["name"] = site.get("name") or words("link").get(link["cause"], "(no slice recorded)")
        for key in ("cpu_op", "module", "python_line"):
            link[key] = site.get(key)
