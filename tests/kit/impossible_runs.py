"""What no verdict on several ranks may say. Rules of tests/kit/impossible.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.kit.answered import PERCENT, Answer, percent_of, rows_after

Rule = Callable[[Answer], Iterator[str]]

_OF_STAGE = ("work_ns", "fill_ns", "between_ns", "drain_ns", "rest_ns")


def ranks_wait_no_longer_than_they_run(answer: Answer) -> Iterator[str]:
    """A rank waits for less than its length, and for one rank no longer than for all."""
    run = answer.run or {}
    for each in run.get("waiting", []):
        if not each["awaited_ns"] <= each["waited_ns"] <= each["length_ns"]:
            yield f"rank {each['rank']} waits for {each['waited_ns']:,} ns: {each}"
    waited = sum(each["waited_ns"] for each in run.get("waiting", []))
    late_ranks = [each for each in run.get("late_ranks", []) if not each["in_pipeline"]]
    for late in late_ranks if waited else []:
        if late["held_up_ns"] > waited:
            yield f"rank {late['rank']} held the others up for more than they waited: {late}"
    held_up = sum(late["held_up_ns"] for late in late_ranks)
    # Each rank's wait is rounded.
    if waited and held_up > waited + len(late_ranks):
        yield f"the others wait {held_up:,} ns for late ranks, of {waited:,} ns"
    lengths = sum(each["length_ns"] for each in run.get("waiting", []))
    if lengths and run["bubble_ns"] > lengths:
        yield f"the bubble is {run['bubble_ns']:,} ns of {lengths:,}"


def stages_add_up(answer: Answer) -> Iterator[str]:
    """What a stage of a pipeline does in a step adds up to the same step on all of them."""
    pipeline: dict[str, Any] = (answer.run or {}).get("pipeline") or {}
    stages = pipeline.get("ranks", [])
    sums = [sum(each[part] for part in _OF_STAGE) for each in stages]
    # Each part is rounded.
    if sums and max(sums) - min(sums) > len(_OF_STAGE):
        yield f"stages have steps of {min(sums):,} to {max(sums):,} ns"
    for each in stages:
        if min(each[part] for part in _OF_STAGE) < 0:
            yield f"a part of a stage is negative: {each}"
    idle = [each["fill_ns"] + each["between_ns"] + each["drain_ns"] for each in stages]
    if idle and not min(idle) == pipeline["least_idle_ns"] <= pipeline["idle_ns"] <= max(idle):
        yield f"stages idle for {min(idle):,} to {max(idle):,} ns: {pipeline['idle_ns']:,}"


def tables_of_a_run_add_up(answer: Answer) -> Iterator[str]:
    """The column of waits adds up to 100 %, and so does each stage of a pipeline."""
    head = re.search(r"^.*\(of all waiting\)$", answer.several, re.M)
    rows = [re.findall(PERCENT, line) for line in rows_after(answer.several, head)]
    # The last line may sum up what is not listed.
    waits = [
        percent_of(each)
        for row, line in zip(rows, rows_after(answer.several, head), strict=True)
        for each in (row if line.startswith("...") else row[-1:])
    ]
    if any(waits) and abs(sum(waits) - 100) > 0.05 * len(waits) + 0.06:
        yield f"the column of waits adds up to {sum(waits):.1f} %"
    head = re.search(r"^Stages of the pipeline.*\n.*$", answer.several, re.M)
    for line in rows_after(answer.several, head):
        shares = [percent_of(each) for each in re.findall(PERCENT, line)]
        if shares and abs(sum(shares) - 100) > 0.05 * len(shares) + 0.06:
            yield f"a stage adds up to {sum(shares):.1f} %: {line}"


RULES: tuple[Rule, ...] = (
    ranks_wait_no_longer_than_they_run,
    stages_add_up,
    tables_of_a_run_add_up,
)
