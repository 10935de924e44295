"""An analysis in words that several reporters share: its devices, its window's parts, its bound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.text import Text

from tracekit.advice.model import Advice, remedy_of
from tracekit.causes import UNRECORDED, in_words_of
from tracekit.evidence.model import HostThread, Period
from tracekit.reporters import colours
from tracekit.text import duration
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Analysis, Verdict
from tracekit.verdict.once import is_hardly_once, is_partly_once
from tracekit.verdict.regime import split_bound

ONCE = "What happened once (its whole time)"
# What gains leave out of the window.
WITHOUT = "what happened once and what the profiler is known to cost"
THROUGHPUT = "For throughput (time of as many samples; the step itself gets longer)"

# The longest name of a row on what was recorded meanwhile.
_MEANWHILE = 30

# Columns of the query cpu_time, in the order in which they are shown.
_OF_HOST = (
    "compute", "dispatch", "communication", "view", "allocation", "python", "input", "compilation",
    "runtime", "untraced",
)  # fmt: skip

# Patterns of kernels' names and the devices that they tell, the newest of NVIDIA's first:
# https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#gpu-feature-list,
# https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html.
_ARCHITECTURES = (
    (r"(gfx|ISA)950", "gfx950, AMD CDNA 4"),
    (r"(gfx|ISA)94[0-2]", "gfx942, AMD CDNA 3"),
    (r"(gfx|ISA)90a", "gfx90a, AMD CDNA 2"),
    (r"(gfx|ISA)908", "gfx908, AMD CDNA"),
    (r"sm_?1[0-2]\d(?!\d)|blackwell", "NVIDIA Blackwell"),
    (r"sm_?90(?!\d)|hopper", "NVIDIA Hopper or newer"),
    (r"sm_?89(?!\d)", "NVIDIA Ada or newer"),
    (r"sm_?8[0-8](?!\d)|ampere", "NVIDIA Ampere or newer"),
    (r"sm_?75(?!\d)|turing", "NVIDIA Turing or newer"),
    (r"sm_?7[0-4](?!\d)|volta", "NVIDIA Volta or newer"),
)


class WindowPart(Struct, frozen=True):
    """A part of a window; `kind` is the cause or activity that has its colour."""

    name: str
    kind: str
    ns: int


def devices_of(analysis: Analysis) -> str:
    """The names of the trace's devices, with the number of each; or the words that they have no
    names, or that there are none."""
    named = Counter(name for name in analysis.trace.devices if name)
    if named:
        alike = (f"{count} x {name}" if count > 1 else name for name, count in named.items())
        return ", ".join(alike)
    if analysis.gpu:
        kernels = "\n".join(row["name"] for row in analysis.top_kernels)
        # NVIDIA's newer devices run kernels of older ones; AMD's run only their own.
        guessed = (each for of, each in _ARCHITECTURES if re.search(of, kernels, re.IGNORECASE))
        newest = next(guessed, None)
        return f"unnamed device{f' (by its kernels, perhaps {newest})' if newest else ''}"
    if _has(analysis, "unread_device"):
        return "a device that is not read"
    return "CPU only" if analysis.host else "no device"


def _has(analysis: Analysis, finding: str) -> bool:
    return any(each.code == finding for each in analysis.trace.health)


def without_profiler(analysis: Analysis) -> str:
    """For the end of a phrase: how long the judged window would take without the profiler, if that
    is known, and less; else empty."""
    gains, window = analysis.judged.gains, analysis.judged.window
    measured = (analysis.trace.capture or {}).get("unprofiled_step_ns")
    cost_ns = (gains.recorder_ns if gains else None) or 0
    # The length of a step was measured, that of any other window follows from it.
    is_measured = window.kind == "step" and isinstance(measured, int)
    if is_measured:
        cost_ns = window.span_ns - int(measured or 0)
    length = duration(window.span_ns - cost_ns)
    if cost_ns <= 0 or length == duration(window.span_ns):
        return ""
    # An estimate of the recorder's cost is the least that it can be.
    roughly = "about " if isinstance(measured, int) else "at most "
    return f", {'' if is_measured else roughly}{length} without the profiler"


def without_once(analysis: Analysis) -> str:
    """For the end of a phrase: how long the judged window would take without a few one-offs, if
    shares are of that length; else empty."""
    judged, gains = analysis.judged, analysis.judged.gains
    if gains is None or not is_hardly_once(judged, Thresholds()):
        return ""
    return f", {duration(gains.window_ns)} without one-offs"


def lists_of(advice: Sequence[Advice], recurring: str) -> list[tuple[str, list[Advice]]]:
    """The advice on what recurs, on throughput and on what happened once, each under its heading,
    in the order of the fix list. Recording less does not change the program, so it is left out."""
    found: dict[str, list[Advice]] = {}
    for each in advice:
        if not is_of_recording(each):
            heading = ONCE if each.once else recurring
            if remedy_of(each).is_batch:
                heading = THROUGHPUT
            found.setdefault(heading, []).append(each)
    return list(found.items())


def shares_of(analysis: Analysis) -> str:
    """The length that shares are of: the window's without the profiler, or its rest where one-offs
    take much of it."""
    gains = analysis.judged.gains
    if gains is None:
        # Without a device, all of it was replayed.
        whole_ns = next(w.window.span_ns for w in analysis.windows if w.window.kind == "trace")
        length = duration(analysis.priced_ns or whole_ns)
        slowed = (analysis.trace.capture or {}).get("unprofiled_step_ns")
        other = f"of {length}{' unprofiled' if slowed else ''}"
        return "of the trace" if length == duration(whole_ns) else other
    length = duration(gains.window_ns)
    if is_partly_once(analysis.judged, Thresholds()):
        return f"of the other {length}"
    return f"of the step's {length}" if analysis.judged.window.kind == "step" else f"of {length}"


def next_of(analysis: Analysis) -> list[str]:
    """What was found but is not advised, and what to try next."""
    if not analysis.unsure:
        return analysis.verdict.try_next
    # Most verdicts are shown without.
    from tracekit.verdict.next_steps import unsure_notes

    return [*unsure_notes(analysis.unsure, analysis.verdict), *analysis.verdict.try_next]


def is_of_recording(advice: Advice) -> bool:
    """Whether the advice is about the recording instead of the program."""
    return remedy_of(advice).is_apart


def best_of(advice: Sequence[Advice]) -> Advice | None:
    """The first advice that has a share, which is what would save most."""
    return next((each for each in advice if each.share is not None), None)


def busy_share(period: Period) -> float | None:
    """The device's busy time as a fraction of a window; None: it has no device, or no length."""
    span = period.window.span_ns
    return period.gpu.busy_ns / span if period.gpu and span else None


