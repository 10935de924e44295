"""How long a run of several ranks would have taken if something had been faster, by replays of
all its ranks together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tracekit.errors import TracekitError
from tracekit.records import Record
from tracekit.replay.changes import apply, scale_cause
from tracekit.replay.grammar import BUBBLE, STEADY, STRAGGLER, RunChange, parse_of_run
from tracekit.replay.graph.arrays import Floats
from tracekit.replay.ranks.joined import Joined, JoinedRun, not_one_run, replayable
from tracekit.replay.ranks.stragglers import Alike, held_up
from tracekit.replay.simulator import Scale
from tracekit.replay.whatif import StepLength
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    from tracekit.database.session import Session

SCHEMA = "tracekit/whatif-run/1"
COMMUNICATION = "communication"


@dataclass(frozen=True)
class RankWhatIf:
    """What a rank waits for others in collectives, as recorded and as predicted, in ns."""

    rank: int
    waited_ns: int
    """As recorded."""
    predicted_waited_ns: int
    """As predicted."""


@dataclass(frozen=True)
class RunWhatIf(Record, form=SCHEMA):
    """A run as recorded, and as predicted with changes: all ranks replayed together."""

    traces: str
    """What was given."""
    changes: list[str]
    window: str
    """The window's name."""
    window_ns: int
    predicted_ns: int
    speedup: float
    waited_ns: int
    """What all ranks together wait for each other in collectives."""
    predicted_waited_ns: int
    """The same as predicted."""
    steps: list[StepLength]
    """The steps that all ranks recorded."""
    ranks: list[RankWhatIf]
    """What each rank waits."""
    doubts: list[str]
    """What makes the prediction doubtful."""


def what_if_run(
    database: Session, changes: Sequence[str], thresholds: Thresholds | None = None
) -> RunWhatIf:
    """How long a run would have taken with changes such as `rank:6:host*0.5` or `straggler*0`.

    The window lasts from when the last rank begins the first step until all have completed the last
    one. `tracekit.replay.grammar.HELP` lists the changes. Lengths are in ns.

    Raises:
        TracekitError: the traces are not the ranks of one run, or do not tell who waits for whom; a
            text is not a change or matches nothing.
    """
    reason = not_one_run(database)
    if reason:
        raise TracekitError(
            f"{database.name}: choose a trace (--trace-id): they are not a run, because {reason}"
        )
    with database.judging(thresholds or Thresholds()), database.sharing():
        joined = Joined(database, replayable(database), thresholds)
        if joined.doubt:
            raise TracekitError(f"{database.name}: the ranks cannot be replayed: {joined.doubt}")
        if not len(joined.members):
            raise TracekitError(f"{database.name}: no collective is matched between the ranks")
        before, after = joined.measured, _Changed(database, joined, changes).run()
        traces = {row["trace_id"]: row for row in database.ask("overview")}
    rows = [traces[each] for each in joined.trace_ids]
    names = joined.step_names or ["the run"]
    old, new = _waited(joined, before), _waited(joined, after)
    world = max(row["world_size"] or 0 for row in rows)
    missing = [f"warning: only {len(rows)} of {world:,} ranks are here"] * (world > len(rows))
    return RunWhatIf(
        traces=database.name,
        changes=list(changes),
        window=f"{len(names)} steps of the run" if len(names) > 1 else names[0],
        window_ns=before.span_ns,
        predicted_ns=after.span_ns,
        speedup=before.span_ns / after.span_ns if after.span_ns else 1.0,
        waited_ns=sum(old),
        predicted_waited_ns=sum(new),
        steps=[
            StepLength(name, int(a), int(b))
            for name, a, b in zip(names, before.lengths, after.lengths, strict=True)
        ],
        ranks=[RankWhatIf(r["rank"], a, b) for r, a, b in zip(rows, old, new, strict=True)],
        doubts=missing,
    )


def _waited(joined: Joined, run: JoinedRun) -> list[int]:
    """What each rank waits in collectives."""
    members = run.of.members
    collective = ~members.is_exchange
    return [
        int(run.wait_ns[collective & (run.of.rank == number)].sum())
        for number in range(len(joined.trace_ids))
    ]


