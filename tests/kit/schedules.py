"""Schedules of pipelines: what each rank computes, in which order, and how long it then idles.

A stage computes a micro-batch's forward pass (F) and backward pass (B); some schedules split the
latter into the gradients of inputs (I) and of weights (W), so that B takes as long as I and W.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Part:
    """One kind of work on one micro-batch in one stage of the model."""

    kind: str
    stage: int
    batch: int
    way: int = 0
    """The direction in which the micro-batch goes through the ranks."""

    @property
    def output(self) -> Part:
        """What other stages wait for: a gradient of inputs is the same from I as from B."""
        return replace(self, kind="B") if self.kind == "I" else self


# What a rank computes at once: a part, or two that overlap.
Slot = tuple[Part, ...]


@dataclass(frozen=True)
class Schedule:
    """The slots of each rank, in order."""

    slots: Sequence[Sequence[Slot]]
    stages: int
    """The stages that the model is cut into."""
    times: Mapping[str, int]
    """How long a part of each kind takes, in ns."""

    def rank(self, way: int, stage: int) -> int:
        """The rank that computes this stage for micro-batches that go this way."""
        ranks = len(self.slots)
        return (ranks - 1 - stage if way else stage) % ranks

    def needs(self, part: Part) -> Part | None:
        """The part of another stage whose output this part needs."""
        return self._beside(part, before=True)

    def feeds(self, part: Part) -> Part | None:
        """The part of another stage that needs the output of this part."""
        return self._beside(part, before=False)

    def _beside(self, part: Part, *, before: bool) -> Part | None:
        stage = part.stage + (1 if (part.kind == "F") != before else -1)
        if part.kind == "W" or not 0 <= stage < self.stages:
            return None
        return Part(part.kind, stage, part.batch, part.way).output


# -- the schedules


def gpipe(ranks: int, batches: int, times: Mapping[str, int]) -> Schedule:
    """All forward passes, then all backward passes. Each rank idles for (p - 1)(F + B).

    Huang et al. 2019, https://arxiv.org/abs/1811.06965
    """
    numbers = range(batches)
    slots = [[(Part(kind, rank, n),) for kind in "FB" for n in numbers] for rank in range(ranks)]
    return Schedule(slots, ranks, times)


def one_forward_one_backward(ranks: int, batches: int, times: Mapping[str, int]) -> Schedule:
    """1F1B: a backward pass as soon as there is one. Each rank idles for (p - 1)(F + B).

    Narayanan et al. 2021, https://arxiv.org/abs/2104.04473, section 2.2
    """
    slots = []
    for rank in range(ranks):
        ahead = min(batches, ranks - 1 - rank)
        order = [("F", n) for n in range(ahead)]
        for n in range(batches):
            order += [("F", n + ahead)] * (n + ahead < batches) + [("B", n)]
        slots.append([(Part(kind, rank, n),) for kind, n in order])
    return Schedule(slots, ranks, times)


def interleaved(ranks: int, batches: int, times: Mapping[str, int], chunks: int = 2) -> Schedule:
    """1F1B in which each rank has several chunks of layers. Each rank idles for (p - 1)(F + B) / v.
    Needs a multiple of p micro-batches.

    Narayanan et al. 2021, https://arxiv.org/abs/2104.04473, section 2.2
    """

    def part(kind: str, rank: int, number: int) -> Slot:
        turn, rest = divmod(number, ranks * chunks)
        chunk, batch = divmod(rest, ranks)
        if kind == "B":
            chunk = chunks - 1 - chunk
        return (Part(kind, chunk * ranks + rank, turn * ranks + batch),)

    slots, whole = [], batches * chunks
    for rank in range(ranks):
        ahead = min(whole, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks)
        order = [("F", n) for n in range(ahead)]
        for n in range(whole):
            order += [("F", n + ahead)] * (n + ahead < whole) + [("B", n)]
        slots.append([part(kind, rank, n) for kind, n in order])
    parts = {kind: ns // chunks for kind, ns in times.items()}
    return Schedule(slots, ranks * chunks, parts)


def zero_bubble(ranks: int, batches: int, times: Mapping[str, int]) -> Schedule:
    """ZB-H1: 1F1B in which the gradients of weights fill a part of the bubble. Each rank idles for
    (p - 1)(F + I - W), and with W no longer than I or F.

    Qi et al. 2023, https://arxiv.org/abs/2401.10241, table 1
    """
    slots = []
    for rank in range(ranks):
        ahead = min(batches, ranks - 1 - rank)
        order, weights = [("F", n) for n in range(ahead)], 0
        for n in range(batches):
            order += [("F", n + ahead)] * (n + ahead < batches) + [("I", n)]
            if n >= rank:
                order.append(("W", weights))
                weights += 1
        order += [("W", n) for n in range(weights, batches)]
        slots.append([(Part(kind, rank, n),) for kind, n in order])
    return Schedule(slots, ranks, times)


def dual_pipe(ranks: int, batches: int, times: Mapping[str, int]) -> Schedule:
    """DualPipe: half of the micro-batches go each way, so that each rank has two stages, and a
    forward pass overlaps a backward pass of the other way. Each rank idles for
    (p / 2 - 1)(F&B + B - 3 W), where F&B is the time of a pair. Needs an even number of ranks, and
    twice as many micro-batches or more.

    DeepSeek-AI 2024, https://arxiv.org/abs/2412.19437, table 2;
    https://github.com/deepseek-ai/DualPipe
    """
    return Schedule([[*_dual_slots(r, ranks, batches // 2)] for r in range(ranks)], ranks, times)


def _dual_slots(rank: int, ranks: int, batches: int) -> Iterator[Slot]:
    """The slots of a rank, which has `batches` micro-batches of each way."""
    inner = min(rank, ranks - 1 - rank)
    outer = ranks // 2 - inner - 1
    is_second_half = rank >= ranks // 2
    counts: dict[tuple[str, int], int] = defaultdict(int)
    left: list[Part] = []

    def part(kind: str, phase: int) -> Part:
        way = phase ^ is_second_half
        number = counts[kind.replace("I", "B"), way]
        counts[kind.replace("I", "B"), way] += 1
        made = Part(kind, ranks - 1 - rank if way else rank, number, way)
        if kind == "I":
            left.append(Part("W", made.stage, number, way))
        return made

    for _ in range(2 * outer):
        yield (part("F", 0),)
    for _ in range(inner + 1):
        yield (part("F", 0),)
        yield (part("F", 1),)
    for _ in range(outer):
        yield (part("I", 1),)
        yield (left.pop(0),)
        yield (part("F", 1),)
    for number in range(batches - ranks + inner + 1):
        if number == 0 and outer == 0:
            yield (part("F", 0),)
            yield (part("B", 1),)
        else:
            yield part("F", 0), part("B", 1)
        yield part("F", 1), part("B", 0)
    for _ in range(outer):
        yield (part("B", 1),)
        yield part("F", 1), part("B", 0)
    is_split = False
    for number in range(inner + 1):
        is_half = number == (inner + 1) // 2
        is_split |= is_half and inner % 2 == 1
        yield (part("I" if is_split else "B", 1),)
        is_split |= is_half and inner % 2 == 0
        yield (part("I" if is_split else "B", 0),)
    for _ in range(outer):
        yield (left.pop(0),)
        yield (part("I", 0),)
    for each in left:
        yield (each,)


SCHEDULES: Mapping[str, Callable[[int, int, Mapping[str, int]], Schedule]] = {
    "GPipe": gpipe,
    "1F1B": one_forward_one_backward,
    "interleaved": interleaved,
    "zero-bubble": zero_bubble,
    "DualPipe": dual_pipe,
}


def bubble_ns(name: str, ranks: int, times: Mapping[str, int]) -> int:
    """How long each rank idles in a step, by the formulas above; messages take no time."""
    forward, backward, weights = times["F"], times["B"], times["W"]
    match name:
        case "interleaved":
            return (ranks - 1) * (forward + backward) // 2
        case "zero-bubble":
            return (ranks - 1) * (forward + backward - 2 * weights)
        case "DualPipe":
            return (ranks // 2 - 1) * (forward + backward + backward - 3 * weights)
    return (ranks - 1) * (forward + backward)


# -- a step of a schedule


@dataclass(frozen=True)
class Stage:
    """What a rank does in a step, in ns; the parts add up to the step."""

    work_ns: int
    fill_ns: int
    """From the first rank's start to its own."""
    between_ns: int
    """Waits for other ranks while it has begun and is not done."""
    drain_ns: int
    """From its end to the last rank's end."""
    message_ns: int
    """The time of messages after its start, once their sender has come."""

    @property
    def bubble_ns(self) -> int:
        return self.fill_ns + self.between_ns + self.drain_ns

    @property
    def step_ns(self) -> int:
        return self.work_ns + self.bubble_ns + self.message_ns


