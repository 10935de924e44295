"""Words for an analysis that several reporters share: devices, lengths, and the bound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from tracekit.advice.model import Advice, remedy_of
from tracekit.evidence.model import Period
from tracekit.reporters import colors
from tracekit.text import duration
from tracekit.verdict.model import Analysis, Verdict
from tracekit.verdict.regime import is_partly_once, split_bound

ONCE = "What happened once (its whole time)"
# Parts of the window that gains leave out.
WITHOUT = "what happened once and what the profiler is known to cost"
THROUGHPUT = "For throughput (time of as many samples; the step itself gets longer)"

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


def devices_of(analysis: Analysis) -> str:
    """The names of the trace's devices with their numbers; or a note that they have no names, or
    that there are none."""
    if analysis.memory is not None:
        return f"memory snapshot of device {analysis.memory.device_id}"
    named = Counter(name for name in analysis.trace.devices if name)
    if named:
        alike = (f"{count} x {name}" if count > 1 else name for name, count in named.items())
        return ", ".join(alike)
    if analysis.gpu:
        kernels = "\n".join(row["name"] for row in analysis.top_kernels)
        # NVIDIA's newer devices run kernels built for older ones; AMD's run only their own.
        guessed = (each for of, each in _ARCHITECTURES if re.search(of, kernels, re.IGNORECASE))
        newest = next(guessed, None)
        return f"unnamed device{f' (by its kernels, perhaps {newest})' if newest else ''}"
    if any(finding.code == "unread_device" for finding in analysis.trace.health):
        return "a device that is not read"
    return "CPU only" if analysis.host else "no device"


def lists_of(advice: Sequence[Advice], recurring: str) -> list[tuple[str, list[Advice]]]:
    """The advice on recurring work, throughput and one-offs, each under its heading, in the order
    of the fix list. Recording less does not change the program, so it is left out."""
    lists: dict[str, list[Advice]] = {}
    for fix in advice:
        if not is_of_recording(fix):
            heading = ONCE if fix.once else recurring
            if remedy_of(fix).is_batch:
                heading = THROUGHPUT
            lists.setdefault(heading, []).append(fix)
    return list(lists.items())


def shares_of(analysis: Analysis) -> str:
    """The denominator of shares: the window without the profiler, or its rest if one-offs take much
    of it."""
    gains = analysis.judged.gains
    if gains is None:
        # Without a device, the whole trace was replayed.
        whole_ns = next(w.window.span_ns for w in analysis.windows if w.window.kind == "trace")
        length = duration(analysis.priced_ns or whole_ns)
        slowed = (analysis.trace.capture or {}).get("unprofiled_step_ns")
        other = f"of {length}{' unprofiled' if slowed else ''}"
        return "of the trace" if length == duration(whole_ns) else other
    length = duration(gains.window_ns)
    if is_partly_once(analysis.judged, analysis.thresholds):
        return f"of the other {length}"
    return f"of the step's {length}" if analysis.judged.window.kind == "step" else f"of {length}"


def next_of(analysis: Analysis) -> list[str]:
    """Candidates that are not advised, and what to try next."""
    if not analysis.unsure:
        return analysis.verdict.try_next
    # Most verdicts do not need this.
    from tracekit.verdict.next_steps import unsure_notes

    return [*unsure_notes(analysis.unsure, analysis.verdict), *analysis.verdict.try_next]


def is_of_recording(advice: Advice) -> bool:
    """Whether the advice is about the recording instead of the program."""
    return remedy_of(advice).is_apart


def best_of(advice: Sequence[Advice]) -> Advice | None:
    """The first advice with a share, which saves most."""
    return next((fix for fix in advice if fix.share is not None), None)


def busy_share(period: Period) -> float | None:
    """The device's busy time as a fraction of a window; None: no device, or no length."""
    span = period.window.span_ns
    return period.gpu.busy_ns / span if period.gpu and span else None


def bound_text(found: Verdict | Period) -> Text:
    """The regime of a window in its color, and its bottleneck."""
    regime, by = split_bound(found.regime, found.bottleneck)
    return Text(regime, colors.of(found.regime)).append(by, "default")


def short_bound(found: Verdict | Period) -> Text:
    """The short form of regime and bottleneck, such as `overhead, python`."""
    return short_words(found.regime, found.bottleneck)


def short_words(regime: str, bottleneck: str | None) -> Text:
    """The short form of a regime and a bottleneck."""
    word, by = split_bound(regime, bottleneck)
    if word != regime:
        return Text(by.removeprefix(" by "), colors.of(regime))
    text = Text(word.removesuffix("-bound"), colors.of(regime))
    return text.append(f", {bottleneck}", "default") if bottleneck else text