class _Changed:
    """The replay of a run with changes."""

    def __init__(self, database: Session, joined: Joined, texts: Sequence[str]) -> None:
        self.database, self.joined = database, joined
        self.pricing = Pricing(joined)
        causes = joined.graphs[0].causes
        self.changes = [parse_of_run(text, causes) for text in texts]
        ranks = {row["trace_id"]: row["rank"] for row in database.ask("overview")}
        self.ranks = [ranks[each] for each in joined.trace_ids]

    def run(self) -> JoinedRun:
        joined, is_apart = self.joined, False
        steady = any(each.change.what == STEADY for each in self.changes)
        scales = joined.scales(steady=steady)
        for each in self.changes:
            if each.change.what == BUBBLE:
                is_apart = True
            elif each.change.what == STRAGGLER:
                number = self._late() if each.rank is None else self._number(each)
                if not self.pricing.alike.scale(number, each.change.factor, scales[number]):
                    raise TracekitError(
                        f"{each.text!r}: no other rank does the same as rank {self.ranks[number]}"
                    )
            elif each.change.what != STEADY:
                self._apply(each, scales)
        if is_apart:
            self.pricing.set_apart(scales)
            return self.pricing.apart.run(scales)
        return joined.run(scales)

    def _apply(self, each: RunChange, scales: list[Scale]) -> None:
        """Applies a change to a rank, or to all ranks in which it matches something."""
        numbers = range(len(scales)) if each.rank is None else [self._number(each)]
        errors = []
        for number in numbers:
            replay = self.joined.replays[number]
            try:
                apply(
                    each.change, scales[number], replay.graph, self.database, replay.trace_id,
                    replay.remedies,
                )  # fmt: skip
            except TracekitError as error:
                errors.append(error)
        if len(errors) == len(numbers):
            raise errors[0]

    def _number(self, each: RunChange) -> int:
        if each.rank not in self.ranks:
            known = ", ".join(map(str, sorted(self.ranks)))
            raise TracekitError(f"{each.text!r}: there is no rank {each.rank}; there are {known}")
        return self.ranks.index(each.rank)

    def _late(self) -> int:
        """The rank for which the others wait longest."""
        held = held_up(self.joined)
        if not held:
            raise TracekitError("straggler: no rank is waited for")
        return int(max(held, key=lambda number: (held[number], -number)))


class Pricing:
    """Replays of a run's ranks with changes. Lengths are in ns."""

    def __init__(self, joined: Joined) -> None:
        self.joined = joined
        self.alike = Alike(joined)

    @property
    def measured(self) -> JoinedRun:
        return self.joined.measured

    def saved(self, run: JoinedRun) -> int:
        """How much shorter the run is in a replay, from its begin to its end."""
        return self.measured.span_ns - run.span_ns

    def without_cause(self, cause: str) -> int:
        """What removing a cause on all ranks saves."""
        return self.saved(self.joined.run(self._scaled(cause, 0.0)))

    def like_the_others(self, numbers: list[int]) -> int | None:
        """What it saves if these ranks take as long as those alike; None: nobody is."""
        run = self.run_like_the_others(numbers)
        return None if run is None else self.saved(run)

    def run_like_the_others(self, numbers: list[int]) -> JoinedRun | None:
        """The replay in which these ranks take as long as those alike; None: nobody is."""
        scales, found = self.joined.scales(), False
        for number in numbers:
            found |= self.alike.scale(number, 0.0, scales[number])
        return self.joined.run(scales) if found else None

    def without_waiting_for_stages(self) -> int:
        """What it saves if no stage of a pipeline waits for another one: the most that smaller
        pieces or another schedule could save."""
        scales = self.joined.scales()
        self.set_apart(scales)
        return self.saved(self.apart.run(scales))

    @cached_property
    def apart(self) -> Joined:
        """The ranks without their sends and receives."""
        return self.joined.without(self.joined.members.is_exchange)

    def set_apart(self, scales: list[Scale]) -> None:
        """Scales sends and receives to their time on the wire, for replays of `apart`."""
        joined = self.joined
        exchange = joined.members.is_exchange
        for number, scale in enumerate(scales):
            own = np.flatnonzero(exchange & (joined.rank == number) & (joined.members.ns > 0))
            rate = joined.members.wire_ns[own] / joined.members.ns[own]
            scale.op.scale_each(rate, joined.op[own])

    def at_wire(self, factor: Floats) -> int:
        """What it saves if the bytes of each meeting take so many times as long."""
        return self.saved(self.joined.run(self.joined.scales(), factor))

    def _scaled(self, what: str, factor: float) -> list[Scale]:
        scales = self.joined.scales()
        for scale, graph in zip(scales, self.joined.graphs, strict=True):
            scale_cause(what, factor, scale, graph)
        return scales
