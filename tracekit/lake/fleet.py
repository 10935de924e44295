"""All runs of a lake: what costs most, which hosts are slow, and what changed when.

A rank is late by how much later than the last but one it comes to collectives, in each step. What a
host that is often late adds to a step is told once, of the host: it counts in no run's step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any

from tracekit.errors import TracekitError
from tracekit.lake.comparing import began_ns, put_in_order, shifts
from tracekit.lake.layout import Rank
from tracekit.lake.reading import Lake
from tracekit.records import Record
from tracekit.thresholds import Thresholds

SCHEMA = "tracekit/fleet/1"
WAITING = "waiting-for-a-rank"
# What a device does itself is no loss.
_WORK = "compute"
_ADVICE = "SELECT trace_id, cause, place, saves_ns FROM advice WHERE place IS NOT NULL"


@dataclass(frozen=True)
class FleetCause:
    """What device time is lost to, over all runs."""

    cause: str
    """Why devices did not compute."""
    lost_ns: int
    """The recorded time of all devices that it took."""
    share: float
    """lost_ns, of the recorded time of all devices."""
    runs: int
    """The runs in which it takes 1 % or more (count)"""
    worst_run: str
    """The run in which it takes most."""


@dataclass(frozen=True)
class SlowHost:
    """A host whose ranks are late more often than those of others."""

    host: str
    """Its name; the rank where traces tell no host."""
    runs: int
    """The runs that it took part in (count)"""
    late_runs: int
    """Those in which the others waited for it (count)"""
    cause: str | None
    """What its ranks do for longer than others."""
    late_ns: int
    """By how much they are late in a step: the median of late_runs."""
    lost_ns: int
    """The recorded time of all devices that waited for it."""
    share: float
    """lost_ns, of the recorded time of all devices."""
    worst_run: str
    """The run in which it is latest."""


@dataclass(frozen=True)
class FleetChange:
    """The step took `before_ns` until the run `last_before`, and `after_ns` since the run `run`."""

    run: str
    """The first run with the new step."""
    last_before: str
    """The last run with the old one."""
    before_ns: int
    """The step before."""
    after_ns: int
    """The step since."""
    labels: dict[str, list[str | None]]
    """The labels that changed with this run: before and after."""
    rank: int | None
    """The rank that the others wait for since; null: all changed."""
    cause: str | None
    """What changed most."""
    cause_ns: int
    """By how much."""
    place: str | None
    """Where in the program, as the stored advice tells."""
    runs: int
    """Runs until the next change (count)"""
    lost_ns: int
    """The recorded time of all devices that it cost until the next change; negative: it saved."""
    share: float
    """lost_ns, of the recorded time of all devices in these runs."""


@dataclass(frozen=True)
class SlowRun:
    """A run that was slower than the runs around it."""

    run: str
    """Its name."""
    step_ns: int
    """Its step."""
    usual_ns: int
    """The step of the runs around it."""
    rank: int | None
    """The rank that the others wait for; null: none."""
    cause: str | None
    """What takes longest beyond the usual."""
    lost_ns: int
    """The recorded time of all devices that it cost."""
    share: float
    """lost_ns, of the recorded time of all devices of all runs."""


@dataclass(frozen=True)
class Fleet(Record, form=SCHEMA):
    """What costs most in the runs of a lake; each list has what costs most first."""

    lake: str
    """The path of the lake."""
    order: str
    """time or name: the order of the runs."""
    runs: list[str]
    """The runs in that order."""
    step_ns: list[int]
    """The step of each run: the median over its ranks of their median steps."""
    ranks: int
    """How many ranks they have (count)"""
    hosts: int
    """How many hosts are known (count)"""
    device_ns: int
    """The recorded time of all devices."""
    causes: list[FleetCause]
    """What device time is lost to."""
    slow_hosts: list[SlowHost]
    """Hosts whose ranks are late more often than others."""
    changes: list[FleetChange]
    """When the step changed, with which labels, and why."""
    slow_runs: list[SlowRun]
    """Runs that were slower than the runs around them."""


@dataclass(frozen=True)
class _Member:
    """A rank of a run with its costs."""

    rank: Rank
    host: str | None
    steps: int
    span_ns: int
    parts: dict[str, int]
    """The step by what it consists of; waits for other ranks are a part of their own."""
    late_ns: int
    """How much later than the last but one it comes, in each step."""

    @property
    def place(self) -> str:
        """Its host, or the rank where traces tell no host."""
        return self.host or self.rank.name

    @property
    def device_ns(self) -> int:
        return self.span_ns * self.steps


class _Costs:
    """A run with what its ranks cost."""

    def __init__(self, name: str, members: Sequence[_Member], began: int | None) -> None:
        self.name, self.members, self.began = name, members, began
        self.span_ns = int(median(each.span_ns for each in members))
        self.latest = max(members, key=lambda each: each.late_ns)
        self.without_ns = 0
        """What a slow host adds to the step."""

    @property
    def step_ns(self) -> int:
        return self.span_ns - self.without_ns

    @property
    def device_ns(self) -> int:
        return sum(each.device_ns for each in self.members)

    @property
    def steps(self) -> int:
        """Steps of all ranks together."""
        return sum(each.steps for each in self.members)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels that all ranks have."""
        shared = set.intersection(*(set(each.rank.labels.items()) for each in self.members))
        return dict(shared)

    def pace(self, thresholds: Thresholds) -> _Member | None:
        """The rank that the others wait for, unless that is because of its host."""
        is_late = self.latest.late_ns >= thresholds.named_gain * self.span_ns
        return self.latest if is_late and not self.without_ns else None

    def parts(self, thresholds: Thresholds) -> dict[str, float]:
        """What the step consists of: of the rank that sets the pace, else the medians."""
        pace = self.pace(thresholds)
        if pace is not None:
            return dict(pace.parts)
        names = {name for each in self.members for name in each.parts if name != WAITING}
        return {n: median(each.parts.get(n, 0) for each in self.members) for n in names}