class _Rank:
    """A rank on its way through its slots."""

    def __init__(self) -> None:
        self.number = self.at = self.work = self.waited = self.messages = 0
        self.begun: int | None = None


def played(
    schedule: Schedule, message_ns: int = 0, slower: Mapping[int, float] | None = None
) -> list[Stage]:
    """A step on ranks that do nothing else, of which some are slower by a factor. A rank takes a
    message when it needs it."""
    ranks, done = [_Rank() for _ in schedule.slots], dict[Part, int]()
    while any(r.number < len(own) for r, own in zip(ranks, schedule.slots, strict=True)):
        progress = [r.number for r in ranks]
        for number, (rank, slots) in enumerate(zip(ranks, schedule.slots, strict=True)):
            factor = (slower or {}).get(number, 1.0)
            while rank.number < len(slots):
                slot = slots[rank.number]
                needed = [need for part in slot if (need := schedule.needs(part))]
                if not done.keys() >= {*needed}:
                    break
                for need in needed:
                    is_sent = schedule.rank(need.way, need.stage) != number
                    _take(rank, done[need], message_ns * is_sent)
                ns = sum(round(schedule.times[part.kind] * factor) for part in slot)
                rank.begun = rank.at if rank.begun is None else rank.begun
                rank.at, rank.work, rank.number = rank.at + ns, rank.work + ns, rank.number + 1
                done |= dict.fromkeys([part.output for part in slot], rank.at)
        assert progress != [r.number for r in ranks], "the ranks wait for each other in a circle"
    end = max(rank.at for rank in ranks)
    return [Stage(r.work, r.begun or 0, r.waited, end - r.at, r.messages) for r in ranks]


def _take(rank: _Rank, sent: int, message_ns: int) -> None:
    if rank.begun is not None:
        rank.waited += max(0, sent - rank.at)
        rank.messages += message_ns
    rank.at = max(rank.at, sent) + message_ns
