"""The verdict on the front end of a server: whether its event loop holds the server up."""

from __future__ import annotations

from tracekit.causes import words
from tracekit.evidence.model import HostThread, Window
from tracekit.evidence.server import OTHER, WAITING
from tracekit.text import duration, most_of_whole, share
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Saving, Verdict
from tracekit.verdict.regime import OVERHEAD, UNKNOWN


def judge_front_end(window: Window, host: HostThread, thresholds: Thresholds) -> Verdict:
    """The verdict on the thread that answers a server's requests. An event loop is one thread: if
    it always works, whatever it answers waits for it."""
    span_ns, roles = window.span_ns, host.roles
    works_ns = sum(roles.values()) - roles.get(WAITING, 0)
    is_busy = works_ns >= thresholds.front_end_busy_share * span_ns
    subject = (
        "The front end of this server holds it up" if is_busy else "This is a server's front end"
    )
    said = f"{subject}: it works {most_of_whole(works_ns, span_ns)}{_mostly(roles, works_ns)}"
    listed = [
        f"{role} {duration(ns)} ({share(ns, span_ns)})"
        for role, ns in sorted(roles.items(), key=lambda item: -item[1])
        if ns
    ]
    why = [f"Its event loop: {', '.join(listed)}."]
    shares = {role: ns / span_ns for role, ns in roles.items()} if span_ns else {}
    if is_busy:
        why.append(
            "One event loop is one core: while it handles one answer, all others wait. Recording "
            "stacks slows it down: without the recorder, it works less."
        )
        return Verdict(
            said, OVERHEAD, "python", "none", window, shares, why, [Saving("python", works_ns)],
            None, [words("next")["front_end"]],
        )  # fmt: skip
    why.append("It does not hold the server up: it waits the rest of the time.")
    return Verdict(
        said, UNKNOWN, None, "none", window, shares, why, [], None, [words("next")["engine"]]
    )


def _mostly(roles: dict[str, int], works_ns: int) -> str:
    """What a front end does most, as the end of a sentence."""
    known = {role: ns for role, ns in roles.items() if role not in (WAITING, OTHER)}
    if not works_ns or not any(known.values()):
        return ""
    most = max(known, key=lambda role: known[role])
    how = "mostly" if 2 * known[most] > works_ns else "above all"
    return f", {how} {most} ({duration(known[most])})"
