"""The parts of a first screen in words, from an analysis alone: reporters only lay them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tracekit.advice.model import TOGETHER, remedy_of
from tracekit.evidence.model import Blocked
from tracekit.evidence.units import ITERATION, UnitGroup, counted_units
from tracekit.text import between, counted, duration, of_whole, size
from tracekit.verdict.model import Analysis
from tracekit.verdict.next_steps import is_captured
from tracekit.verdict.regime import is_hardly_once
from tracekit.verdict.units import limited_units, main_units, other_units

# The doubts that a first screen has room for.
_DOUBTS = 2
# A setting that is a matter of degree is told from this share on, and as it is from the other on.
_LEAST, _WHOLE = 0.05, 0.95
# The letters of a line beside its label; a place that does not fit is left out.
_LINE = 73
# Classes of kernels that do no arithmetic.
_MOVING = ("copy",)
# In the order in which they are told.
_SETTINGS = (
    "engine", "mode", "compiler", "cuda graphs", "products", "attention", "optimizer",
    "parallelism", "loader", "allocator",
)  # fmt: skip
_PYTORCH = "PyTorch"


class KernelRow(Struct, frozen=True):
    """One of the kernels with the most time."""

    name: str
    count: int
    share: float
    """Of the time of all kernels."""
    achieved: str
    """Bytes or FLOPs per second, whichever limits it, and how near the device's limit that is;
    empty: its work is not known."""


Facts = list[tuple[str, list[str]]]
"""Labels, each with sentences; only those that have any."""


def head(analysis: Analysis) -> Facts:
    """What already runs, the units of work, and how fast the device could be."""
    window, *others = units(analysis)
    window += without_profiler(analysis) + without_once(analysis)
    label = "Units" if analysis.judged.window.kind == "step" else "Window"
    return _told(
        ("Runs", [already(analysis)]), (label, [window, *others]), ("Floor", [floor(analysis)])
    )


def sides(analysis: Analysis) -> Facts:
    """The host's lead, and the communication."""
    return _told(("Host", lead(analysis)), ("Comm", [communication(analysis)]))


def _told(*facts: tuple[str, list[str]]) -> Facts:
    lasting = ((label, [each for each in sentences if each]) for label, sentences in facts)
    return [(label, sentences) for label, sentences in lasting if sentences]


# -- the run ---------------------------------------------------------------------------------------


def already(analysis: Analysis) -> str:
    """What already runs, such as `training, bf16 products, 97.0 % in CUDA graphs, DDP`."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in analysis.settings:
        rows.setdefault(row["name"], []).append(row)
    told = [row["value"] for row in rows.get("framework", []) if row["value"] != _PYTORCH]
    for name in _SETTINGS:
        told += filter(None, (_setting(name, row) for row in rows.get(name, [])[:1]))
    return ", ".join(told)


def _setting(name: str, row: Mapping[str, Any]) -> str:
    value, part = str(row["value"]), row["share"]
    if value == "unknown" or (part is not None and part < _LEAST):
        return ""
    what, _, how = value.partition(", ")
    told = {
        "products": f"{value} products",
        "loader": f"input by {value}",
        "cuda graphs": "in CUDA graphs",
        "attention": value if "ttention" in value else f"{value} attention",
        "allocator": "an allocator without a cache",
        "compiler": "compiled" if not how else "compiled, with no kernel of its own",
        "optimizer": f"{what} ({how})" if how else what,
    }.get(name, value)
    is_whole = part is None or (part >= _WHOLE and name != "cuda graphs")
    return told if is_whole else f"{100 * part:.0f} % {told}"


def units(analysis: Analysis) -> list[str]:
    """What repeats: the group that is judged, and the others beside it."""
    others = other_units(analysis)
    return [_judged(analysis), *([others] if others else [])]


def _judged(analysis: Analysis) -> str:
    """The judged window's length, and that of others like it."""
    window, group = analysis.judged.window, main_units(analysis)
    length = f"{duration(window.span_ns)}{_marked(analysis)}"
    if group is not None and group.kind == ITERATION:
        return f"{window.name}, {length} in all"
    if window.kind != "step":
        return f"{window.name} {length}" if window.span_ns else ""
    kind, count = (group.kind, group.count) if group else ("step", len(analysis.steps))
    named = counted_units(kind, count)
    if count == 1:
        return f"{named} of {length}{_tokens(group)}"
    alike = [each for each in analysis.steps if each.group == analysis.judged.group]
    alike = [each for each in alike if each.is_whole] or alike
    spans = [each.window.span_ns for each in sorted(alike, key=lambda e: e.window.start_ns)]
    parts = [named]
    if len(spans) > 1 and duration(min(spans)) != duration(max(spans)):
        first = f" (first {duration(spans[0])})" if len(spans) > 2 else ""
        parts = [f"{named} of {between(min(spans), max(spans))}{first}"]
    usual = _which(window.span_ns, spans)
    if len(spans) == 1 and group and group.whole == 1:
        usual = "the whole one"
    parts.append(f"{usual} {length}")
    if group and group.cold:
        parts.append(f"{group.cold} cold")
    if group and group.whole < group.count:
        parts.append(f"{group.count - group.whole} cut off")
    return ", ".join(parts) + _tokens(group)


