"""The page of several traces, such as the ranks of a job: who waits for whom, and why."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from tracekit.reporters import several
from tracekit.reporters.page import clipped
from tracekit.text import duration, printable, share

if TYPE_CHECKING:
    import polars

    from tracekit.database.catalog import Value
    from tracekit.run import Database
    from tracekit.verdict.model import Analysis

# The first screen names at most so many ranks.
_FIRST = 8
# Names of kernels in sentences are cut.
_PLACE = 60
# A matrix has at most so many cells.
MOST_CELLS = 6_000

# Columns of the query stragglers.
WAITS = ("waited_ns", "held_up_ns", "times_last", "collectives")


class Ranks:
    """Several traces with their verdicts, as the figures of their page ask for them."""

    def __init__(self, database: Database, analyses: Sequence[Analysis]) -> None:
        self.database = database
        self.analyses = sorted(analyses, key=lambda a: _by_rank(a.trace.rank, a.trace.trace_id))
        numbers = [each.trace.rank for each in self.analyses]
        self.are_ranks = None not in numbers and len(set(numbers)) == len(numbers)
        self.world_size = max((each.trace.world_size or 0 for each in self.analyses), default=0)
        titles = several.titles(self.analyses)
        self.names = {
            each.trace.trace_id: f"rank {each.trace.rank}" if self.are_ranks else title
            for each, title in zip(self.analyses, titles, strict=True)
        }
        """What each trace is called, by trace_id, in order."""

    def __len__(self) -> int:
        return len(self.analyses)

    @property
    def noun(self) -> str:
        return "ranks" if self.are_ranks else "traces"

    def rows(self, question: str, **parameters: Value) -> polars.DataFrame:
        """The answer to a named question about all traces."""
        return self.database.query(question, **parameters)

    def source(self, question: str, **parameters: Value) -> str:
        """The command that prints these rows."""
        chosen = "".join(f" --param {name}={value}" for name, value in parameters.items())
        return f"tracekit query {question} {self._quoted_name}{chosen}"

    @property
    def analyzed(self) -> str:
        """The command that prints the verdicts."""
        return f"tracekit analyze {self._quoted_name}"

    @property
    def _quoted_name(self) -> str:
        return shlex.quote(printable(self.database.name))

    def doubts(self, question: str) -> list[str]:
        """What makes the answer doubtful, each kind of doubt once."""
        kinds: dict[str, list[dict[str, Any]]] = {}
        for row in self.database.doubts(question):
            if row["severity"] not in ("info", "missing"):
                kinds.setdefault(row["code"], []).append(row)
        return [
            f"{self.names.get(rows[0]['trace_id'], 'a trace')}: {rows[0]['message']}"
            + (f" ({len(rows) - 1} more like it)" if len(rows) > 1 else "")
            for rows in kinds.values()
        ]

    # -- what was waited

    @cached_property
    def stragglers(self) -> polars.DataFrame:
        return self.rows("stragglers")

    @property
    def met(self) -> bool:
        """Whether several of the traces took part in the same collective."""
        return len(self.stragglers) > 0

    @cached_property
    def waits(self) -> dict[int, dict[str, int]]:
        """What each trace waited and was waited for, over all steps: sums of stragglers."""
        found = {trace: dict.fromkeys(WAITS, 0) for trace in self.names}
        for row in self.stragglers.iter_rows(named=True):
            for name in WAITS:
                found[row["trace_id"]][name] += row[name]
        return found

    @cached_property
    def who(self) -> polars.DataFrame:
        """Who waits for whom, as much as a matrix can show."""
        return self.rows("rank_waits", top=self.awaited)

    @property
    def awaited(self) -> int:
        """How many awaited ranks a matrix can show."""
        return max(1, MOST_CELLS // len(self))

    @cached_property
    def clocks(self) -> polars.DataFrame:
        return self.rows("rank_clocks")

    @cached_property
    def latest(self) -> Analysis | None:
        """The rank for which the others waited longest; None: nobody waited."""
        found = max(self.analyses, key=lambda each: self._held_up_ns(each.trace.trace_id))
        return found if self._held_up_ns(found.trace.trace_id) else None

    def _held_up_ns(self, trace: int) -> int:
        return self.waits[trace]["held_up_ns"]

    @cached_property
    def clock_doubt(self) -> str | None:
        """What to say where collectives do not end together, so that waits cannot be told."""
        worst = max(self.clocks["residual_ns"], default=0)
        calls = sum(each["collectives"] for each in self.waits.values())
        waited = sum(each["waited_ns"] for each in self.waits.values()) / max(1, calls)
        if worst <= waited or not calls:
            return None
        return (
            f"the ends of the same collectives differ by {duration(worst)} between {self.noun}, "
            f"more than one waits in a collective on average ({duration(waited)}): they may not be "
            "the same, or may be left by one before others enter."
        )

    # -- the first screen

    @property
    def headline(self) -> str:
        counted = f"{len(self)} {self.noun}"
        if self.latest is None or self.clock_doubt:
            return counted
        return f"{counted}: the others wait most for {self.names[self.latest.trace.trace_id]}"

    @cached_property
    def first(self) -> list[Analysis]:
        """Those that the first screen names: the most waited for, in order."""
        if not self.met:
            return self.analyses[:_FIRST]
        most = sorted(self.analyses, key=lambda each: -self._held_up_ns(each.trace.trace_id))
        return most[:_FIRST]

    @cached_property
    def summary(self) -> list[str]:
        """What bounds the traces, and how long their steps are."""
        found = [several.summary(self.analyses)]
        lengths = [step.window.span_ns for each in self.analyses for step in each.steps]
        if lengths:
            found.append(
                f"A step takes {duration(median(lengths))}: the median of {len(lengths):,} steps, "
                f"from {duration(min(lengths))} to {duration(max(lengths))}."
            )
        return found

    @cached_property
    def reasons(self) -> list[str]:
        """For which rank the others wait, and what it does meanwhile."""
        if self.latest is None:
            return []
        trace, verdict = self.latest.trace.trace_id, self.latest.verdict
        name, waits = self.names[trace], self.waits[trace]
        total = sum(each["waited_ns"] for each in self.waits.values())
        span = sum(each.window.span_ns for each in self.analyses)
        by = f", by {verdict.bottleneck}" if verdict.bottleneck else ""
        found = [
            f"The {self.noun} wait for each other for {duration(total)} in collectives, "
            f"{share(total, span)} of their windows. Of it, {share(waits['held_up_ns'], total)} is "
            f"for {name}, which comes last in {waits['times_last']:,} of "
            f"{waits['collectives']:,} collectives.",
            *self._own_cause(self.latest),
            f"{name} itself is {verdict.regime}{by}.",
        ]
        if self.are_ranks and len(self) < self.world_size:
            found.append(
                f"Only {len(self)} of {self.world_size:,} ranks are here: the one that is last of "
                "all may be missing."
            )
        return [sentence[:1].upper() + sentence[1:] for sentence in found]

    def _own_cause(self, late: Analysis) -> list[str]:
        """What the late rank does for longer than the others."""
        trace = late.trace.trace_id
        name, steps = self.names[trace], max(1, len(late.steps))
        rows = self.database.ask("rank_excess", trace=trace)
        excess = rows[0]["excess_ns"] if rows else 0
        found = []
        if excess > 0:
            part = rows[0]["part"]
            waiting = self.who.filter(awaited_trace_id=trace)["wait_ns"]
            place = _place(self.database, late, part)
            there = f", most of it in {clipped(place, _PLACE)}" if place else ""
            waits = sum(waiting) / max(1, len(waiting)) / steps
            found.append(
                f"{'Per step' if late.steps else 'In its window'}, {name} spends "
                f"{duration(excess)} more on {part_name(part)} than the median of the others"
                f"{there}. Who waits for it waits {duration(waits)}."
            )
        begins = dict(self.clocks.select("trace_id", "begins_ns").iter_rows())
        others = [ns for other, ns in begins.items() if other != trace]
        if others and begins.get(trace, 0) - median(others) > excess * steps:
            found.append(
                f"Its recording begins {duration(begins[trace] - median(others))} after the median "
                "of the others: what made it late may lie before that."
            )
        return found


def in_order_of_interest(database: Database) -> list[int]:
    """The trace_ids of a database: the first rank, then those for which the others wait longest."""
    known = {row["trace_id"]: row["rank"] for row in database.ask("overview")}
    held_up = dict.fromkeys(known, 0)
    for row in database.ask("stragglers"):
        held_up[row["trace_id"]] += row["held_up_ns"]
    by_rank = sorted(known, key=lambda trace: _by_rank(known[trace], trace))
    return by_rank[:1] + sorted(by_rank[1:], key=lambda trace: -held_up[trace])


def part_name(part: str) -> str:
    """A part of rank_excess, as the bars name it."""
    return part if part in ("compute", "memcpy") else f"idle: {part}"


def _by_rank(rank: int | None, trace_id: int) -> tuple[bool, int, int]:
    return rank is None, rank or 0, trace_id


def _place(database: Database, late: Analysis, part: str) -> str | None:
    """The slice of the host, or the kernel, in which a rank spends most of a part."""
    if part == "compute":
        return next((r["name"] for r in late.top_kernels if r["class"] != "communication"), None)
    rows = database.ask("idle_culprits", trace=late.trace.trace_id)
    return next((row["culprit"] for row in rows if row["cause"] == part and row["culprit"]), None)
