"""How long a run would have taken if something had been faster: its graph replayed with changes, or
the graphs of all ranks together in a run of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import Struct

from tracekit.causes import words
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.records import Shown
from tracekit.replay.graph.arrays import Ints, sums
from tracekit.replay.prices import Prices
from tracekit.replay.ranks.rank_replay import RankReplay, RanksRun, not_one_run, replayable
from tracekit.replay.ranks.stragglers import Pricing
from tracekit.replay.replay import Replay
from tracekit.replay.windows import range_of, step_named
from tracekit.stages import stage
from tracekit.text import duration

SCHEMA = "tracekit/whatif/1"
RUN_SCHEMA = "tracekit/whatif-run/1"


class StepLength(Struct, frozen=True):
    """A step's length as recorded and as predicted, from start to completion."""

    name: str
    """The step's name."""
    window_ns: int
    predicted_ns: int


class WhatIf(Shown, frozen=True):
    """A window of a run as recorded, and as predicted with the changes."""

    form: ClassVar[str] = SCHEMA

    trace: str
    """The trace's path."""
    window: str
    """The window's name."""
    changes: list[str]
    window_ns: int
    predicted_ns: int
    speedup: float
    saves_ns: int
    """What the changes save in the window without one-offs, in a run that is not recorded: the
    price of `tracekit advise`."""
    saves_of_ns: int
    """That window's length without the changes."""
    must_ns: int
    """What the devices need at least, at their peaks, for the window's products and weights; 0: not
    known. No price is below that, unless its change makes this work less."""
    bound_by: dict[str, float]
    """The changed window's critical path by cause: shares of `predicted_ns`."""
    unknown_ns: int
    """The part of `predicted_ns` in waits that the trace does not explain. A replay keeps these
    waits unchanged."""
    steps: list[StepLength]
    """The profiler's steps, or the units of work."""
    doubts: list[str]
    """Problems in the trace that make the prediction doubtful."""


class RankWhatIf(Struct, frozen=True):
    """A rank's wait for others in collectives, as recorded and as predicted, in ns."""

    rank: int
    waited_ns: int
    """As recorded."""
    predicted_waited_ns: int
    """As predicted."""


class RunWhatIf(Shown, frozen=True):
    """A run as recorded, and as predicted with changes: all ranks replayed together."""

    form: ClassVar[str] = RUN_SCHEMA

    traces: str
    """The traces' name, as given."""
    changes: list[str]
    window: str
    """The window's name."""
    window_ns: int
    predicted_ns: int
    speedup: float
    waited_ns: int
    """The total time that all ranks wait for each other in collectives."""
    predicted_waited_ns: int
    """The predicted total wait."""
    steps: list[StepLength]
    """The steps that all ranks recorded."""
    ranks: list[RankWhatIf]
    """Each rank's wait."""
    doubts: list[str]
    """Reasons why the prediction is doubtful."""


def require_times(database: Session, trace_id: int) -> None:
    """Checks that a trace records times.

    Raises:
        TracekitError: when it is a memory snapshot, or its events cannot be read.
    """
    database.require_events(trace_id)
    if any(row["code"] == "memory_snapshot" for row in database.ask("health", trace=trace_id)):
        path = database.ask("overview", trace=trace_id)[0]["path"]
        raise TracekitError(
            f"{path}: is a memory snapshot, which does not record times: "
            f"use {words('commands')['memory']}"
        )


