"""What no answer may say, whatever its trace: a guard for the answers of all tests.

`impossible_claims(Answer(...))` gives a sentence for each thing that cannot be true. A rule is a
function in `RULES`; it reads the parts of an answer that it is about, and skips those that are not
given. The rules here are about the JSON; those of tests/kit/impossible_texts.py about sentences,
tables and the page, those of tests/kit/impossible_screens.py about what all of them say alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tests.kit.answered import (
    Answer,
    Json,
    advice_lists,
    numbers,
    periods,
    printed,
    sentences,
    shapes_by_step,
    shown,
)
from tests.kit.impossible_runs import RULES as RUN_RULES
from tests.kit.impossible_screens import SCREEN_RULES
from tests.kit.impossible_texts import TEXT_RULES, Rule
from tracekit.database.remedies import remedy
from tracekit.verdict.model import Analysis

# Commands whose output passes the guard.
GUARDED = ("analyze", "advise", "whatif", "diff", "history")


def impossible_claims(answer: Answer) -> list[str]:
    """The impossible things that an answer says, each after the name of its rule."""
    return [f"{rule.__name__}: {each}" for rule in RULES for each in rule(answer)]


def require_possible(answer: Answer | Analysis) -> None:
    """Fails where an answer says something impossible; of an analysis, in its JSON and on the
    console."""
    wrong = impossible_claims(shown(answer) if isinstance(answer, Analysis) else answer)
    assert not wrong, "\n".join(wrong)


def require_possible_output(arguments: Sequence[object], output: str) -> None:
    """Fails where what a command printed, if it is one of `GUARDED`, says something impossible."""
    if arguments and arguments[0] in GUARDED:
        for answer in printed(output):
            require_possible(answer)


# -- lengths and counts ----------------------------------------------------------------------------

# Differences, gains, clocks and ids may be negative, and so may times on a trace's clock.
_SIGNED = re.compile(
    r"(change|ahead|residual|skew|shift|delay_p\d+|start|end|from|until)_ns$|_id$|^(pid|tid|rank)$|"
    r"^(margin|host|device|host_gain|device_gain|cuda_graph|unknown|change|start_ns|first_ns)$"
)
# Objects of numbers that may be negative.
_SIGNED_OBJECTS = ("removed", "removed_at_most", "undilated", "capture", "summary", "changes")


def nothing_is_negative(answer: Answer) -> Iterator[str]:
    """No length, size, count or saving is below 0."""
    for part in (answer.analysis, answer.fixes, answer.whatif, answer.diff, answer.run):
        for path, value in numbers(part or {}):
            names = path.split(".")
            is_signed = _SIGNED.search(names[-1]) or {*names} & {*_SIGNED_OBJECTS}
            # A change may make a run longer.
            if value < 0 and not is_signed and path != "saves_ns":
                yield f"{path} is {value:,}"


def windows_end_after_they_start(answer: Answer) -> Iterator[str]:
    """A window's length is its end minus its start, and what happened once is inside the trace."""
    found = answer.analysis or {}
    windows = [each["window"] for each in periods(found)]
    for each in windows:
        if each["span_ns"] != each["end_ns"] - each["start_ns"]:
            yield f"{each['name']} is {each['span_ns']:,} ns long: {each}"
    whole = next((each for each in windows if each["kind"] == "trace"), None)
    for each in found.get("one_offs", []) if whole else []:
        if whole and not whole["start_ns"] <= each["start_ns"] <= whole["end_ns"]:
            yield f"{each['name']} happened once at {each['start_ns']:,}, outside of {whole}"
    for each in (found.get("causal") or {}).get("links", []):
        if each["start_ns"] < 0:
            yield f"a link begins {each['start_ns']:,} ns after the trace"


_DEVICE_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memcpy_ns", "idle_ns")
_IDLE_PARTS = ("host_late_ns", "device_ns", "unlinked_ns", "after_last_op_ns")
_HOST_PARTS = (
    "compute_ns", "dispatch_ns", "view_ns", "python_ns", "input_ns", "compilation_ns", "runtime_ns",
    "untraced_ns", "waiting_ns", "allocation_ns", "communication_ns",
)  # fmt: skip


