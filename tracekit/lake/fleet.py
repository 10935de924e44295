"""All runs of a lake: what costs most, which hosts are slow, and what changed when.

A rank is late by the time between the arrival of the last but one rank and its own, summed over the
collectives of a unit of work, such as a step. Time that a slow host adds to units counts once, as
the host's: no unit of a run includes it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import groupby, pairwise, starmap
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any, ClassVar

from msgspec import Struct

from tracekit.errors import TracekitError
from tracekit.lake.comparing import RunFigures, runs_in_order
from tracekit.lake.layout import Rank
from tracekit.lake.reading import Lake
from tracekit.lake.shifts import Spread, StepChange
from tracekit.lake.works import RunUnit, Work, rate, works_of
from tracekit.records import Record
from tracekit.thresholds import Thresholds

WAITING = "waiting-for-a-rank"
# The part of a unit in which the device works, which is not lost.
_WORK = "compute"
_ADVICE = "SELECT trace_id, cause, place, saves_ns FROM advice WHERE place IS NOT NULL"
_largest_first = partial(sorted, key=attrgetter("lost_ns"), reverse=True)


class FleetCause(Struct, frozen=True):
    """What device time is lost to, over all runs."""

    cause: str
    """Why devices did not compute."""
    lost_ns: int
    """The recorded time of all devices that it took."""
    share: float
    """lost_ns, of the recorded time of all devices."""
    runs: int
    """The number of runs in which it takes 1 % or more (count)."""
    worst_run: str
    """The run in which it takes most."""


class SlowHost(Struct, frozen=True):
    """A host whose ranks are late more often than those of others."""

    host: str
    """Its name; the rank if traces do not name hosts."""
    runs: int
    """The runs that it took part in (count)"""
    late_runs: int
    """Those in which the others waited for it (count)"""
    cause: str | None
    """The part of a unit that takes its ranks longest beyond others."""
    late_ns: int
    """How late they are in a unit: the median of late_runs."""
    lost_ns: int
    """The recorded time of all devices that waited for it."""
    share: float
    """lost_ns, of the recorded time of all devices."""
    worst_run: str
    """The run in which it is latest."""
    unit: str | None
    """The unit of these runs, such as step or decode; null: they have different ones."""


class FleetChange(StepChange, frozen=True):
    """A unit of work took `before_ns` until the run `last_before`, and `after_ns` since the run
    `run`."""

    before_ns: int
    after_ns: int
    labels: dict[str, list[str | None]]
    """The labels that changed with this run: before and after."""
    rank: int | None
    """The rank that the others wait for since; null: all changed."""
    cause: str | None
    """What changed most."""
    cause_ns: int
    """By how much."""
    place: str | None
    """The place in the program, from the stored advice."""
    runs: int
    """Runs until the next change (count)"""
    lost_ns: int
    """The recorded time of all devices that it cost until the next change; negative: it saved."""
    share: float
    """lost_ns, of the recorded time of all devices in these runs."""


class SlowRun(Struct, frozen=True):
    """A run that was slower than the runs around it that do the same work."""

    run: str
    """Its name."""
    step_ns: int
    """Its unit of work."""
    usual_ns: int
    """The usual length: that of the runs around it."""
    rank: int | None
    """The rank that the others wait for; null: none."""
    cause: str | None
    """What takes longest beyond the usual."""
    lost_ns: int
    """The recorded time of all devices that it cost."""
    share: float
    """lost_ns, of the recorded time of all devices of all runs."""
    unit: str
    """The unit, such as step or decode."""


class Fleet(Record, frozen=True):
    """What costs most in the runs of a lake; each list has what costs most first."""

    form: ClassVar[str] = "tracekit/fleet/1"

    lake: str
    """The path of the lake."""
    order: str
    """time or name: the order of the runs."""
    runs: list[str]
    """The runs in that order."""
    step_ns: list[int]
    """The unit of work of each run: the median over its ranks of their medians."""
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
    """When the unit of runs that do the same work changed, with which labels, and why."""
    slow_runs: list[SlowRun]
    """Runs that were slower than the runs around them, where these are enough to tell."""
    spread: Spread | None
    """How far apart the units are; null: one changed, or the runs do different work (`works`)."""
    units: list[str]
    """What each run repeats: step, prefill, decode, mixed, pass or iteration; gpu_active: nothing
    repeats; unit: another version of tracekit wrote it."""
    tokens_per_s: list[float | None]
    """Those that each rank of each run reads and generates; null: unknown (tokens/s)"""
    samples_per_s: list[float | None]
    """Those of each rank of each run; null: unknown (samples/s)"""
    works: list[Work]
    """What the runs do, that of most runs first. More than one: the runs do different work."""


class _Member(Struct, frozen=True):
    """A rank of a run with its costs."""

    rank: Rank
    host: str | None
    steps: int
    """Its units of work (count)"""
    unit_ns: int
    device_ns: int
    """The recorded time of its device."""
    parts: dict[str, int]
    """The time of each part of a unit; waits for other ranks are one of the parts."""
    late_ns: int
    """How much later than the last but one it comes, in each unit."""

    @property
    def place(self) -> str:
        """Its host, or the rank if traces do not name hosts."""
        return self.host or self.rank.name


class _Costs:
    """The costs of a run, from those of its ranks."""

    def __init__(self, run: RunFigures, members: Sequence[_Member], thresholds: Thresholds) -> None:
        self.run, self.name, self.members = run, run.run, members
        self.span_ns = int(median(each.unit_ns for each in members))
        self.latest = max(members, key=lambda each: each.late_ns)
        self.is_late = self.latest.late_ns >= thresholds.named_gain * self.span_ns
        self.host_ns = 0
        """What a slow host adds to the unit."""
        self.device_ns = sum(each.device_ns for each in members)
        self.steps = sum(each.steps for each in members)
        """Units of all ranks together."""
        labels = (set(each.rank.labels.items()) for each in members)
        self.labels = dict(set.intersection(*labels))
        """The labels that all ranks have."""

    @property
    def step_ns(self) -> int:
        return self.span_ns - self.host_ns

    @property
    def unit(self) -> RunUnit:
        """Its unit of work, without what a slow host adds."""
        return RunUnit(self.name, self.run.unit, self.step_ns, self.run.tokens, self.run.samples)

    @property
    def pace(self) -> _Member | None:
        """The rank that the others wait for, unless that is because of its host."""
        return self.latest if self.is_late and not self.host_ns else None

    @property
    def parts(self) -> dict[str, float]:
        """The time of each part of the unit, on the rank that sets the pace; if there is no such
        rank, the median over ranks."""
        if self.pace is not None:
            return dict(self.pace.parts)
        parts = _medians([each.parts for each in self.members])
        return {name: ns for name, ns in parts.items() if name != WAITING}


def _medians(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for each in parts for name in each}
    return {name: median(each.get(name, 0) for each in parts) for name in names}


def fleet(lake: Lake) -> Fleet:
    """What costs most over all runs of a lake.

    Raises:
        TracekitError: when no run has GPU ops.
    """
    thresholds = lake.thresholds
    order, runs = _runs(lake)
    slow_hosts = _slow_hosts(runs, thresholds)
    works, changes = works_of([each.unit for each in runs], thresholds)
    parts = [_parts(runs, each, {change.run for change in changes}) for each in works]
    total = sum(each.device_ns for each in runs)
    slow = [e for some in parts for part in some for e in _slow_runs(part, total, thresholds)]
    pairs = [pair for some in parts for pair in pairwise(some)]
    return Fleet(
        lake=lake.name,
        order=order,
        runs=[each.name for each in runs],
        step_ns=[each.span_ns for each in runs],
        ranks=sum(len(each.members) for each in runs),
        hosts=len({member.host for each in runs for member in each.members} - {None}),
        device_ns=total,
        causes=_causes(runs, total, thresholds),
        slow_hosts=slow_hosts,
        changes=_largest_first(starmap(partial(_change, lake), pairs)),
        slow_runs=_largest_first(slow),
        spread=works[0].spread if len(works) == 1 else None,
        units=[each.run.unit for each in runs],
        tokens_per_s=[rate(each.run.tokens, each.span_ns) for each in runs],
        samples_per_s=[rate(each.run.samples, each.span_ns) for each in runs],
        works=works,
    )


def _parts(runs: Sequence[_Costs], work: Work, changed: Set[str]) -> list[list[_Costs]]:
    """The runs of a work in order, apart at the runs with which its unit changed."""
    parts: list[list[_Costs]] = []
    for run in runs:
        if run.name in work.runs:
            if not parts or run.name in changed:
                parts.append([])
            parts[-1].append(run)
    return parts


def _runs(lake: Lake) -> tuple[str, list[_Costs]]:
    """The runs with GPU ops, in order."""
    ranks = {each.trace_id: each for each in lake.ranks}
    hosts = dict(lake.fetch("SELECT trace_id, host FROM trace")[1])
    members: dict[str, list[_Member]] = defaultdict(list)
    for trace_id, rows in groupby(lake.ask("rank_costs"), itemgetter("trace_id")):
        rank = ranks[trace_id]
        host = rank.labels.get("host") or hosts[trace_id]
        members[rank.run].append(_member(rank, host, list(rows)))
    if not members:
        raise TracekitError(
            f"{lake.name}: none of its runs has GPU ops, whose time `fleet` adds up; "
            f"`tracekit history {lake.name}` tells when other runs changed"
        )
    order, runs = runs_in_order(lake)
    known = [(each, members[each.run]) for each in runs if each.run in members]
    return order, [_Costs(run, own, lake.thresholds) for run, own in known]


def _member(rank: Rank, host: str | None, rows: Sequence[dict[str, Any]]) -> _Member:
    first = rows[0]
    # A loop, or the whole span, is a window of several units.
    units = first["units"] or 1
    steps = max(1, first["steps"]) * units
    parts = {row["part"]: row["part_ns"] // units for row in rows}
    waited = min(parts.get("communication", 0), round(first["waited_ns"] / steps))
    if waited:
        parts["communication"] -= waited
        parts[WAITING] = waited
    return _Member(
        rank, host, steps, first["unit_ns"] or first["span_ns"], first["span_ns"] * steps // units,
        parts, round(first["later_ns"] / steps),
    )  # fmt: skip


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
    return _largest_first(each for each in found if each.share >= thresholds.named_gain)


def _slow_hosts(runs: Sequence[_Costs], thresholds: Thresholds) -> list[SlowHost]:
    """The hosts that are late in more of their runs than others by a factor. The time that they add
    is taken out of the units of runs. If only one rank ever ran on a host, that rank's work may be
    the reason, so the host counts as slow only if it is always late."""
    here: dict[str, set[str]] = defaultdict(set)
    late: dict[str, list[_Costs]] = defaultdict(list)
    for run in runs:
        for each in run.members:
            here[each.place].add(run.name)
        if run.is_late:
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
            run.host_ns = min(usually_ns, run.latest.late_ns)
        lost = sum(run.latest.late_ns * run.steps for run in some)
        worst = max(some, key=lambda run: run.latest.late_ns)
        found.append(SlowHost(
            host, len(here[host]), len(some), _excess(some), usually_ns, lost, lost / total,
            worst.name, some[0].run.unit if len({run.run.unit for run in some}) == 1 else None,
        ))  # fmt: skip
    return _largest_first(found)


def _excess(runs: Iterable[_Costs]) -> str | None:
    """The part of a unit that takes the latest ranks longest beyond the others."""
    more: Counter[str] = Counter()
    for run in runs:
        usual = _medians([each.parts for each in run.members])
        more.update({part: ns - int(usual[part]) for part, ns in run.latest.parts.items()})
    del more[WAITING]
    return _most(more)


def _most(more: Mapping[str, float]) -> str | None:
    best = max(more, key=lambda part: more[part], default=None)
    return best if best is not None and more[best] > 0 else None


def _change(lake: Lake, before: Sequence[_Costs], after: Sequence[_Costs]) -> FleetChange:
    old, new = (int(median(each.step_ns for each in some)) for some in (before, after))
    parts = [_medians([each.parts for each in some]) for some in (before, after)]
    sign = 1 if new >= old else -1
    more = {
        name: sign * (parts[1].get(name, 0) - parts[0].get(name, 0))
        for name in {*parts[0], *parts[1]}
    }
    cause = _most(more)
    first = after[0]
    ranks = Counter(None if each.pace is None else each.pace.rank.rank for each in after)
    known = [each.pace or each.members[0] for each in after]
    lost = (new - old) * sum(each.steps for each in after)
    labels = [before[-1].labels, first.labels]
    pairs = {n: [each.get(n) for each in labels] for n in sorted({*labels[0], *labels[1]})}
    return FleetChange(
        run=first.name,
        last_before=before[-1].name,
        before_ns=old,
        after_ns=new,
        unit=first.run.unit,
        labels={n: pair for n, pair in pairs.items() if n != "host" and pair[0] != pair[1]},
        rank=ranks.most_common(1)[0][0],
        cause=cause,
        cause_ns=round(more[cause]) if cause else 0,
        place=_place(lake, {each.rank.trace_id for each in known}, cause),
        runs=len(after),
        lost_ns=lost,
        share=lost / sum(each.device_ns for each in after),
    )


def _place(lake: Lake, trace_ids: Set[int], cause: str | None) -> str | None:
    """The place at which the stored advice on some ranks saves most against a cause."""
    saved: Counter[str] = Counter()
    for trace_id, its_cause, place, saves_ns in lake.fetch(_ADVICE)[1]:
        if trace_id in trace_ids and its_cause == cause:
            saved[place] += saves_ns
    return saved.most_common(1)[0][0] if saved else None


def _slow_runs(part: Sequence[_Costs], total: int, thresholds: Thresholds) -> Iterable[SlowRun]:
    if len(part) < thresholds.few_runs:
        # They do not show what is usual.
        return
    usual = int(median(each.step_ns for each in part))
    level = _medians([each.parts for each in part])
    for run in part:
        more_ns = run.step_ns - usual
        if more_ns <= thresholds.shift_share * usual:
            continue
        yield SlowRun(
            run=run.name,
            step_ns=run.step_ns,
            usual_ns=usual,
            rank=None if run.pace is None else run.pace.rank.rank,
            cause=_most({name: ns - level.get(name, 0) for name, ns in run.parts.items()}),
            lost_ns=more_ns * run.steps,
            share=more_ns * run.steps / total,
            unit=run.run.unit,
        )
