"""Parts of an analysis for all reporters: the parts of the window in plain words, and one-offs."""

from __future__ import annotations

from msgspec.structs import replace

from tracekit.causes import UNRECORDED, in_words_of, words
from tracekit.evidence.model import HostThread
from tracekit.verdict.model import Analysis, WindowPart
from tracekit.verdict.once import happened

# Columns of the query cpu_time, in the order in which they are shown.
_OF_HOST = (
    "compute", "dispatch", "communication", "view", "allocation", "python", "input", "compilation",
    "runtime", "waiting", "untraced",
)  # fmt: skip

# The maximum length of an activity's name in a row.
_MEANWHILE = 30


def with_parts(analysis: Analysis) -> Analysis:
    """The analysis with its derived fields."""
    return replace(analysis, parts=parts_of(analysis), happened=happened(analysis))


def parts_of(analysis: Analysis) -> list[WindowPart]:
    """The nonzero parts of the verdict's window in plain words; empty if it mixes the recordings of
    several processes."""
    if any(finding.code == "merged_ranks" for finding in analysis.trace.health):
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
    """Waits with records on another thread or in a range around the wait, if the verdict is about
    them. Otherwise the waits between that range's operators are other parts."""
    if analysis.verdict.bottleneck not in (None, UNRECORDED):
        return None
    idle_ns = analysis.idle.causes.get("untraced", 0) if analysis.idle else 0
    most = next((each for each in analysis.meanwhile if 2 * each["idle_ns"] >= idle_ns), None)
    if most is None:
        return None
    is_all = most["idle_ns"] >= (1 - analysis.thresholds.small_gain) * idle_ns
    name = f"waits{'' if is_all else ', most'} in {most['name']}"
    return name if len(name) <= _MEANWHILE else "waits, no call recorded"


def _without_queued(parts: list[WindowPart], analysis: Analysis) -> list[WindowPart]:
    """The parts, with the device's first gap as a separate part if something unrecorded held the
    device up: that is not idle time."""
    held_ns = (
        finding.time_ns for finding in analysis.trace.health if finding.code == "queued_before"
    )
    queued_ns = next(held_ns, None) or 0
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
    """A part of a window in plain words; `of_host`: in a trace without GPU ops."""
    return words("host_part" if of_host else "part").get(name, name)


def _of_host(host: HostThread) -> list[WindowPart]:
    ns = {name: getattr(host, f"{name}_ns") for name in _OF_HOST}
    named = {}
    if host.launches or host.device_evidence:
        # If the device was not recorded, operators' host time is dispatch, except for operators
        # that read the device's values.
        ns["dispatch"] += ns.pop("compute") + ns.pop("view")
        if host.device_read_ns and not host.launches:
            named["dispatch"] = "operators, with waits in them"
    return [WindowPart(named.get(name, name), name, each) for name, each in ns.items()]