def parts_add_up(answer: Answer) -> Iterator[str]:
    """The parts of a window, and of its idle time, add up to it."""
    for period in periods(answer.analysis or {}):
        name, span = period["window"]["name"], period["window"]["span_ns"]
        gpu, idle, host = (period.get(each) for each in ("gpu", "idle", "host"))
        if gpu:
            yield from _sums(f"the device in {name}", gpu, _DEVICE_PARTS, span)
            yield from _sums(f"busy in {name}", gpu, _DEVICE_PARTS[:3], gpu["busy_ns"])
            if not gpu["kernels"] <= gpu["gpu_ops"] >= gpu["linked"]:
                yield f"{name} has more kernels or launched ops than ops: {gpu}"
        if idle and gpu:
            yield from _sums(f"idle in {name}", idle, _IDLE_PARTS, gpu["idle_ns"])
            causes = idle["causes"]
            yield from _sums(f"the causes in {name}", causes, tuple(causes), idle["host_late_ns"])
            if idle["device_in_launch_ns"] > idle["device_ns"]:
                yield f"device_in_launch_ns is more than device_ns in {name}"
            if idle["waits_for_host_ns"] > gpu["idle_ns"]:
                yield f"{name} waits for the host for more than it is idle"
        if host:
            yield from _sums(f"the host in {name}", host, _HOST_PARTS, span)
    diff = (answer.diff or {}).get("waterfall") or []
    if diff:
        changes = sum(row["change_ns"] for row in diff[1:-1])
        if diff[0]["a_ns"] + changes != diff[-1]["b_ns"]:
            yield f"the changes of a comparison add up to {changes:,} ns: {diff}"


def shares_add_up(answer: Answer) -> Iterator[str]:
    """Shares of one whole add up to it, and none is below 0 or over 100 %."""
    found, verdict = answer.analysis or {}, (answer.analysis or {}).get("verdict") or {}
    shares = verdict.get("shares") or {}
    if "busy" in shares:
        yield from _whole("shares", [shares["busy"], shares["idle"]])
        idle = [value for name, value in shares.items() if name.startswith("idle_")]
        yield from _whole("shares of idle time", idle, shares["idle"])
    elif shares:
        yield from _whole("shares", shares.values())
    path = (found.get("causal") or {}).get("path") or {}
    then = ((answer.fixes or {}).get("together") or {}).get("bound_by") or {}
    changed = (answer.whatif or {}).get("bound_by") or {}
    for bound_by in filter(None, (path, then, changed)):
        yield from _whole("a critical path", bound_by.values())
    kernels = [row["share_of_kernel_time"] or 0.0 for row in found.get("top_kernels", [])]
    if not 0 <= sum(kernels) <= 1.000001:
        yield f"the top kernels take {sum(kernels):.1%} of kernel time"
    for each in found.get("meanwhile", []):
        if not 0 <= each["share"] <= 1.000001:
            yield f"{each['name']} was recorded in {each['share']:.1%} of waits"


# -- savings ---------------------------------------------------------------------------------------


