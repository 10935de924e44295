"""The data of the page on several traces, such as a job's ranks, and their waits for each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from statistics import median
from typing import Any

import polars

from tracekit.database.session import Session
from tracekit.replay.ranks.rank_replay import clock_doubt
from tracekit.reporters import several
from tracekit.reporters.html.subject import PageSubject
from tracekit.text import counted, duration, quoted
from tracekit.verdict.model import Analysis
from tracekit.verdict.run_words import no_verdict
from tracekit.verdicts import verdict_together

# The first screen names at most this many ranks.
_FIRST = 8
# A matrix has at most this many cells.
MOST_CELLS = 6_000
# Rows of a question whose answer is summed: all.
MOST_ROWS = 2**31 - 1

_RANK = re.compile(r"\brank (\d+)")
_OF_IT = re.compile(r"% of it is")
# Columns of the query stragglers.
WAITS = ("waited_ns", "held_up_ns", "times_last", "collectives")


class Ranks(PageSubject):
    """Several traces with their verdicts, as the input of their page's figures."""

    def __init__(self, database: Session, analyses: Sequence[Analysis]) -> None:
        super().__init__(database)
        self.analyses = sorted(analyses, key=lambda a: _by_rank(a.trace.rank, a.trace.trace_id))
        numbers = [analysis.trace.rank for analysis in self.analyses]
        self.are_ranks = None not in numbers and len(set(numbers)) == len(numbers)
        self.world_size = max(
            (analysis.trace.world_size or 0 for analysis in self.analyses), default=0
        )
        titles = several.titles(self.analyses)
        self.names = {
            each.trace.trace_id: f"rank {each.trace.rank}" if self.are_ranks else title
            for each, title in zip(self.analyses, titles, strict=True)
        }
        """The name of each trace, by trace_id, in order."""
        with database.sharing():
            self.analyses, self.together, self.no_run = verdict_together(database, self.analyses)
        """The verdict on the run whose ranks these are; None: they are not one run, and why."""

    def __len__(self) -> int:
        return len(self.analyses)

    @property
    def noun(self) -> str:
        return "ranks" if self.are_ranks else "traces"

    @property
    def loading(self) -> str | None:
        """The command that creates the database for the page's commands, if missing."""
        if not self.database.is_joined:
            return None
        paths = (quoted(analysis.trace.path) for analysis in self.analyses)
        return f"tracekit load {' '.join(paths)} -o {self.quoted_name}"

    @property
    def analyzed(self) -> str:
        """The command that prints the verdicts."""
        return f"tracekit analyze {self.quoted_name}"

    def doubts(self, question: str) -> list[str]:
        """The doubts about an answer, each kind once; doubts about waits include the clocks."""
        kinds: dict[str, list[dict[str, Any]]] = {}
        for row in self.findings_against(question):
            kinds.setdefault(row["code"], []).append(row)
        doubts = [
            f"{self.names.get(rows[0]['trace_id'], 'a trace')}: {rows[0]['message']}"
            + (f" ({len(rows) - 1} more like it)" if len(rows) > 1 else "")
            for rows in kinds.values()
        ]
        is_by_clocks = question in ("rank_waits", "collective_times")
        return [*doubts, self.clock_doubt] if is_by_clocks and self.clock_doubt else doubts

    # -- waiting

    @property
    def stragglers(self) -> polars.DataFrame:
        return self.rows("stragglers", top=MOST_ROWS)

    @property
    def met(self) -> bool:
        """Whether several of the traces took part in the same collective."""
        return len(self.stragglers) > 0

    @cached_property
    def waits(self) -> dict[int, dict[str, int]]:
        """Each trace's waits, and the others' waits for it, over all steps: sums of stragglers, but
        the others' waits come from the run's verdict."""
        waits = {trace: dict.fromkeys(WAITS, 0) for trace in self.names}
        for row in self.stragglers.iter_rows(named=True):
            for name in WAITS:
                waits[row["trace_id"]][name] += row[name]
        if self.together is not None and self.together.late_ranks:
            late = {rank.trace_id: rank.held_up_ns for rank in self.together.late_ranks}
            for trace, sums in waits.items():
                sums["held_up_ns"] = late.get(trace, 0)
        return waits

    @cached_property
    def by_wait(self) -> list[Analysis]:
        """All ranks, sorted by the others' waits for them, longest first."""
        return sorted(
            self.analyses, key=lambda each: -self.waits[each.trace.trace_id]["held_up_ns"]
        )

    @property
    def latest(self) -> Analysis | None:
        """The rank for which the others waited longest; None: no waits."""
        rank = self.by_wait[0]
        return rank if self.waits[rank.trace.trace_id]["held_up_ns"] else None

    @cached_property
    def clock_doubt(self) -> str | None:
        """A sentence if collectives do not end together, which makes waits doubtful; else None."""
        worst = max(self.rows("rank_clocks")["residual_ns"], default=0)
        calls = sum(wait["collectives"] for wait in self.waits.values())
        return clock_doubt(sum(wait["waited_ns"] for wait in self.waits.values()), calls, worst)

    # -- the first screen

    @property
    def headline(self) -> str:
        counted = f"{len(self)} {self.noun}"
        if self.latest is None or self.clock_doubt:
            return counted
        return f"{counted}: the others wait most for {self.names[self.latest.trace.trace_id]}"

    @property
    def listed(self) -> str:
        """The heading of the ranks on the first screen."""
        if self.latest is not None and not self.clock_doubt:
            return "The last to arrive"
        return self.noun.capitalize() if len(self) <= _FIRST else f"The first {_FIRST} {self.noun}"

    @property
    def first(self) -> list[Analysis]:
        """The ranks on the first screen, for which the others waited longest."""
        return (self.by_wait if self.met else self.analyses)[:_FIRST]

    @cached_property
    def summary(self) -> list[str]:
        """Sentences on the bounds of the traces and on the length of their steps."""
        sentences = [several.summary(self.analyses)]
        lengths = [step.window.span_ns for analysis in self.analyses for step in analysis.steps]
        if self.together is not None and self.together.steps and self.together.step_ns is not None:
            steps = f": the median of {self.together.steps:,}" if self.together.steps > 1 else ""
            sentences.append(f"A step of the run takes {duration(self.together.step_ns)}{steps}.")
        elif lengths:
            sentences.append(
                f"A step takes {duration(median(lengths))}: the median of "
                f"{counted(len(lengths), 'step')}, from {duration(min(lengths))} to "
                f"{duration(max(lengths))}."
            )
        return sentences

    @cached_property
    def reasons(self) -> list[str]:
        """The verdict's sentences on the rank for which the others wait."""
        if self.together is None:
            return no_verdict(self.no_run, self.analyses)
        if not self.met:
            return []
        return self._by_cost([*self.together.why, *self.together.unknown])

    def _by_cost(self, sentences: Sequence[str]) -> list[str]:
        """The first sentence, which is on the run; then those on one rank, by how long the others
        wait for it; then the rest."""
        cost = {each.trace.rank: self.waits[each.trace.trace_id] for each in self.analyses}

        def held_up(sentence: str) -> int:
            numbers = {int(number) for number in _RANK.findall(sentence)}
            return cost[numbers.pop()]["held_up_ns"] if len(numbers & {*cost}) == 1 else -1

        first, rest = list(sentences[:1]), sentences[1:]
        ordered = sorted(rest, key=held_up, reverse=True)
        if ordered != list(rest):
            # Its "it" was what the sentence before told.
            ordered = [_OF_IT.sub("% of all waiting is", each) for each in ordered]
        return first + ordered


def in_order_of_interest(database: Session) -> list[int]:
    """The trace_ids of a database: the first rank, then those for which the others wait longest."""
    ranks = {row["trace_id"]: row["rank"] for row in database.ask("overview")}
    held_up = dict.fromkeys(ranks, 0)
    for row in database.ask("stragglers", top=MOST_ROWS):
        held_up[row["trace_id"]] += row["held_up_ns"]
    by_rank = sorted(ranks, key=lambda trace: _by_rank(ranks[trace], trace))
    return by_rank[:1] + sorted(by_rank[1:], key=lambda trace: -held_up[trace])


def _by_rank(rank: int | None, trace_id: int) -> tuple[bool, int, int]:
    return rank is None, rank or 0, trace_id


def step_number(step: str) -> int | None:
    """The number of a profiler step, such as 3 in ProfilerStep#3."""
    number = step.rpartition("#")[2]
    return int(number) if number.isdecimal() else None
