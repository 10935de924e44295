"""The parts of a run that the first sentence leaves out: one-offs, and waits for other ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tracekit.causes import UNRECORDED, words
from tracekit.evidence.model import CallSite, Evidence, OneOffEvent, Period, Window, of_row
from tracekit.evidence.units import is_single_pass
from tracekit.replay.model import Causal
from tracekit.text import duration, of_whole, share, shortened
from tracekit.thresholds import Thresholds
from tracekit.verdict.case import Basis
from tracekit.verdict.model import Analysis, Happened, OneOffGroup
from tracekit.verdict.regime import OVERHEAD, steady_busy_ns

# The one-offs that a reason names, and the most letters of a name in the first sentence.
_NAMED, _NAME = 3, 40
# The least share of one-offs' time before the middle of a window that makes them a start-up.
_EARLY = 0.9
# The name of a thread's stretch outside slices.
_UNRECORDED = "unrecorded host time"


def mostly_once(evidence: Evidence) -> str:
    """The first sentence if most of the window happened once; empty: it did not."""
    gains, window = evidence.period.gains, evidence.period.window
    held_ns = sum(each.time_ns or 0 for each in evidence.health if each.code == "queued_before")
    # What ran before the recording is no start-up, but work of others.
    if gains is None or 2 * (gains.one_offs_ns - held_ns) <= window.span_ns:
        return ""
    inside = ((excess_in(window, events), events) for events in _by_name(evidence).values())
    ns, events = max(inside, default=(0, []), key=lambda each: each[0])
    name = _told(events) if events else ""
    led = f", mostly {name} ({duration(ns)})" if 2 * ns > gains.one_offs_ns else ""
    if ns and not led:
        led = f", {duration(ns)} of it {name}"
    of_window = of_whole(gains.one_offs_ns, window.span_ns)
    if is_cold(evidence):
        return f"This recording is cold: {of_window} happened once{led}"
    middle_ns = (window.start_ns + window.end_ns) // 2
    early_ns = sum(e.excess_ns for e in evidence.one_offs if e.start_ns < middle_ns)
    at_start = is_single_pass(evidence.units) or early_ns >= _EARLY * _excess_ns(evidence.one_offs)
    return f"Start-up took {of_window}{led}" if at_start else f"{of_window} happened once{led}"


def _told(events: Sequence[OneOffEvent]) -> str:
    """Events of one name in the first sentence: calls of the runtime are called so."""
    name, times = shortened(one_off_name(events[0]), _NAME), _times(events)
    if not re.match("(cuda|hip|cu)[A-Z]", name):
        return f"{times}{name}"
    return f"{times.removesuffix('x ')}{name} calls" if times else f"one {name} call"


def is_cold(evidence: Evidence) -> bool:
    """Whether first-call work takes a large part of every unit of work."""
    return bool(evidence.units) and all(each.cold >= each.count for each in evidence.units)


def longest_once(
    judged: Period, causal: Causal, priced_ns: int, since_ns: int, thresholds: Thresholds
) -> OneOffEvent | None:
    """The event for which the device waits longest, if a remedy for one-offs prices it at about its
    length: in a trace with too few similar events to show the usual time, it counts as a one-off.
    The trace starts at `since_ns`."""
    longest = next((link for link in causal.links if link["cause"] == judged.bottleneck), None)
    if longest is None or judged.gpu is None or judged.regime != OVERHEAD:
        return None
    ns = int(longest["dur_ns"])
    shorter_ns, longer_ns = sorted((priced_ns, ns))
    is_once = shorter_ns >= thresholds.near_share * longer_ns and ns < causal.gains.window_ns
    if not is_once or 2 * ns <= judged.gpu.idle_ns:
        return None
    site = of_row(CallSite, longest)
    start_ns, cause = since_ns + longest["start_ns"], longest["cause"]
    return OneOffEvent(
        start_ns, ns, 0, ns, "stretch", "host", cause, site.name, site.where, longest["event_id"]
    )


def without_once(causal: Causal, event: OneOffEvent) -> Causal:
    """The replays' results without a host event's time; the speed at which the verdict flips is
    then unknown."""
    gains, ns = causal.gains, event.excess_ns
    share = ns / gains.window_ns
    left = replace(
        gains.less(event.cause, share),
        host=max(0.0, gains.host - share / 2),
        cuda_graph=max(0.0, gains.cuda_graph - share),
        one_offs_ns=gains.one_offs_ns + ns,
    ).without(ns)
    return replace(causal, gains=left, flip=None)


def steady_reason(basis: Basis) -> tuple[str, str] | None:
    """A sentence on the judged window's remainder and its one-offs; None: hardly anything was left
    out."""
    evidence, period, least = basis.evidence, basis.period, basis.thresholds.named_gain
    gpu, gains, window = period.gpu, period.gains, period.window
    if gpu is None or gains is None or gains.one_offs_ns < least * window.span_ns:
        return None
    alike = _by_name(evidence)
    if not alike:
        return None
    longest = sorted(alike.items(), key=lambda item: -_excess_ns(item[1]))[:_NAMED]
    named = ", ".join(
        f"{_times(events)}{name} {duration(_excess_ns(events))}" for name, events in longest
    )
    rest = f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
    busy_ns, span_ns, left_ns = gpu.busy_ns, window.span_ns, gains.recorded_ns
    left = share(steady_busy_ns(gpu, gains), left_ns)
    return (
        f"The GPU was busy for {share(busy_ns, span_ns)} of {named_window(window)} "
        f"({duration(span_ns)}), {left} of the {duration(left_ns)} without one-offs",
        f": {named}{rest}",
    )


def named_window(window: Window) -> str:
    """The window's name in a sentence: a step or range by name, others with an article."""
    return window.name if window.kind in ("step", "range") else f"the {window.name}"


