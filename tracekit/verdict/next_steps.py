"""What to try next, and how the fix list relates to the bottleneck."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.advice.model import Advice, BestCombination, is_against, remedy_of
from tracekit.causes import LIMITS, UNKNOWN_LIMIT, words
from tracekit.evidence.model import HostThread, Launch
from tracekit.text import duration, lowered, percent
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Verdict
from tracekit.verdict.regime import UNKNOWN, weigh


def waits_for_workers(host: HostThread) -> bool:
    """Whether most of a host's communication consists of calls to other workers."""
    return 2 * host.remote_ns > host.communication_ns


def is_captured(launch: Launch | None, thresholds: Thresholds) -> bool:
    """Whether most GPU ops run in CUDA graphs."""
    return launch is not None and launch.graph_share > thresholds.captured_majority


def next_step(
    bottleneck: str, launch: Launch | None, thresholds: Thresholds, *, shaped: bool = False
) -> str:
    """What to try next, without things that the run already does."""
    compiled = launch.compiled_share if launch is not None else None
    done = {
        "next_shaped": shaped,
        "next_captured": is_captured(launch, thresholds),
        "next_compiled": compiled is not None and compiled > thresholds.captured_majority,
    }
    for kind, is_done in done.items():
        if is_done and bottleneck in words(kind):
            return words(kind)[bottleneck]
    return words("next")[bottleneck]


def unsure_notes(unsure: Sequence[Advice], verdict: Verdict) -> list[str]:
    """Candidates that are not advised, and why."""
    if not unsure:
        return []
    if verdict.regime == UNKNOWN:
        names = ", ".join(dict.fromkeys(each.remedy for each in unsure))
        return [f"Found, but what bounds the run is unknown, and so is what they save: {names}."]
    first, *others = unsure
    rest = f", and {len(others)} more" if others else ""
    return [
        f"Found, but not sure, since so few ops were recorded: {lowered(first.title)} "
        f"({first.remedy}), {percent(first.share or 0.0)} of the window{rest}."
    ]


def list_notes(
    advice: Sequence[Advice], unsure: Sequence[Advice], verdict: Verdict, graph: float
) -> list[str]:
    """How the fix list relates to the bottleneck; for an empty list, the `unsure` candidates and
    what is left to try. `graph` is the gain from free launches."""
    recurring = [fix for fix in advice if not fix.once]
    sentences = unsure_notes(unsure, verdict)
    if not recurring and verdict.regime == UNKNOWN:
        left = verdict.try_next or ["The trace does not tell what a change would save."]
        return [*sentences, *left]
    if not recurring:
        none = "No remedy that was looked for would save 1 % of the window or more."
        return [*(sentences or [none]), *verdict.try_next]
    saving = next((each for each in verdict.savings if each.remove == verdict.bottleneck), None)
    first, notes = recurring[0], []
    reading = next((each for each in recurring if is_against(each, "sync")), None)
    is_found = any(remedy_of(each).frees_launches for each in recurring)
    if reading is not None and not is_found and graph > (first.share or 0.0):
        notes.append(
            f"Free launches, as in a CUDA graph, would save {percent(graph)}, but only where the "
            f"host reads no values of the device: {reading.remedy} comes first."
        )
    if saving is None or is_against(first, verdict.bottleneck) or not saving.saves_at_most_ns:
        return notes
    most = f"{duration(saving.saves_at_most_ns)} if it were removed whole"
    if any(is_against(each, verdict.bottleneck) for each in recurring):
        return [
            *notes,
            f"The bottleneck, {verdict.bottleneck}, would save {most}; {first.remedy}, against "
            f"{first.cause}, saves more than what was found against it.",
        ]
    return [
        *notes,
        f"The bottleneck, {verdict.bottleneck}, would save {most}, but no remedy against it was "
        f"found; {first.remedy} is against {first.cause}.",
    ]


def bound_then(together: BestCombination, thresholds: Thresholds) -> str:
    """A sentence on what bounds the changed run; empty: it was not replayed."""
    if not together.bound_by:
        return ""
    if (unknown := together.bound_by.get("unknown", 0.0)) >= thresholds.unknown_share:
        return (
            "What bounds the run then is not known: the trace does not explain "
            f"{percent(unknown)} of its critical path."
        )
    cause, part = max(together.bound_by.items(), key=lambda item: item[1])
    bound = weigh(together.host_gain, together.device_gain)
    if bound.side == "host" and cause in (*LIMITS, UNKNOWN_LIMIT):
        # Without a device, the host computes.
        return f"Then {percent(part)} of the run's critical path is {cause}."
    gain = bound.host if bound.side == "host" else bound.device
    bounds = (
        f"the run is {bound.regime} (halving the {bound.side}'s work would gain {percent(gain)})"
        if gain >= thresholds.small_gain
        else "neither side bounds the run (halving the work of either would gain less than "
        f"{thresholds.small_gain:.0%})"
    )
    return f"Then {bounds}, and {percent(part)} of its critical path is {cause}."