def parts_of(analysis: Analysis) -> list[WindowPart]:
    """The parts of the verdict's window in plain words, without those that are 0; none if the
    recordings of several processes are mixed in it."""
    if _has(analysis, "merged_ranks"):
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
    word, words = analysis.trace.device_word, {"idle: untraced": _meanwhile(analysis)}
    lasting = [part for part in parts if part.ns > 0]
    plain = (in_words_of(word, plain_part(part.name, of_host=idle is None)) for part in lasting)
    return [
        replace(part, name=words.get(part.name) or name)
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
    is_all = most["idle_ns"] >= (1 - Thresholds().small_gain) * idle_ns
    said = f"waits{'' if is_all else ', most'} in {most['name']}"
    return said if len(said) <= _MEANWHILE else "waits, no call recorded"


def _without_queued(parts: list[WindowPart], analysis: Analysis) -> list[WindowPart]:
    """The parts, with the device's first gap as a part of its own if something that was not
    recorded held the device up: that is not idle time."""
    found = (each.time_ns for each in analysis.trace.health if each.code == "queued_before")
    queued_ns = next(found, None) or 0
    holding = max(parts[3:], key=lambda part: part.ns)
    if not queued_ns or analysis.judged.window.kind == "step" or 2 * holding.ns < queued_ns:
        return parts
    before_ns = min(queued_ns, holding.ns)
    left = replace(holding, ns=holding.ns - before_ns)
    return [
        WindowPart("held up, not recorded", "unknown", before_ns),
        *(left if part is holding else part for part in parts),
    ]


# What the busiest thread of a trace without GPU ops does, in plain words.
_DOES = {
    "compute": "compute operators",
    "python": "Python",
    "runtime": "runtime calls",
    "untraced": "nothing recorded",
    "view": "views of tensors",
}
# The same of a device and of what it waits for.
_WORDS = {
    "communication, exposed": "communication",
    "copies, exposed": "copies",
    "copy": "copies",
    "idle: input": "waits for input",
    "idle: python": "waits for Python",
    "idle: untraced": "waits, nothing recorded",
    "idle: dispatch": "waits for dispatch",
    "idle: launch": "waits for launch calls",
    "idle: launch_latency": "launch latency",
    "idle: runtime": "waits for runtime calls",
    "idle: sync": "waits for synchronize",
    "idle: copy": "waits for copy calls",
    "idle: allocation": "waits for allocation",
    "idle: compilation": "waits for compilation",
    "idle: device": "gaps on the device",
    "idle: unlinked": "gaps, launch unknown",
    "idle: after_last_op": "after the last GPU op",
}


def plain_part(name: str, *, of_host: bool) -> str:
    """A part of a window in plain words; `of_host`: of a trace without GPU ops."""
    return (_DOES if of_host else _WORDS).get(name, name)


def bound_text(found: Verdict | Period) -> Text:
    """The regime of a window in its colour, and its bottleneck."""
    regime, by = split_bound(found.regime, found.bottleneck)
    return Text(regime, colours.of(found.regime)).append(by, "default")


def short_bound(found: Verdict | Period) -> Text:
    """The same where there is little room, as in `overhead, python`."""
    regime, by = split_bound(found.regime, found.bottleneck)
    if regime != found.regime:
        return Text(by.removeprefix(" by "), colours.of(found.regime))
    text = Text(regime.removesuffix("-bound"), colours.of(found.regime))
    return text.append(f", {found.bottleneck}", "default") if found.bottleneck else text


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