def fleet(lake: Lake, thresholds: Thresholds | None = None) -> Fleet:
    """What costs most over all runs of a lake.

    Raises:
        TracekitError: when no run has GPU ops.
    """
    limits = thresholds or Thresholds()
    order, runs = _runs(lake)
    slow_hosts = _slow_hosts(runs, limits)
    changes = shifts([(each.name, each.step_ns) for each in runs], limits)
    places = {each.name: at for at, each in enumerate(runs)}
    borders = [0, *(places[each.run] for each in changes), len(runs)]
    parts = [runs[a:b] for a, b in pairwise(borders)]
    total = sum(each.device_ns for each in runs)
    told = [_change(lake, before, after, limits) for before, after in pairwise(parts)]
    slow = [each for part in parts for each in _slow_runs(part, total, limits)]
    return Fleet(
        lake=lake.name,
        order=order,
        runs=[each.name for each in runs],
        step_ns=[each.span_ns for each in runs],
        ranks=sum(len(each.members) for each in runs),
        hosts=len({member.host for each in runs for member in each.members} - {None}),
        device_ns=total,
        causes=_causes(runs, total, limits),
        slow_hosts=slow_hosts,
        changes=sorted(told, key=lambda each: -each.lost_ns),
        slow_runs=sorted(slow, key=lambda each: -each.lost_ns),
    )


def _runs(lake: Lake) -> tuple[str, list[_Costs]]:
    """The runs in order of time, or of name where their traces do not tell the time."""
    ranks = {each.trace_id: each for each in lake.ranks}
    hosts = dict(lake.fetch("SELECT trace_id, host FROM trace")[1])
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in lake.ask("rank_costs"):
        rows[row["trace_id"]].append(row)
    if not rows:
        raise TracekitError(f"{lake.name}: none of its runs has GPU ops")
    members: dict[str, list[_Member]] = defaultdict(list)
    for trace_id, some in rows.items():
        rank = ranks[trace_id]
        host = rank.labels.get("host") or hosts[trace_id]
        members[rank.run].append(_member(rank, host, some))
    began = began_ns(lake)
    runs = [
        _Costs(name, some, min(began.get(each.rank.trace_id, 0) for each in some) or None)
        for name, some in members.items()
    ]
    return put_in_order(runs, lambda each: (each.began, each.name)), runs


def _member(rank: Rank, host: str | None, rows: Sequence[dict[str, Any]]) -> _Member:
    first = rows[0]
    steps = max(1, first["steps"])
    parts = {row["part"]: row["part_ns"] for row in rows}
    waited = min(parts.get("communication", 0), round(first["waited_ns"] / steps))
    if waited:
        parts["communication"] -= waited
        parts[WAITING] = waited
    late_ns = round(first["later_ns"] / steps)
    return _Member(rank, host, steps, first["span_ns"], parts, late_ns)


def _causes(runs: Sequence[_Costs], total: int, thresholds: Thresholds) -> list[FleetCause]:
    lost: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for each in run.members:
            for part, ns in each.parts.items():
                if part != _WORK:
                    lost[part][run.name] += ns * each.steps
    whole = {each.name: each.device_ns for each in runs}
    found = []
    for cause, by_run in lost.items():
        much = [name for name, ns in by_run.items() if ns >= thresholds.named_gain * whole[name]]
        worst = max(by_run, key=lambda name: by_run[name] / whole[name])
        ns = by_run.total()
        found.append(FleetCause(cause, ns, ns / total, len(much), worst))
    found = [each for each in found if each.share >= thresholds.named_gain]
    return sorted(found, key=lambda each: -each.lost_ns)


# -- hosts