def nothing_saves_more_than_all(answer: Answer) -> Iterator[str]:
    """No change saves more than the length that it shortens, and no gain is over 100 %."""
    found = answer.analysis or {}
    for period in [*periods(found), found.get("causal") or {}]:
        gains, window = period.get("gains"), period.get("window")
        if not gains:
            continue
        name = window["name"] if window else "causal"
        values = [gains[each] for each in ("host", "device", "cuda_graph", "unknown")]
        most = max([*values, *gains["removed"].values(), *gains["removed_at_most"].values()])
        if most > 1.000001:
            yield f"a change makes {name} {most:.1%} shorter"
        if window and gains["one_offs_ns"] > window["span_ns"]:
            yield f"one-offs add {gains['one_offs_ns']:,} to {window['span_ns']:,} ns of {name}"
        if gains["device_one_offs_ns"] > gains["one_offs_ns"]:
            yield f"the device's one-offs of {name} are more than all of them"
    if verdict := found.get("verdict"):
        whole = _judged_ns(found)
        for each in verdict["savings"]:
            for key in ("saves_at_most_ns", "with_unknown_limits_ns"):
                if (each[key] or 0) > whole:
                    yield f"removing {each['remove']} saves {each[key]:,} of {whole:,} ns"
    for whole_ns, recorded_ns, advice in advice_lists(answer):
        for each in advice:
            shares = [each["share"], *(place["share"] for place in each["places"])]
            if max(share or 0.0 for share in shares) > 1.000001:
                yield f"{each['remedy']} saves {max(filter(None, shares)):.1%}"
            # Recording less saves time of the recorded window.
            most = recorded_ns if remedy(each["remedy"]).is_apart else whole_ns
            if each["share"] is not None and 0 < most < each["saves_ns"]:
                yield f"{each['remedy']} saves {each['saves_ns']:,} of {most:,} ns"
    together = (answer.fixes or {}).get("together")
    if together and together["share"] > 1.000001:
        yield f"the best changes save {together['share']:.1%} together"
    predicted = answer.whatif or {}
    if predicted.get("saves_ns", 0) > predicted.get("window_ns", 0):
        yield f"the change saves {predicted['saves_ns']:,} of {predicted['window_ns']:,} ns"
    if predicted.get("unknown_ns", 0) > predicted.get("predicted_ns", 0):
        yield f"{predicted['unknown_ns']:,} ns of {predicted['predicted_ns']:,} are unknown"
    run = answer.run or {}
    for each in run.get("savings", []):
        if each["share"] > 1.000001 or each["saves_ns"] > (run["span_ns"] or 0):
            yield f"removing {each['remove']} saves {each['saves_ns']:,} ns, {each['share']:.1%}"


def nothing_is_faster_than_the_device(answer: Answer) -> Iterator[str]:
    """No unit is shorter than its floors, and no price goes below them, unless the change makes
    the device's work less."""
    found = answer.analysis or {}
    for unit in found.get("units", []):
        floor_ns, must_ns = unit["floor_ns"] or 0, unit["must_ns"] or 0
        if not must_ns <= floor_ns <= unit["median_ns"]:
            yield f"a {unit['kind']} of {unit['median_ns']:,} ns has a floor of {floor_ns:,} ns"
    judged = (found.get("judged") or {}).get("window") or {}
    musts = [
        unit["must_ns"] or 0
        for unit in found.get("units", [])
        if judged.get("kind") == "step" and unit["median_ns"] == judged["span_ns"]
    ]
    for whole_ns, _, advice in advice_lists(answer):
        for each in advice:
            of = remedy(each["remedy"])
            is_same_work = not (of.less_work or of.is_batch or of.is_apart or each["once"])
            if is_same_work and musts and each["saves_ns"] > max(0, whole_ns - min(musts)):
                yield f"{each['remedy']} leaves less than the {min(musts):,} ns that it needs"


def prices_have_one_base(answer: Answer) -> Iterator[str]:
    """A price's share is the price over the length that the list is of."""
    for whole_ns, recorded_ns, advice in advice_lists(answer):
        for each in advice:
            ns = recorded_ns if remedy(each["remedy"]).is_apart else whole_ns
            if each["share"] is not None and ns and not _near(each["share"], each["saves_ns"] / ns):
                yield f"{each['remedy']} saves {each['saves_ns']:,} ns, {each['share']:.3%}"


# -- what a trace can tell -------------------------------------------------------------------------

# A list of kernels this long may leave out some.
_LISTED = 10


def high_confidence_has_no_doubt(answer: Answer) -> Iterator[str]:
    """A doubt is what lowers the confidence."""
    verdict = (answer.analysis or {}).get("verdict") or {}
    if verdict.get("confidence") == "high" and verdict["doubts"]:
        yield f"the confidence is high, and in doubt: {verdict['doubts']}"