def _marked(analysis: Analysis) -> str:
    """How long the judged step is marked, if the mark and the step differ much in length."""
    marked_ns, span_ns = analysis.marked_ns, analysis.judged.window.span_ns
    if marked_ns is None or abs(marked_ns - span_ns) < analysis.thresholds.small_gain * span_ns:
        return ""
    return f" (marked: {duration(marked_ns)})"


def _which(judged_ns: int, spans: list[int]) -> str:
    """Which of several units is judged: the one of median length, unless those with one-offs are
    left out."""
    ordered = sorted(spans)
    if len(ordered) == 2:
        return "the longer" if judged_ns == ordered[1] else "the shorter"
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return "median" if judged_ns in middle else "a usual one"


def _tokens(group: UnitGroup | None) -> str:
    """How many tokens a server reads and generates in a second of such units."""
    if group is None or not group.tokens or not group.median_ns:
        return ""
    each = group.tokens / group.count
    return f", {each:,.0f} tokens: {each * 1e9 / group.median_ns:,.0f} a second"


def without_profiler(analysis: Analysis) -> str:
    """For the end of a phrase: how long the judged window would take without the profiler, if that
    is known, and less; else empty."""
    gains, window = analysis.judged.gains, analysis.judged.window
    measured = (analysis.trace.capture or {}).get("unprofiled_step_ns")
    cost_ns = (gains.recorder_ns if gains else None) or 0
    # The step's length was measured; other windows' lengths follow from it.
    is_measured = window.kind == "step" and isinstance(measured, int)
    if is_measured:
        cost_ns = window.span_ns - int(measured or 0)
    length = duration(window.span_ns - cost_ns)
    if cost_ns <= 0 or length == duration(window.span_ns):
        return ""
    # An estimate of the recorder's cost is a lower bound.
    roughly = "about " if isinstance(measured, int) else "at most "
    return f", {'' if is_measured else roughly}{length} without the profiler"


def without_once(analysis: Analysis) -> str:
    """For the end of a phrase: how long the judged window would take without a few one-offs, if
    shares are of that length; else empty. Of a trace without a device, the profiler's estimated
    cost is left out, too."""
    judged, gains = analysis.judged, analysis.judged.gains
    if gains is None and analysis.priced_ns and not without_profiler(analysis):
        length, span_ns = duration(analysis.priced_ns), judged.window.span_ns
        if analysis.priced_ns >= span_ns or length == duration(span_ns):
            return ""
        if any(each.code == "recorder_cost" for each in analysis.trace.health):
            return f", at most {length} without the profiler"
        return f", {length} without one-offs"
    if gains is None or not is_hardly_once(judged, analysis.thresholds):
        return ""
    return f", {duration(gains.window_ns)} without one-offs"


def floor(analysis: Analysis) -> str:
    """How fast the device could do the judged work; if too little of it is known, how to
    record more."""
    unit = limited_units(analysis.units, analysis.judged.group)
    span_ns = analysis.judged.window.span_ns
    if unit is None or not span_ns:
        return ""
    if not unit.floor_ns or 2 * (unit.modelled or 0.0) < 1:
        return _recording_of_work(analysis, unit.modelled)
    exact = unit.exact or 0.0
    shares = {"known": exact, "bounded": (unit.modelled or 0.0) - exact}
    work = ", ".join(f"{100 * part:.0f} % {how}" for how, part in shares.items() if part >= _LEAST)
    return f"{of_whole(unit.floor_ns, span_ns)} at the device's peaks (work: {work})"


def _recording_of_work(analysis: Analysis, modelled: float | None) -> str:
    """What to record, where the work of most kernels is unknown."""
    if modelled is None:
        return ""
    said = f"work known of {100 * modelled:.0f} % of kernel time; "
    if is_captured(analysis.launch, analysis.thresholds):
        return f"{said}record the graphs' capture, too"
    values = {(row["name"], row["value"]) for row in analysis.settings}
    if ("recorded", "shapes") in values:
        return ""
    return f"{said}record shapes, too"


# -- the host and the device -----------------------------------------------------------------------