def what_if(
    database: Session, changes: Sequence[str], trace_id: int, window: str | None = None
) -> WhatIf:
    """How long a window would have taken with changes such as `host*0.5`.

    `tracekit.replay.grammar.HELP` lists the changes. `window` is `gpu_active`, `trace`, the name of
    a step, or the name of annotated ranges: `NAME` is the one of median length, `NAME@2` the
    second. The default is the verdict's: the step of median length, or without steps the GPU-active
    span. Lengths are in ns.

    Raises:
        TracekitError: when a text is not a change or matches nothing in the trace, the trace has no
            such window, or it has no events with a time.
    """
    require_times(database, trace_id)
    with stage("replaying"):
        window = window and step_named(database, trace_id, window)
        ranges, at = (window and range_of(database, trace_id, window)) or (None, None)
        replay = Replay(database, trace_id, ranges)
        chosen = replay.window(replay.window_id(window, at))
        before, after = replay.measured(), replay.run(*changes)
        prices = Prices(replay, chosen)
        path, price = chosen.path(after), prices.price(*changes)
        lengths = _lengths(chosen.length(before), chosen.length(after))
        return WhatIf(
            trace=database.ask("overview", trace=trace_id)[0]["path"],
            window=chosen.name,
            changes=list(changes),
            **lengths,
            saves_ns=price.saves_ns,
            saves_of_ns=price.of_ns,
            must_ns=prices.must_ns,
            bound_by=path.shares,
            unknown_ns=path.by_cause.get("unknown", 0),
            steps=_steps(
                replay.steps.names, replay.steps.lengths(before), replay.steps.lengths(after)
            ),
            doubts=[
                f"{row['severity']}: {row['message']}"
                for row in database.doubts("device_work", trace_id)
                if row["severity"] in ("error", "warning")
            ]
            + _below(lengths["predicted_ns"], prices.must_ns),
        )


def _below(predicted_ns: int, must_ns: int) -> list[str]:
    """The doubt that the devices cannot be so fast; empty: they can, or their peaks are unknown."""
    if predicted_ns >= must_ns:
        return []
    return [
        f"warning: at their peaks the devices need {duration(must_ns)} for the window's products "
        "and weights: only less work, or faster devices, take less"
    ]


def _lengths(window_ns: int, predicted_ns: int) -> dict[str, Any]:
    speedup = window_ns / predicted_ns if predicted_ns else 1.0
    return {"window_ns": window_ns, "predicted_ns": predicted_ns, "speedup": speedup}


def _steps(names: Sequence[str], before: Ints, after: Ints) -> list[StepLength]:
    lengths = zip(names, before.tolist(), after.tolist(), strict=True)
    return [StepLength(*length) for length in lengths]


def what_if_run(database: Session, changes: Sequence[str]) -> RunWhatIf:
    """How long a run would have taken with changes such as `rank:6:host*0.5` or `straggler*0`.

    The window lasts from when the last rank begins the first step until all have completed the last
    one. `tracekit.replay.grammar.HELP` lists the changes. Lengths are in ns.

    Raises:
        TracekitError: when the traces are not the ranks of one run or do not show who waits for
        whom, or a text is not a change or matches nothing.
    """
    if reason := not_one_run(database):
        raise TracekitError(
            f"{database.name}: the traces are not one run, so choose one (--trace-id): {reason}"
        )
    with database.sharing(), stage("replaying all ranks together"):
        joined = RankReplay(database, replayable(database))
        if joined.doubt:
            raise TracekitError(f"{database.name}: the ranks cannot be replayed: {joined.doubt}")
        if not len(joined.members):
            raise TracekitError(f"{database.name}: no collective between ranks could be matched")
        before, after = joined.measured, Pricing(joined).changed(changes)
        traces = {row["trace_id"]: row for row in database.ask("overview")}
    rows = [traces[each] for each in joined.trace_ids]
    names = joined.step_names or ["the run"]
    old, new = _waited(joined, before), _waited(joined, after)
    world = max(row["world_size"] or 0 for row in rows)
    missing = [f"warning: only {len(rows)} of {world:,} ranks are loaded"] * (world > len(rows))
    return RunWhatIf(
        traces=database.name,
        changes=list(changes),
        window=f"{len(names)} steps of the run" if len(names) > 1 else names[0],
        **_lengths(before.span_ns, after.span_ns),
        waited_ns=sum(old),
        predicted_waited_ns=sum(new),
        steps=_steps(names, before.lengths, after.lengths),
        ranks=[RankWhatIf(r["rank"], a, b) for r, a, b in zip(rows, old, new, strict=True)],
        doubts=missing,
    )


def _waited(joined: RankReplay, run: RanksRun) -> list[int]:
    """How long each rank waits in collectives."""
    collective = ~run.of.members.is_exchange
    rank, wait_ns = run.of.rank[collective], run.wait_ns[collective]
    waited: list[int] = sums(rank, wait_ns, len(joined.trace_ids)).tolist()
    return waited
