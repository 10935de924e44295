"""How long a run of several ranks would have taken if something had been faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError
from tracekit.replay.changes import apply
from tracekit.replay.grammar import BUBBLE, STEADY, STRAGGLER, RunChange, parse_of_run
from tracekit.replay.ranks.blame import held_up
from tracekit.replay.ranks.joined import Joined, JoinedRun, not_one_run, replayable
from tracekit.replay.ranks.pricing import Pricing
from tracekit.replay.scaling import Scale
from tracekit.replay.whatif import StepLength
from tracekit.thresholds import Thresholds

if TYPE_CHECKING:
    from tracekit.database.reader import Reader

SCHEMA = "tracekit/whatif-run/1"


@dataclass(frozen=True)
class RankWhatIf:
    """What a rank waits for others in collectives, as recorded and as predicted, in ns."""

    rank: int
    waited_ns: int
    """As recorded."""
    predicted_waited_ns: int
    """As predicted."""


@dataclass(frozen=True)
class RunWhatIf:
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

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {"schema": SCHEMA} | asdict(self)


def what_if_run(
    database: Reader, changes: Sequence[str], thresholds: Thresholds | None = None
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

    def __init__(self, database: Reader, joined: Joined, texts: Sequence[str]) -> None:
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