def named_rest(basis: Basis) -> str:
    """The denominator of gains in a sentence: the window, or the rest without one-offs."""
    gains, window = basis.period.gains, basis.period.window
    if gains is None or gains.one_offs_ns < basis.thresholds.named_gain * window.span_ns:
        return named_window(window)
    return f"the {duration(gains.window_ns)} without one-offs"


def is_headline_wait(basis: Basis) -> bool:
    """Whether waits for other ranks take so much of the window that they come first."""
    wait, span_ns = basis.evidence.rank_wait, basis.period.window.span_ns
    return wait is not None and wait.wait_ns >= basis.thresholds.headline_share * span_ns


def waits_for_rank(basis: Basis) -> str:
    """The start of the sentence if this rank waits for others for much of the window."""
    wait, span_ns = basis.evidence.rank_wait, basis.period.window.span_ns
    if wait is None or wait.wait_ns < basis.thresholds.rank_share * span_ns:
        return ""
    named = words("collective")
    kind = named.get(wait.type, "collective")
    what = f"one {kind}" if wait.count == 1 else f"{wait.count} {kind}s"
    return f"This rank waits {of_whole(wait.wait_ns, span_ns)} in {what}, probably for a later rank"


def without_rank_wait(evidence: Evidence) -> Evidence:
    """The evidence without this rank's waits for others."""
    period, wait = evidence.period, evidence.rank_wait
    gpu, gains = period.gpu, period.gains
    assert gpu is not None and gains is not None and wait is not None
    ns = min(wait.wait_ns, gpu.exposed_comm_ns)
    share = ns / gains.window_ns
    # Halving the device's work, or removing communication, also shortens the wait.
    left = replace(gains.less("communication", share), device=max(0.0, gains.device - share / 2))
    return replace(
        evidence,
        period=replace(
            period,
            window=replace(period.window, span_ns=period.window.span_ns - ns),
            gpu=replace(gpu, busy_ns=gpu.busy_ns - ns, exposed_comm_ns=gpu.exposed_comm_ns - ns),
            gains=left.without(ns),
        ),
        rank_wait=None,
    )


def once_share(analysis: Analysis) -> float:
    """The share of the whole trace that one-offs add; 0 if small."""
    whole = next((window for window in analysis.windows if window.window.kind == "trace"), None)
    if whole is None or whole.gains is None or not whole.window.span_ns:
        return 0.0
    start_ns = excess_in(whole.window, _profilers_start(analysis))
    # Events cut off by the recording's end are left out of gains, and are not one-offs.
    listed_ns = min(whole.gains.one_offs_ns, excess_in(whole.window, _of_work(analysis)))
    taken = (listed_ns - start_ns) / whole.window.span_ns
    return taken if taken >= analysis.thresholds.small_gain else 0.0


def happened(analysis: Analysis) -> Happened | None:
    """The run's one-offs; None: they take little of the whole trace."""
    if not (taken := once_share(analysis)):
        return None
    whole_ns = next(w.window.span_ns for w in analysis.windows if w.window.kind == "trace")
    return Happened(taken, round(taken * whole_ns), whole_ns, once_rows(analysis))


