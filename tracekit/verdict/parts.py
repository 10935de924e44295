"""What follows from an analysis for all who show it: the parts of its window, in plain words, and
what happened once."""

from __future__ import annotations

from msgspec.structs import replace

from tracekit.causes import UNRECORDED, in_words_of, words
from tracekit.evidence.model import HostThread
from tracekit.verdict.model import Analysis, WindowPart
from tracekit.verdict.once import happened

# Columns of the query cpu_time, in the order in which they are shown.
_OF_HOST = (
    "compute", "dispatch", "communication", "view", "allocation", "python", "input", "compilation",
    "runtime", "untraced",
)  # fmt: skip

# The longest name of a row on what was recorded meanwhile.
_MEANWHILE = 30


def with_parts(analysis: Analysis) -> Analysis:
    """The analysis with what follows from its other fields."""
    return replace(analysis, parts=parts_of(analysis), happened=happened(analysis))


def parts_of(analysis: Analysis) -> list[WindowPart]:
    """The parts of the verdict's window in plain words, without those that are 0; none if the
    recordings of several processes are mixed in it."""
    if any(each.code == "merged_ranks" for each in analysis.trace.health):
        return []
    gpu, idle, host = analysis.judged.gpu, analysis.judged.idle, analysis.judged.host
    if gpu is not None and idle is not None:
        parts = [
            WindowPart("compute", "compute", gpu.compute_ns),
            WindowPart("communication, exposed", "communication", gpu.exposed_comm_ns),
            WindowPart("copies, exposed", "memcpy", gpu.exposed_memcpy_ns),
            *(WindowPart(f"idle: {cause}", cause, ns) for cause, ns in idle.causes.items()),
            WindowPart("idle: device", "latency", idle.device_ns),
            WindowPart("idle: unlinked", "unknown", idle.unlinked_ns),
            WindowPart("idle: after_last_op", "idle", idle.after_last_op_ns),
        ]
        parts = _without_queued(parts, analysis)
    else:
        parts = _of_host(host) if host is not None else []
    word, named = analysis.trace.device_word, {"idle: untraced": _meanwhile(analysis)}
    lasting = [part for part in parts if part.dur_ns > 0]
    plain = (in_words_of(word, plain_part(part.name, of_host=idle is None)) for part in lasting)
    return [
        replace(part, name=named.get(part.name) or name)
        for part, name in zip(lasting, plain, strict=True)
    ]


def _meanwhile(analysis: Analysis) -> str | None:
    """Waits in which something was recorded, on another thread or in a range around the wait, if
    the verdict is about them: else the waits between that range's operators are other parts."""
    if analysis.verdict.bottleneck not in (None, UNRECORDED):
        return None
    idle_ns = analysis.idle.causes.get("untraced", 0) if analysis.idle else 0
    most = next((each for each in analysis.meanwhile if 2 * each["idle_ns"] >= idle_ns), None)
    if most is None:
        return None
    is_all = most["idle_ns"] >= (1 - analysis.thresholds.small_gain) * idle_ns
    said = f"waits{'' if is_all else ', most'} in {most['name']}"
    return said if len(said) <= _MEANWHILE else "waits, no call recorded"


def _without_queued(parts: list[WindowPart], analysis: Analysis) -> list[WindowPart]:
    """The parts, with the device's first gap as a part of its own if something that was not
    recorded held the device up: that is not idle time."""
    found = (each.time_ns for each in analysis.trace.health if each.code == "queued_before")
    queued_ns = next(found, None) or 0
    holding = max(parts[3:], key=lambda part: part.dur_ns)
    if not queued_ns or analysis.judged.window.kind == "step" or 2 * holding.dur_ns < queued_ns:
        return parts
    before_ns = min(queued_ns, holding.dur_ns)
    left = replace(holding, dur_ns=holding.dur_ns - before_ns)
    return [
        WindowPart("held up, not recorded", "unknown", before_ns),
        *(left if part is holding else part for part in parts),
    ]


def plain_part(name: str, *, of_host: bool) -> str:
    """A part of a window in plain words; `of_host`: of a trace without GPU ops."""
    return words("host_part" if of_host else "part").get(name, name)


def _of_host(host: HostThread) -> list[WindowPart]:
    ns = {name: getattr(host, f"{name}_ns") for name in _OF_HOST}
    named = {}
    if host.launches or host.device_evidence:
        # Beside a device that was not recorded, what operators take on the host is dispatch, but
        # for those that read its values.
        ns["dispatch"] += ns.pop("compute") + ns.pop("view")
        if host.device_read_ns and not host.launches:
            named["dispatch"] = "operators, with waits in them"
    return [WindowPart(named.get(name, name), name, each) for name, each in ns.items()]
