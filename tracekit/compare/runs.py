"""Compares two runs of several ranks: the verdict on each, and the rank that differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tracekit.errors import TracekitError
from tracekit.records import Record
from tracekit.text import duration
from tracekit.thresholds import Thresholds
from tracekit.verdict.run_model import LateRank, RunVerdict
from tracekit.verdict.run_words import headline
from tracekit.verdicts import verdict_together, verdicts

if TYPE_CHECKING:
    from tracekit.database.session import Session


class RunComparison(Record, frozen=True):
    """Run b compared with run a, each judged as one."""

    a: str
    """The name of the run to compare with."""
    b: str
    """The name of the run that is compared."""
    verdict_a: RunVerdict | None
    """The verdict of run a; null: it has none."""
    verdict_b: RunVerdict | None
    """The verdict of run b; null: it has none."""
    rank: int | None
    """The rank that sets the pace of the slower run, whose traces are compared; null: none does."""
    why: list[str]
    """What changed between the runs, as sentences; also why a run has no verdict."""


def compare_runs(
    a: Session, b: Session, names: tuple[str, str], thresholds: Thresholds
) -> RunComparison | None:
    """The changes between two runs, whose ranks the two sessions hold; None: each has one rank."""
    found: list[RunVerdict | None] = []
    why: list[str] = []
    for session, name in ((a, names[0]), (b, names[1])):
        with session.sharing():
            verdict, reason = verdict_together(session, verdicts(session), thresholds)
        found.append(verdict)
        if reason:
            why.append(f"{name} has no verdict as one run: {reason}.")
    first, second = found
    if first is None and second is None and not why:
        return None
    ordered = [(each, name) for each, name in zip(found, names, strict=True) if each is not None]
    # The slower run first.
    ordered.sort(key=lambda each: -(each[0].step_ns or 0))
    pace = next((each for each in ordered if each[0].pace_rank is not None), None)
    why += [f"{name}: {headline(each)}." for each, name in ordered]
    if pace is not None:
        why += _pace(*pace, [each for each in ordered if each is not pace])
    rank = None if pace is None else pace[0].pace_rank
    return RunComparison(*names, first, second, rank, why)


class RunMember(NamedTuple):
    """A rank of a run."""

    name: str
    rank: int | None
    path: str


class _Named(Protocol):
    """A rank of a run, of a lake or not."""

    @property
    def name(self) -> str: ...
    @property
    def rank(self) -> int | None: ...


M = TypeVar("M", bound=_Named)


def members(session: Session) -> list[RunMember]:
    """The ranks that a session holds, by trace_id; a trace without one goes by its file's name."""
    return [
        RunMember(
            f"file={PurePath(row['path']).name}" if row["rank"] is None else f"rank={row['rank']}",
            row["rank"],
            row["path"],
        )
        for row in session.ask("overview")
    ]


def common_rank(
    names: tuple[str, str], a: Sequence[M], b: Sequence[M], runs: RunComparison | None
) -> tuple[M, M, str]:
    """The rank that sets the pace of the slower of two runs, or the first one that they have in
    common; and which rank that is, if they have several.

    Raises:
        TracekitError: when they have none.
    """
    first, second = names
    if len(a) == len(b) == 1:
        return a[0], b[0], ""
    others = {each.name: each for each in b}
    both = [each for each in a if each.name in others]
    if not both:
        raise TracekitError(
            f"run {first!r} and run {second!r} have no rank in common: choose one of each (of a "
            "lake, as LAKE/run=NAME/rank=N; of a database, by --trace-ids)"
        )
    wanted = None if runs is None else runs.rank
    chosen = next((each for each in both if each.rank == wanted), both[0])
    note = (
        f"compares {chosen.name} of run {first!r}, which has {len(a):,}, with {chosen.name} of run "
        f"{second!r}, which has {len(b):,}"
    )
    return chosen, others[chosen.name], note


def _pace(run: RunVerdict, name: str, others: list[tuple[RunVerdict, str]]) -> list[str]:
    """What the rank that sets the pace of a run spends more time on there."""
    late = run.late_ranks[0]
    if late.cause is None or late.excess_ns is None:
        return []
    where = f", most of it in {late.place}" if late.place else ""
    more = f"{duration(late.excess_ns)} more on {late.cause}"
    found = [f"In {name}, rank {late.rank} spends {more} in each step than its peers{where}."]
    for other, its_name in others:
        same = next((each for each in other.late_ranks if each.rank == late.rank), None)
        if same is None or not _is_alike(same, late):
            found.append(f"In {its_name} it does not.")
    return found


def _is_alike(one: LateRank, other: LateRank) -> bool:
    """Whether a rank is late for the same reason in two runs, and about as much."""
    return one.cause == other.cause and 2 * (one.excess_ns or 0) >= (other.excess_ns or 0)