def high_confidence_has_repetition(answer: Answer) -> Iterator[str]:
    """What was recorded once does not show what is usual."""
    found = answer.analysis or {}
    verdict = found.get("verdict") or {}
    if verdict.get("confidence") != "high":
        return
    # A step without work is not listed, but shows that the run went on.
    counts = [row["count"] for row in found["top_kernels"]]
    if len(found["steps"]) < 2 and counts and max(counts) == 1 and len(counts) < _LISTED:
        yield "the confidence is high, and no kernel ran twice"
    if any("no second one shows" in each for each in sentences(verdict)):
        yield "the confidence is high, of what was recorded once"


def advice_fits_the_trace(answer: Answer) -> Iterator[str]:
    """No advice rests on what the trace excludes."""
    found = answer.analysis
    advised = {each["remedy"] for each in found["advice"]} if found else ()
    if found and "few-shapes" in advised:
        text = " ".join(sentences(found["verdict"]))
        if "A single pass was" in text or len(found["steps"]) == 1:
            yield "few-shapes is advised for a single pass"
        shapes = shapes_by_step(answer.events)
        if len(shapes) > 1 and all(each == shapes[0] for each in shapes):
            yield "few-shapes is advised, and every step has the same shapes"
    if found and not found["gpu"] and "cuda-graph" in advised:
        yield "a graph is advised for a trace without a device's ops"


# -- several traces --------------------------------------------------------------------------------

# From this ratio on, lengths are not the same.
_DIFFERS = 1.5


def what_differs_is_not_unchanged(answer: Answer) -> Iterator[str]:
    """A comparison does not call lengths the same that differ by half."""
    diff, history = answer.diff or {}, answer.history or {}
    span = next((row for row in diff.get("summary", []) if row["metric"] == "span_ns"), None)
    ratio = max(span["a"], span["b"]) / max(1, min(span["a"], span["b"])) if span else 1.0
    if "as long as" in diff.get("title", "") and "times" not in diff["title"] and ratio >= _DIFFERS:
        yield f"{diff['title']}: {span}"
    lengths = [each["step_ns"] for each in history.get("runs", []) if each.get("step_ns")]
    # A slow run among others is no change.
    ends = sorted((lengths[0], lengths[-1])) if lengths else [1, 1]
    is_same = history and not history["changes"] and not history.get("spread")
    if is_same and ends[1] >= _DIFFERS * ends[0]:
        yield f"the step did not change: {lengths}"


RULES: tuple[Rule, ...] = (
    nothing_is_negative,
    windows_end_after_they_start,
    parts_add_up,
    shares_add_up,
    nothing_saves_more_than_all,
    nothing_is_faster_than_the_device,
    prices_have_one_base,
    high_confidence_has_no_doubt,
    high_confidence_has_repetition,
    advice_fits_the_trace,
    what_differs_is_not_unchanged,
    *TEXT_RULES,
    *SCREEN_RULES,
    *RUN_RULES,
)


# -- sums and shares -------------------------------------------------------------------------------


def _judged_ns(found: Json) -> int:
    """The length that savings are of."""
    gains, window = found["judged"]["gains"], found["judged"]["window"]
    return int(gains["window_ns"] if gains else window["span_ns"])


def _sums(what: str, parts: Json, names: tuple[str, ...], whole: int) -> Iterator[str]:
    total = sum(parts[name] for name in names)
    if total != whole:
        yield f"{what}: parts of {total:,} ns in {whole:,} ns"


def _whole(what: str, shares: Iterable[float], whole: float = 1.0) -> Iterator[str]:
    listed = [*shares]
    if not _near(sum(listed), whole) and any(listed):
        yield f"{what} add up to {sum(listed):.4%} of {whole:.4%}"
    if any(not -1e-9 <= each <= 1.000001 for each in listed):
        yield f"{what}: {listed}"


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b))
