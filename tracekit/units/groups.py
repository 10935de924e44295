"""Which units do the same work, and which are cold."""

from __future__ import annotations

from random import Random

import numpy as np

from tracekit.thresholds import Thresholds
from tracekit.units.process import HostProcess, Spans
from tracekit.units.sequence import Flags, Ints, bag, in_common, running_sum

_JUDGED_BY = Thresholds()
# Compare the launches of units with at most this many groups.
_MOST_GROUPS = 500
# The usual time of a launch call is known from this many calls.
_OFTEN = 3


def groups_of(process: HostProcess, first: Ints, stop: Ints) -> Ints:
    """The group of each unit, numbered from 0 by its first unit. A unit belongs to the group with
    whose first unit it has most launches in common."""
    label, labels = process.launches.label, process.launches.labels
    # Equal bags have equal sums of random numbers, one per label. numpy.random takes 15 ms to
    # import.
    of = Random(0)
    numbers = np.array([of.getrandbits(40) for _ in range(max(1, labels))])
    sums = running_sum(numbers[label])
    _, index, code = np.unique(sums[stop] - sums[first], return_index=True, return_inverse=True)
    leaders: list[Ints] = []
    group = np.zeros(len(index), np.int64)
    for which in np.argsort(index).tolist():
        at = index[which]
        launched = bag(label[first[at] : stop[at]], labels)
        alike = [in_common(launched, leader) for leader in leaders]
        if alike and (max(alike) >= _JUDGED_BY.unit_alike or len(leaders) >= _MOST_GROUPS):
            group[which] = int(np.argmax(alike))
            continue
        group[which] = len(leaders)
        leaders.append(launched)
    return np.asarray(group[code])


def cold_units(process: HostProcess, spans: Spans, first: Ints, stop: Ints, group: Ints) -> Flags:
    """Whether first-call work takes a large part of a unit that is longer than others of its group.

    First-call work is compilation, and what the first launch of each label takes beyond the usual.
    """
    compiled = running_sum(process.cold_work.end - process.cold_work.start)
    begins = process.cold_work.start
    cold_ns = compiled[np.searchsorted(begins, spans.end)]
    cold_ns = cold_ns - compiled[np.searchsorted(begins, spans.start)]
    beyond = running_sum(_beyond_usual(process))
    cold_ns = cold_ns + beyond[stop] - beyond[first]
    length = spans.end - spans.start
    cold = cold_ns >= _JUDGED_BY.unit_cold_share * np.maximum(length, 1)
    for each in np.unique(group[cold]).tolist():
        members = group == each
        if members.sum() > 1:
            least = _JUDGED_BY.unit_cold_ratio * np.median(length[members])
            cold &= ~members | (length >= least)
    return np.asarray(cold)


def _beyond_usual(process: HostProcess) -> Ints:
    """What the first launch of each label takes beyond the label's median, else beyond the median
    launch; 0 for other launches, and for copies, which may wait."""
    label, labels = process.launches.label, process.launches.labels
    took = process.launches.end - process.launches.start
    is_first = np.zeros(len(label), np.bool_)
    is_first[np.unique(label, return_index=True)[1]] = True
    # How long operators take differs too much: of a rare one, the usual time is unknown.
    usual = np.full(labels, np.median(took) if process.has_device else np.iinfo(np.int64).max)
    occurs = bag(label, labels)
    begin = np.cumsum(occurs) - occurs
    often = np.flatnonzero(occurs >= _OFTEN)
    usual[often] = took[np.lexsort((took, label))][begin[often] + (occurs[often] - 1) // 2]
    counts = is_first & ~process.launched.is_transfer
    beyond = np.maximum(took - np.minimum(usual[label], took), 0)
    return np.asarray(np.where(counts, beyond, 0), np.int64)
