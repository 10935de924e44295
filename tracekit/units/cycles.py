"""The cycles of a sequence of launches: what it repeats, and where each repetition begins.

A run launches some kernels once in each cycle. Which ones is not known, so this tries each number
of cycles for which many distinct labels occur exactly that often, takes the places of such labels
as places in successive cycles, and scores how much the stretches between them have in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tracekit.thresholds import Thresholds
from tracekit.units.sequence import Flags, Floats, Ints, Sequence, bag, bags, in_common

_JUDGED_BY = Thresholds()
GOOD_SCORE = 0.9
"""Cycles of this score are regular: if labels alone have it, no pairs of neighbors are tried."""
# Scores this close to the best are equally good: then the largest number of cycles wins.
_SAME_SCORE = 0.02
# A label occurs equally often in two cycles within this tolerance, and cycles are equally long.
_TOLERANCE = 0.05
_SAME_LENGTH = 0.03
# Try the numbers of cycles that most labels have.
_NUMBERS = 6
# Numbers of occurrences up to this are compared exactly.
_MANY = 20
# Long ops are those of the labels that take this share of the time.
_LONG_OPS = 0.9
# An odd cycle has at least this share of the launches of a typical one.
_ODD_SHARE = 0.5
# At the ends of a recording, a smaller part of a cycle is other work.
_LEAST_CUT = 0.25
# Compare this many launches at the ends of a recording.
_NEIGHBORS = 3
# A gap outweighs the edge of a loop when it is this many times as long.
_CLEARLY_LONGER = 3
# Measure gaps in this many cycles.
_MEASURED = 64


@dataclass(frozen=True)
class Cycles:
    """Stretches of a sequence that follow each other and do the same work."""

    first: Ints
    """The index of the first launch of each cycle."""
    stop: int
    """The index after the last launch of the last cycle."""
    score: float
    """How regular they are: 1 if they are equal."""
    phase: str
    """How their beginning is known: `whole` (the loop consists of whole cycles from its first
    launch on), `loop edge` (other work comes before or after), `gap` (the host's longest gap)."""
    cuts_first: bool = False
    """The recording begins inside the first cycle."""
    cuts_last: bool = False

    def __len__(self) -> int:
        return len(self.first)

    @property
    def bounds(self) -> Ints:
        """The first launch of each cycle, and the end of the last."""
        return np.append(self.first, self.stop)


@dataclass(frozen=True)
class _Division:
    """The places of one label or pair, tried as one place in each cycle."""

    places: Ints
    length: int
    """The launches of a typical cycle."""
    typical: Ints
    """How often a typical cycle has each label."""
    score: float


def cycles_of(sequence: Sequence, graphs: Ints | None = None) -> Cycles | None:
    """The cycles of a sequence in which these launches are of graphs; None: nothing repeats.

    If the most regular loop takes less than half of the time of the launched ops, an equally
    regular one that takes more is preferred: among the graphs, or among the longest ops.
    """
    cycles = _cycles(sequence)
    if _is_most(sequence, cycles):
        return cycles
    for chosen in (graphs, _long_ops(sequence)):
        if chosen is not None and 1 < len(chosen) < len(sequence):
            among = _among(sequence, chosen)
            is_as_regular = among and among.score >= (cycles.score if cycles else 0.0)
            if is_as_regular and _is_most(sequence, among):
                return among
    return cycles


def cycles_at(sequence: Sequence, places: Ints) -> Cycles:
    """The cycles of a sequence with one of these places in each."""
    total = bag(sequence.label, sequence.labels)
    return _placed(sequence, _scored(sequence, places, total))


def _is_most(sequence: Sequence, cycles: Cycles | None) -> bool:
    if cycles is None:
        return False
    held = sequence.weight[cycles.first[0] : cycles.stop].sum()
    return bool(held >= _JUDGED_BY.unit_held * sequence.weight.sum())


def _among(sequence: Sequence, chosen: Ints) -> Cycles | None:
    """The cycles of some launches. Each cycle begins after the last of these in the one before."""
    cycles = _cycles(sequence[chosen].renumbered())
    if cycles is None:
        return None
    first = np.append(chosen[cycles.first[:1]], chosen[cycles.first[1:] - 1] + 1)
    return replace(cycles, first=first, stop=int(chosen[cycles.stop - 1]) + 1)


def _long_ops(sequence: Sequence) -> Ints:
    """The launches with the labels that take most of the time."""
    weight = np.bincount(sequence.label, sequence.weight, minlength=sequence.labels)
    order = np.argsort(-weight, kind="stable")
    before = np.cumsum(weight[order]) - weight[order]
    is_long = np.zeros(sequence.labels, np.bool_)
    is_long[order[before < _LONG_OPS * weight.sum()]] = True
    return np.flatnonzero(is_long[sequence.label])


def _cycles(sequence: Sequence) -> Cycles | None:
    if len(sequence) < 2:
        return None
    total = bag(sequence.label, sequence.labels)

    def scored(feature: Ints, place: Ints) -> list[_Division]:
        return [_scored(sequence, places, total) for places in _candidates(feature, place)]

    divisions = scored(sequence.label, np.arange(len(sequence)))
    if max((division.score for division in divisions), default=0.0) < GOOD_SCORE:
        divisions += scored(*_pairs(sequence))
    best = max((division.score for division in divisions), default=0.0)
    if best < _JUDGED_BY.unit_score:
        return None
    as_good = [each for each in divisions if each.score >= best - _SAME_SCORE]
    return _placed(sequence, max(as_good, key=lambda each: (len(each.places), each.score)))


def _pairs(sequence: Sequence) -> tuple[Ints, Ints]:
    """The pairs of labels that follow each other on a thread, by where they begin."""
    order = np.argsort(sequence.thread, kind="stable")
    label, thread = sequence.label[order], sequence.thread[order]
    is_pair = thread[1:] == thread[:-1]
    pair, place = (label[:-1] * sequence.labels + label[1:])[is_pair], order[:-1][is_pair]
    by_place = np.argsort(place)
    return pair[by_place], place[by_place]


def _candidates(feature: Ints, place: Ints) -> Iterator[Ints]:
    """The places of some features, given in the order of places: for each of the most frequent
    numbers of occurrences, of the features that occur first, in the middle and last. Large numbers
    that are nearly equal count as one, since a few launches may be lost."""
    if not len(feature):
        return
    feature = np.unique(feature, return_inverse=True)[1]
    order = np.argsort(feature, kind="stable")
    place, occurs = place[order], np.bincount(feature)
    begin = np.cumsum(occurs) - occurs
    steps = np.log(np.maximum(occurs, _MANY) / _MANY) / np.log1p(_SAME_LENGTH)
    number = np.where(occurs <= _MANY, occurs, _MANY + np.ceil(steps).astype(np.int64))
    votes = np.bincount(number)
    votes[:2] = 0
    for most in np.argsort(-votes, kind="stable")[:_NUMBERS].tolist():
        if not votes[most]:
            return
        ids = np.flatnonzero(number == most)
        ids = ids[np.argsort(place[begin[ids]], kind="stable")]
        for which in dict.fromkeys((0, len(ids) // 2, len(ids) - 1)):
            yield place[begin[ids[which]] : begin[ids[which]] + occurs[ids[which]]]


def _scored(sequence: Sequence, places: Ints, total: Ints) -> _Division:
    length = int(np.median(np.diff(places))) if len(places) > 1 else len(sequence) - int(places[0])
    stop = np.append(places[1:], min(len(sequence), places[-1] + length))
    # The recording may cut the last one off.
    is_cut = len(places) > 2 and places[-1] + length > len(sequence)
    some = slice(0, len(places) - is_cut)
    stretches = bags(sequence.label, sequence.labels, places[some], stop[some])
    alike = stretches.similarity
    consistency = stretches.consistency(total, _TOLERANCE)
    regular = float(np.mean(alike >= _JUDGED_BY.unit_alike)) ** 0.25
    score = consistency * float(np.median(alike)) * regular
    return _Division(places, length, stretches.typical, score)


# -- where a cycle begins


def _placed(sequence: Sequence, division: _Division) -> Cycles:
    """The cycles of a division, from their beginning."""
    length, places = division.length, division.places
    back, ahead = _extent(sequence, division)
    gaps = _gaps(sequence, division)
    rest = (back + ahead) % length
    at_both_ends = _ends_agree(sequence, division)
    if min(rest, length - rest) <= _SAME_LENGTH * length:
        offset, phase = back % length, "whole"
    elif len(at_both_ends):
        offset, phase = int(at_both_ends[np.argmax(gaps[at_both_ends])]), "whole"
    else:
        longest = int(np.argmax(gaps))
        edges = [back % length] if back < places[0] else []
        edges += [(length - ahead) % length] if places[-1] + ahead < len(sequence) else []
        offset, phase = max(edges, key=lambda edge: gaps[edge], default=longest), "loop edge"
        if not edges or gaps[longest] > _CLEARLY_LONGER * gaps[offset]:
            offset, phase = longest, "gap"
    return _completed(sequence, division, places - offset, phase, back, ahead)


def _extent(sequence: Sequence, division: _Division) -> tuple[int, int]:
    """How many launches before the first place, and from the last place on, are as in another
    cycle: less than a cycle each."""
    label, places, length = sequence.label, division.places, division.length
    other = places[len(places) // 2] if len(places) > 2 else places[-1]
    head = min(places[0], other, length - 1)
    back = _agree(label[places[0] - head : places[0]][::-1], label[other - head : other][::-1])
    other = places[(len(places) - 1) // 2]
    tail = min(len(label) - places[-1], len(label) - other, length)
    ahead = _agree(label[places[-1] : places[-1] + tail], label[other : other + tail])
    return back, ahead


def _agree(one: Ints, other: Ints) -> int:
    """How far two stretches are alike, apart from single launches."""
    same: Flags = one == other
    misses = np.cumsum(~same)
    is_alike = same & (misses <= (1 - _JUDGED_BY.unit_alike) * np.arange(1, len(same) + 1))
    return int(np.flatnonzero(is_alike)[-1]) + 1 if is_alike.any() else 0


def _gaps(sequence: Sequence, division: _Division) -> Floats:
    """The host's typical gap before a launch, by how many launches before a place it is."""
    inner = division.places[1:][:_MEASURED]
    if not len(inner):
        return np.zeros(division.length)
    before = inner[:, None] - np.arange(division.length)
    return np.asarray(np.median(sequence.gaps()[np.maximum(before, 0)], axis=0))


def _ends_agree(sequence: Sequence, division: _Division) -> Ints:
    """How many launches before a place a cycle begins as the recording does, if the cycle before
    it ends as the recording does."""
    label, length = sequence.label, division.length
    place = division.places[len(division.places) // 2]
    some = min(_NEIGHBORS, length)
    begin = place - np.arange(length)
    begin = begin[(begin >= some) & (begin + some <= len(label))]
    window = np.arange(some)
    starts = (label[begin[:, None] + window] == label[:some]).all(axis=1)
    ends = (label[begin[:, None] - some + window] == label[len(label) - some :]).all(axis=1)
    return np.asarray(place - begin[starts & ends])


def _completed(
    sequence: Sequence, division: _Division, first: Ints, phase: str, back: int, ahead: int
) -> Cycles:
    """The cycles from these launches on, with those at both ends that have no place of their own:
    whole ones, and what is left of one that the recording cuts off."""
    length, end = division.length, len(sequence)
    cuts_first = bool(first[0] < 0)
    first = np.maximum(first, 0)
    while first[0] > 0 and _is_cycle(sequence, division, max(0, first[0] - length), first[0]):
        first = np.append(max(0, first[0] - length), first)
    stop = min(end, first[-1] + length)
    cuts_last = bool(first[-1] + (1 - _SAME_LENGTH) * length > end)
    while stop < end and _is_cycle(sequence, division, stop, min(end, stop + length)):
        first, stop = np.append(first, stop), min(end, stop + length)
    if _is_odd_cycle(sequence, division, first):
        first = np.append(0, first)
    least = _LEAST_CUT * length
    if back == division.places[0] and least <= first[0] < length and not cuts_first:
        cuts_first, first = True, np.append(0, first)
    if division.places[-1] + ahead >= end and least <= end - stop < length:
        cuts_last, first, stop = True, np.append(first, stop), end
    return Cycles(first, int(stop), division.score, phase, cuts_first, cuts_last)


def _is_odd_cycle(sequence: Sequence, division: _Division, first: Ints) -> bool:
    """Whether what comes before the first cycle begins and ends as cycles do: it is one that does
    other work, as a prefill before decodes."""
    label, some = sequence.label, min(_NEIGHBORS, division.length)
    inner = first[len(first) // 2]
    if first[0] < _ODD_SHARE * division.length or inner <= first[0] or first[0] < some:
        return False
    ends_alike = (label[first[0] - some : first[0]] == label[inner - some : inner]).all()
    return bool(ends_alike and label[0] == label[inner])


def _is_cycle(sequence: Sequence, division: _Division, start: int, stop: int) -> bool:
    if stop - start < _JUDGED_BY.unit_alike * division.length:
        return False
    launched = bag(sequence.label[start:stop], sequence.labels)
    return bool(in_common(launched, division.typical) >= _JUDGED_BY.unit_alike)
