"""Parts of real traces, as a shorter or poorer recording of the same run would have them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
Cut = Callable[[list[Event], random.Random], list[Event]]

# Categories of GPU ops, in Kineto's words and older ones.
OF_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")


def half(events: list[Event], rng: random.Random) -> list[Event]:
    """The first half of the recording: of the host's slices and of what they launched."""
    begins = [_number(each["ts"]) for each in events if is_slice(each)]
    if not begins:
        return events
    middle = (min(begins) + max(begins)) / 2
    return launched(events, lambda each: _number(each["ts"]) + _number(each["dur"]) <= middle)


def one_step(events: list[Event], rng: random.Random) -> list[Event]:
    """One marked step, and what it launched; all, where none is marked."""
    steps = [
        each
        for each in events
        if is_slice(each)
        and str(each.get("name")).startswith("ProfilerStep")
        and each.get("cat") in ("user_annotation", "cpu_op", "Operator")
    ]
    if len(steps) < 2:
        return events
    step = rng.choice(steps)
    begin, end = _number(step["ts"]), _number(step["ts"]) + _number(step["dur"])
    return launched(
        events,
        lambda each: (
            begin <= _number(each["ts"]) and _number(each["ts"]) + _number(each["dur"]) <= end
        ),
    )


def without_a_thread(events: list[Event], rng: random.Random) -> list[Event]:
    """Without the host's slices of one thread that is not the busiest."""
    threads = Counter(
        (each.get("pid"), each.get("tid"))
        for each in events
        if is_slice(each) and each.get("cat") not in OF_DEVICE
    )
    others = [thread for thread, _ in threads.most_common()[1:]]
    if not others:
        return events
    gone = rng.choice(others)
    return [
        each
        for each in events
        if each.get("cat") in OF_DEVICE or (each.get("pid"), each.get("tid")) != gone
    ]


def anonymous(events: list[Event], rng: random.Random) -> list[Event]:
    """With other names of Python's frames and ranges, as a company would share it."""
    names: dict[str, str] = {}
    found = []
    for each in events:
        is_named = each.get("cat") in ("python_function", "user_annotation")
        name = str(each.get("name"))
        if is_named and not name.startswith("ProfilerStep"):
            each = each | {"name": names.setdefault(name, f"name {len(names)}")}
        found.append(each)
    return found


CUTS: dict[str, Cut] = {
    "half": half, "one step": one_step, "without a thread": without_a_thread,
    "anonymous": anonymous,
}  # fmt: skip


def cut(base: dict[str, Any], how: str, seed: int) -> dict[str, Any]:
    """A part of a trace; the seed chooses the step or the thread."""
    events = CUTS[how]([*base["traceEvents"]], random.Random(seed))
    return base | {"traceEvents": events}


def launched(events: list[Event], is_kept: Callable[[Event], bool]) -> list[Event]:
    """The host's slices that are kept, the GPU ops of these, and what is no slice."""
    kept = [
        each
        for each in events
        if each.get("cat") not in OF_DEVICE and (not is_slice(each) or is_kept(each))
    ]
    calls = {correlation_of(each) for each in kept if is_slice(each)} - {None}
    ops = [
        each for each in events if each.get("cat") in OF_DEVICE and correlation_of(each) in calls
    ]
    return kept + ops


def is_slice(event: Event) -> bool:
    return event.get("ph") == "X" and "ts" in event and "dur" in event


def correlation_of(event: Event) -> Any:
    args = event.get("args")
    return args.get("correlation") if isinstance(args, dict) else None


def _number(value: Any) -> float:
    return float(value or 0)