def _slow_hosts(runs: Sequence[_Costs], thresholds: Thresholds) -> list[SlowHost]:
    """The hosts that are late in more of their runs than others by a factor; takes what they add
    out of the steps of runs. Where one rank alone was on a host, what it does may be the reason:
    then it is the host only if it is always late."""
    here: dict[str, set[str]] = defaultdict(set)
    late: dict[str, list[_Costs]] = defaultdict(list)
    for run in runs:
        for each in run.members:
            here[each.place].add(run.name)
        if run.latest.late_ns >= thresholds.named_gain * run.span_ns:
            late[run.latest.place].append(run)
    shares = {host: len(late[host]) / len(names) for host, names in here.items()}
    total = sum(each.device_ns for each in runs)
    found = []
    for host, some in late.items():
        others = [share for other, share in shares.items() if other != host]
        usual = median(others) if others else 1.0
        is_alone = len({run.latest.rank.name for run in some}) == 1
        always = thresholds.late_host_always * len(here[host])
        if (
            len(some) < max(thresholds.late_host_runs, always if is_alone else 0)
            or shares[host] < thresholds.late_host_factor * usual + thresholds.late_host_share
        ):
            continue
        usually_ns = int(median(run.latest.late_ns for run in some))
        for run in some:
            # A rank may be late for a reason of its own, too.
            run.without_ns = min(usually_ns, run.latest.late_ns)
        lost = sum(run.latest.late_ns * run.steps for run in some)
        worst = max(some, key=lambda run: run.latest.late_ns)
        found.append(
            SlowHost(
                host, len(here[host]), len(some), _excess(some),
                usually_ns, lost, lost / total, worst.name,
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: -each.lost_ns)


def _excess(runs: Iterable[_Costs]) -> str | None:
    """What the latest ranks of runs do for longer than the others there."""
    more: Counter[str] = Counter()
    for run in runs:
        for part, ns in run.latest.parts.items():
            if part != WAITING:
                more[part] += ns - int(median(each.parts.get(part, 0) for each in run.members))
    return _most(more)


def _most(more: Mapping[str, float]) -> str | None:
    best = max(more, key=lambda part: more[part], default=None)
    return best if best is not None and more[best] > 0 else None


# -- time


def _change(
    lake: Lake, before: Sequence[_Costs], after: Sequence[_Costs], thresholds: Thresholds
) -> FleetChange:
    old, new = (int(median(each.step_ns for each in some)) for some in (before, after))
    parts = [_level(some, thresholds) for some in (before, after)]
    sign = 1 if new >= old else -1
    more = {
        name: sign * (parts[1].get(name, 0) - parts[0].get(name, 0))
        for name in {*parts[0], *parts[1]}
    }
    cause = _most(more)
    first = after[0]
    paces = [each.pace(thresholds) for each in after]
    ranks = Counter(None if each is None else each.rank.rank for each in paces)
    rank = ranks.most_common(1)[0][0]
    known = [each.pace(thresholds) or each.members[0] for each in after]
    steps = sum(each.steps for each in after)
    lost = (new - old) * steps
    return FleetChange(
        run=first.name,
        last_before=before[-1].name,
        before_ns=old,
        after_ns=new,
        labels=_changed(before[-1].labels, first.labels),
        rank=rank,
        cause=cause,
        cause_ns=round(more[cause]) if cause else 0,
        place=_place(lake, {each.rank.trace_id for each in known}, cause),
        runs=len(after),
        lost_ns=lost,
        share=lost / sum(each.device_ns for each in after),
    )


def _level(runs: Sequence[_Costs], thresholds: Thresholds) -> dict[str, float]:
    """The medians of what steps consist of."""
    every = [each.parts(thresholds) for each in runs]
    names = {name for each in every for name in each}
    return {name: median(each.get(name, 0) for each in every) for name in names}


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str | None]]:
    names = sorted({*before, *after} - {"host"})
    return {
        name: [before.get(name), after.get(name)]
        for name in names
        if before.get(name) != after.get(name)
    }


def _place(lake: Lake, trace_ids: Set[int], cause: str | None) -> str | None:
    """Where the stored advice on some ranks finds most to save against a cause."""
    saved: Counter[str] = Counter()
    for trace_id, its_cause, place, saves_ns in lake.fetch(_ADVICE)[1]:
        if trace_id in trace_ids and its_cause == cause:
            saved[place] += saves_ns
    return saved.most_common(1)[0][0] if saved else None


def _slow_runs(part: Sequence[_Costs], total: int, thresholds: Thresholds) -> Iterable[SlowRun]:
    usual = int(median(each.step_ns for each in part))
    level = _level(part, thresholds)
    for run in part:
        more_ns = run.step_ns - usual
        if more_ns <= thresholds.shift_share * usual:
            continue
        pace = run.pace(thresholds)
        parts = run.parts(thresholds)
        yield SlowRun(
            run=run.name,
            step_ns=run.step_ns,
            usual_ns=usual,
            rank=None if pace is None else pace.rank.rank,
            cause=_most({name: ns - level.get(name, 0) for name, ns in parts.items()}),
            lost_ns=more_ns * run.steps,
            share=more_ns * run.steps / total,
        )