def once_rows(analysis: Analysis | Evidence) -> list[OneOffGroup]:
    """One-offs up to the last GPU op, grouped by name, slow step or first call; longest first."""
    start_ns, until_ns = (
        min(window.window.start_ns for window in analysis.windows),
        _last_ns(analysis),
    )
    seen = Window("", "", start_ns, until_ns, until_ns - start_ns)
    start = _profilers_start(analysis)
    of_run = [each for each in _of_work(analysis) if each not in start]
    slow = [each for each in of_run if each.kind in ("step", "call")]
    alike: dict[str, list[OneOffEvent]] = {}
    for event in of_run:
        inside = (s.name for s in slow if 0 <= event.start_ns - s.start_ns < s.dur_ns)
        alike.setdefault(next(inside, None) or one_off_name(event), []).append(event)
    rows = []
    for name, events in alike.items():
        sides = ([e for e in events if e.side == side] for side in ("host", "device"))
        ns, longer = max(((excess_in(seen, side), side) for side in sides), key=lambda s: s[0])
        if ns:
            named = _once_words(name, longer)
            rows.append(OneOffGroup(*named, ns, events[0].start_ns - start_ns))
    return sorted(rows, key=lambda row: -row.adds_ns)


def _last_ns(found: Analysis | Evidence) -> int:
    """The end of the trace's work."""
    outer = [window.window for window in found.windows]
    inner = [each.end_ns for each in outer if each.kind != "trace"]
    return max(inner or [each.end_ns for each in outer])


def _of_work(found: Analysis | Evidence) -> list[OneOffEvent]:
    """The one-offs that begin before the trace's work ends."""
    until_ns = _last_ns(found)
    return [one_off for one_off in found.one_offs if one_off.start_ns < until_ns]


def _profilers_start(found: Analysis | Evidence) -> list[OneOffEvent]:
    """The one-offs of the first recorded step, if steps ran before it: the profiler's start."""
    health = found.health if isinstance(found, Evidence) else found.trace.health
    if not found.steps or all(finding.code != "warmed_up" for finding in health):
        return []
    name = min(found.steps, key=lambda each: each.window.start_ns).window.name
    slow = [
        one_off for one_off in found.one_offs if one_off.kind == "step" and one_off.name == name
    ]
    return [
        one_off
        for one_off in found.one_offs
        if any(0 <= one_off.start_ns - step.start_ns < step.dur_ns for step in slow)
    ]


def excess_in(window: Window, one_offs: Sequence[OneOffEvent]) -> int:
    """One-offs' time beyond the usual inside a window, in ns."""
    total_ns = 0
    for one_off in one_offs:
        # A device works on a slow step longer than the host does.
        begin, end = one_off.start_ns, one_off.start_ns + max(one_off.dur_ns, one_off.excess_ns)
        inside_ns = min(end, window.end_ns) - max(begin, window.start_ns)
        total_ns += max(0, min(one_off.excess_ns, inside_ns))
    return total_ns


def one_off_name(event: OneOffEvent) -> str:
    """A one-off in a sentence, without the address of a built-in method's object."""
    if event.kind == "step" and event.side == "device":
        return f"{event.cause} in {event.name}"
    name = re.sub(" of .* object at 0x[0-9a-f]+>$", ">", event.name or "")
    return name or (_UNRECORDED if event.kind == "stretch" else event.cause)


def _by_name(evidence: Evidence) -> dict[str, list[OneOffEvent]]:
    """The one-offs in the judged window, by name."""
    window = evidence.period.window
    alike: dict[str, list[OneOffEvent]] = {}
    for one_off in evidence.one_offs:
        if one_off.start_ns < window.end_ns and one_off.start_ns + one_off.dur_ns > window.start_ns:
            alike.setdefault(one_off_name(one_off), []).append(one_off)
    return alike


def _excess_ns(events: Iterable[OneOffEvent]) -> int:
    return sum(event.excess_ns for event in events)


def _times(events: Iterable[OneOffEvent]) -> str:
    """The number of occurrences; an event on both sides at the same time counts once."""
    count = len({event.start_ns for event in events})
    return f"{count} x " if count > 1 else ""


def _inside(event: OneOffEvent) -> str:
    """What took a one-off's time."""
    if event.calls:
        return event.calls if event.calls != event.name else "nothing recorded"
    if event.kind == "step":
        cause = "nothing recorded" if event.cause == UNRECORDED else event.cause
        return cause if event.side == "host" else f"{cause} on the device"
    if (
        event.kind == "stretch"
        and event.cause in ("python", UNRECORDED)
        and not event.place
        and event.name
    ):
        return "nothing recorded"
    return one_off_name(event)


def _once_words(name: str, events: Sequence[OneOffEvent]) -> tuple[str, str]:
    """A description of the events in one step or with one name, longest first."""
    events = sorted(events, key=lambda event: -event.excess_ns)
    first = events[0]
    inside = ", ".join(dict.fromkeys(each for each in map(_inside, events) if each != name))
    if inside:
        return name, inside
    if times := _times(events):
        return f"{times}{name}", ""
    is_known = first.place and first.place != name and not first.place.startswith("<built-in ")
    return f"{name} in {first.place}" if is_known else name, ""
