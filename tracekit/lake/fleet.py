"""All runs of a lake: what costs most, which hosts are slow, and what changed when.

A rank is late by the time between the arrival of the last but one rank and its own, summed over the
collectives of a step. Time that a slow host adds to steps counts once, as the host's: no step of a
run includes it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import pairwise, starmap
from statistics import median
from typing import Any

from msgspec import Struct

from tracekit.errors import TracekitError
from tracekit.lake.comparing import began_ns, put_in_order, shifts
from tracekit.lake.fleet_model import Fleet, FleetCause, FleetChange, SlowHost, SlowRun
from tracekit.lake.layout import Rank
from tracekit.lake.reading import Lake
from tracekit.thresholds import Thresholds

WAITING = "waiting-for-a-rank"
# Work of a device is no loss.
_WORK = "compute"
_ADVICE = "SELECT trace_id, cause, place, saves_ns FROM advice WHERE place IS NOT NULL"


class _Member(Struct, frozen=True):
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

    def __init__(
        self, name: str, members: Sequence[_Member], began: int | None, limits: Thresholds
    ) -> None:
        self.name, self.members, self.began = name, members, began
        self.span_ns = int(median(each.span_ns for each in members))
        self.latest = max(members, key=lambda each: each.late_ns)
        self.is_late = self.latest.late_ns >= limits.named_gain * self.span_ns
        self.host_ns = 0
        """What a slow host adds to the step."""
        self.device_ns = sum(each.device_ns for each in members)
        self.steps = sum(each.steps for each in members)
        """Steps of all ranks together."""
        labels = (set(each.rank.labels.items()) for each in members)
        self.labels = dict(set.intersection(*labels))
        """The labels that all ranks have."""

    @property
    def step_ns(self) -> int:
        return self.span_ns - self.host_ns

    @property
    def pace(self) -> _Member | None:
        """The rank that the others wait for, unless that is because of its host."""
        return self.latest if self.is_late and not self.host_ns else None

    @property
    def parts(self) -> dict[str, float]:
        """The step by what it consists of: of the rank that sets the pace, else the medians."""
        if self.pace is not None:
            return dict(self.pace.parts)
        parts = _medians([each.parts for each in self.members])
        return {name: ns for name, ns in parts.items() if name != WAITING}


def _medians(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for each in parts for name in each}
    return {name: median(each.get(name, 0) for each in parts) for name in names}


def fleet(lake: Lake, thresholds: Thresholds | None = None) -> Fleet:
    """What costs most over all runs of a lake.

    Raises:
        TracekitError: when no run has GPU ops.
    """
    limits = thresholds or Thresholds()
    order, runs = _runs(lake, limits)
    slow_hosts = _slow_hosts(runs, limits)
    changes = shifts([(each.name, each.step_ns) for each in runs], limits)
    places = {each.name: at for at, each in enumerate(runs)}
    borders = [0, *(places[each.run] for each in changes), len(runs)]
    parts = [runs[a:b] for a, b in pairwise(borders)]
    total = sum(each.device_ns for each in runs)
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
        changes=sorted(starmap(partial(_change, lake), pairwise(parts)), key=_loss),
        slow_runs=sorted(slow, key=_loss),
    )


def _loss(cost: FleetCause | SlowHost | FleetChange | SlowRun) -> int:
    """Sorts costs, the largest first."""
    return -cost.lost_ns


def _runs(lake: Lake, limits: Thresholds) -> tuple[str, list[_Costs]]:
    """The runs in order of time, or of name if a trace has no time since the epoch."""
    ranks = {each.trace_id: each for each in lake.ranks}
    hosts = dict(lake.fetch("SELECT trace_id, host FROM trace")[1])
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in lake.ask("rank_costs"):
        rows[row["trace_id"]].append(row)
    if not rows:
        raise TracekitError(
            f"{lake.name}: none of its runs has GPU ops, whose time `fleet` adds up; "
            f"`tracekit history {lake.name}` tells when the steps of other runs changed"
        )
    members: dict[str, list[_Member]] = defaultdict(list)
    for trace_id, some in rows.items():
        rank = ranks[trace_id]
        host = rank.labels.get("host") or hosts[trace_id]
        members[rank.run].append(_member(rank, host, some))
    began = began_ns(lake)
    runs = [
        _Costs(name, own, min(began.get(each.rank.trace_id, 0) for each in own) or None, limits)
        for name, own in members.items()
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
    return sorted(found, key=_loss)


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
        found.append(
            SlowHost(
                host, len(here[host]), len(some), _excess(some),
                usually_ns, lost, lost / total, worst.name,
            )
        )  # fmt: skip
    return sorted(found, key=_loss)


def _excess(runs: Iterable[_Costs]) -> str | None:
    """The part of a step that takes the latest ranks longest beyond the others."""
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
    steps = sum(each.steps for each in after)
    lost = (new - old) * steps
    return FleetChange(
        run=first.name,
        last_before=before[-1].name,
        before_ns=old,
        after_ns=new,
        labels=_changed(before[-1].labels, first.labels),
        rank=ranks.most_common(1)[0][0],
        cause=cause,
        cause_ns=round(more[cause]) if cause else 0,
        place=_place(lake, {each.rank.trace_id for each in known}, cause),
        runs=len(after),
        lost_ns=lost,
        share=lost / sum(each.device_ns for each in after),
    )


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str | None]]:
    names = sorted({*before, *after} - {"host"})
    return {
        name: [before.get(name), after.get(name)]
        for name in names
        if before.get(name) != after.get(name)
    }


def _place(lake: Lake, trace_ids: Set[int], cause: str | None) -> str | None:
    """The place at which the stored advice on some ranks saves most against a cause."""
    saved: Counter[str] = Counter()
    for trace_id, its_cause, place, saves_ns in lake.fetch(_ADVICE)[1]:
        if trace_id in trace_ids and its_cause == cause:
            saved[place] += saves_ns
    return saved.most_common(1)[0][0] if saved else None


def _slow_runs(part: Sequence[_Costs], total: int, thresholds: Thresholds) -> Iterable[SlowRun]:
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
        )