def lead(analysis: Analysis) -> list[str]:
    """How far the host is ahead of the device, and where it waits for it."""
    launch, thresholds, word = analysis.launch, analysis.thresholds, analysis.trace.device_word
    lines = []
    if launch is not None and launch.first_delay_p50_ns >= 0 and analysis.causal is not None:
        delay, ahead = launch.first_delay_p50_ns, launch.queue_depth_p50 - 1
        if ahead > 0 and delay > thresholds.launch_floor_ns:
            queued = counted(ahead, "op")
            lines = [f"It is {duration(delay)} ahead of the {word} (median), {queued} queued."]
        elif delay <= max(thresholds.launch_floor_ns, thresholds.wait_ns):
            lines = [f"It is not ahead: work starts {duration(delay)} after its launch (median)."]
    host = analysis.judged.host
    if host is not None and host.operators and not host.launches:
        overhead_ns = host.dispatch_ns + host.view_ns + host.python_ns
        each = duration(round(overhead_ns / host.operators))
        lines = [f"It ran {counted(host.operators, 'operator')}, with {each} of overhead for each."]
    if analysis.blocked is not None:
        is_parallel = analysis.blocked.wait_ns > analysis.judged.window.span_ns
        lines.append(_blocked(analysis.blocked, analysis.trace.device_word, is_parallel))
    return lines


def _blocked(blocked: Blocked, word: str, is_parallel: bool) -> str:
    """`is_parallel`: the calls take longer than the window, so several threads wait at once."""
    calls = "one call" if blocked.count == 1 else counted(blocked.count, "call")
    waits = "Its threads wait" if is_parallel else "It waits"
    told = f"{waits} {duration(blocked.wait_ns)} for the {word} in {calls}"
    if blocked.call and blocked.count == 1:
        told += f", {blocked.call}"
    elif blocked.call:
        is_most = blocked.longest_ns >= _WHOLE * blocked.wait_ns
        longest = "nearly all" if is_most else f"the longest {duration(blocked.longest_ns)}"
        told += f", {longest} in {blocked.call}"
    where = f" at {blocked.where}."
    is_place = blocked.where != blocked.call and not where.startswith(" at <built-in ")
    fits = blocked.where and len(told) + len(where) <= _LINE
    return f"{told}{where}" if is_place and fits else f"{told}."


def kernels(analysis: Analysis, most: int = 3) -> list[KernelRow]:
    """The kernels with the most time, longest first."""
    return [
        KernelRow(row["name"], row["count"], row["share_of_kernel_time"] or 0.0, achieved(row))
        for row in analysis.top_kernels[:most]
    ]


def achieved(row: Mapping[str, Any]) -> str:
    """What a kernel of the question `top_kernels` achieves, such as `2.61 TB/s, 78 %`: bytes or
    FLOPs, whichever it needs more time for. With a lower bound of its work: `>2.61 TB/s, 78 %`."""
    moved, part = row.get("bytes_per_s"), row["limit_share"]
    # A bound that low tells nothing of the kernel.
    if not moved or (not row["is_exact"] and (part or 0.0) < _LEAST):
        return ""
    if row["roof"] == "math" and row["class"] in _MOVING:
        # The arithmetic of its operator is another kernel's.
        return ""
    rate = f"{size(moved)}/s"
    if row["roof"] == "math":
        rate = f"{row['flop_per_s'] / 1e12:,.3g} TFLOP/s"
    near = "" if part is None else f", {100 * part:.0f} %" if part <= 1 else ", cached"
    return f"{'' if row['is_exact'] else '>'}{rate}{near}"


def communication(analysis: Analysis) -> str:
    """How much communication there is, and how much of it other kernels hide; empty: hardly any."""
    found = analysis.communication
    if found is None:
        return ""
    if not found.hidden_ns:
        return f"{duration(found.total_ns)}, none of it hidden behind other kernels"
    exposed = duration(found.total_ns - found.hidden_ns)
    hidden = f"{duration(found.hidden_ns)} hidden behind other kernels"
    return f"{duration(found.total_ns)}: {exposed} exposed, {hidden}"


# -- what to do ------------------------------------------------------------------------------------


def together(analysis: Analysis, shown: int = TOGETHER) -> str:
    """Which of the recurring changes are priced together, such as `the first 5`, in a list that
    shows so many; empty: there are fewer than two, or the others add nothing to the best of
    them."""
    ns, of_ns = analysis.together_ns, analysis.priced_ns
    recurring = [e for e in analysis.advice if not e.once and not remedy_of(e).is_beside]
    priced = recurring[:TOGETHER]
    if not ns or not of_ns or len(priced) < 2:
        return ""
    best_ns = max(each.saves_ns for each in priced)
    if ns < best_ns + analysis.thresholds.named_gain * of_ns:
        return ""
    if len(recurring) > len(priced) or len(priced) > shown:
        return f"the first {len(priced)}"
    return "both" if len(priced) == 2 else f"all {len(priced)}"


def doubts(analysis: Analysis) -> tuple[list[str], int]:
    """The doubts that no other part of the screen says, most turning first; and how many more
    there are."""
    found = [each.sentence for each in analysis.verdict.lowered_by if not each.stated]
    return found[:_DOUBTS], len(found[_DOUBTS:])
