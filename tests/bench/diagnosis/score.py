"""Compares the known facts of a case with a tool's answer."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

REGIMES = ("overhead-bound", "compute-bound", "unknown")
# In tracekit's words; another tool's words are mapped to them if they mean the same.
CAUSES = (
    "launch", "dispatch", "python", "unrecorded-time", "sync", "input", "allocation", "compilation",
    "communication", "copy", "memory-bandwidth", "math", "math-or-memory", "latency",
)  # fmt: skip
LEVELS = ("none", "low", "medium", "high")
NOTHING = "none"
# Kinds of cases in which one remedy must be silent.
SILENT = ("mended", "look-alike")
# The labels' words for changes whose remedies have other names: a label's word stands for each.
# Those without a name: a graph of the work between two waits used to be a remedy of its own.
_RENAMED = {
    "mixed_precision": ["tensor_cores", "mixed_precision"], "preprocessing": ["dataloader_workers"],
    "tensors_on_device": ["create_on_device"], "model_on_device": ["model_on_cpu"],
    "larger_batch": ["larger_batch", "decode_batch"], "cuda_graph_parts": [],
}  # fmt: skip
# A price is right within this share of the true saving.
PRICE = 0.15
# Savings this close are equal, and a first line of advice below this blames nothing: the share of
# the window by which repeated runs of one program differ.
SMALL = 0.02


@dataclass(frozen=True)
class Case:
    """A trace and the known facts about it. An empty tuple: the case does not ask for it."""

    name: str
    kind: str
    why: str
    regime: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    saves: tuple[float, float] | None = None
    """The saving of the first change: the least and the most, as shares of the window."""
    prices: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The saving by change, if changes save different shares."""
    confidence: str = "high"
    says: tuple[str, ...] = ()
    """Words, one of which must be in the first sentences."""

    @property
    def is_negative(self) -> bool:
        """Whether there is nothing to blame."""
        return self.changes == (NOTHING,) or self.kind in SILENT


def case_of(kind: str, name: str, why: str, **facts: Any) -> Case:
    """A case; several words of a fact are one text, and become today's names of remedies."""
    for key, text in facts.items():
        if isinstance(text, str) and key != "confidence":
            names = (name for word in text.split() for name in _RENAMED.get(word, [word]))
            facts[key] = tuple(dict.fromkeys(names))
    return Case(name, kind, why, **facts)


def labels(reading: str = "real") -> list[Case]:
    """The cases of an expert's reading: of the real traces in real.csv or second.csv, of parts and
    mutations of them in parts.csv; parts_again.csv is another expert's of thirty of these."""
    cases = []
    kind = "part" if reading.startswith("parts") else "real"
    with Path(__file__).with_name(f"{reading}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            bounds = row.pop("saves")
            saves = tuple(map(float, bounds.split(" to "))) if bounds else None
            cases.append(case_of(kind, **row, saves=saves))
    return cases


@dataclass(frozen=True)
class Answer:
    """A tool's answer about a trace. None: it does not say."""

    regime: str | None = None
    cause: str | None = None
    changes: tuple[str, ...] | None = None
    """The remedies it advises, in its order."""
    saves: float | None = None
    """The saving of the first one, as a share of the window."""
    confidence: str | None = None
    alternatives: int = 1
    """The number of remedies that its first line offers as alternatives."""
    sentence: str | None = None
    """Its first sentences, and its doubts about them."""
    error: str | None = None


@dataclass(frozen=True)
class Mark:
    """An answer marked: True, False, or None where the tool or the case says nothing."""

    regime: bool | None
    cause: bool | None
    change: bool | None
    listed: bool | None
    price: float | None
    """The error of the price, as a share of the saving."""
    modest: bool | None
    """Whether its confidence is not too high."""
    alarm: bool | None
    sentence: bool | None
    confidence: str | None

    @property
    def failures(self) -> list[str]:
        """The errors, in words."""
        names = {
            "regime": "regime", "cause": "cause", "change": "first change", "listed": "list",
            "modest": "too sure", "sentence": "first sentence",
        }  # fmt: skip
        wrong = [words for name, words in names.items() if getattr(self, name) is False]
        if self.price is not None and abs(self.price) > PRICE:
            wrong.append(f"price {self.price:+.0%}")
        return wrong + (["false alarm"] if self.alarm else [])


def mark(case: Case, answer: Answer) -> Mark:
    """Compares an answer with the known facts."""
    first = None
    if answer.changes is not None:
        named = answer.changes[: answer.alternatives] or (NOTHING,)
        first = next((each for each in named if each in case.changes), named[0])
    right = _is_in(first, case.changes)
    is_small = answer.saves is not None and answer.saves < SMALL
    if right is False and NOTHING in case.changes and is_small:
        right = True
    listed = None
    if case.listed and answer.changes is not None:
        listed = {*case.listed} <= {*answer.changes}
    return Mark(
        regime=_is_in(answer.regime, case.regime),
        cause=_cause(answer.cause, case.causes),
        change=right,
        listed=listed,
        price=_price(case, answer, first) if right and first else None,
        modest=_is_modest(case, answer),
        alarm=_alarm(case, answer, first, right),
        sentence=_says(answer.sentence, case.says),
        confidence=answer.confidence,
    )


def _says(sentence: str | None, words: tuple[str, ...]) -> bool | None:
    if sentence is None or not words:
        return None
    return any(each in sentence for each in words)


def _is_in(said: str | None, accepted: tuple[str, ...]) -> bool | None:
    return None if said is None or not accepted else said in accepted


def _cause(said: str | None, accepted: tuple[str, ...]) -> bool | None:
    """The answer "math or memory" is right if both are accepted, and counts as no answer if one
    is."""
    if said == "math-or-memory" and said not in accepted:
        fitting = len({"math", "memory-bandwidth"} & set(accepted))
        return {0: False, 1: None, 2: True}[fitting] if accepted else None
    return _is_in(said, accepted)


def _is_modest(case: Case, answer: Answer) -> bool | None:
    if answer.confidence is None:
        return None
    return LEVELS.index(answer.confidence) <= LEVELS.index(case.confidence)


def _price(case: Case, answer: Answer, first: str) -> float | None:
    saves = case.prices.get(first, case.saves)
    if saves is None or answer.saves is None or first not in case.changes or first == NOTHING:
        return None
    least, most = saves
    off = answer.saves - min(max(answer.saves, least), most)
    return 0.0 if abs(off) <= SMALL else off / (least if off < 0 else most)


def _alarm(case: Case, answer: Answer, first: str | None, right: bool | None) -> bool | None:
    """Whether the answer begins with a forbidden one, or blames a healthy run."""
    said = {answer.regime, answer.cause, first} - {None}
    if not said:
        return None
    return bool(said & set(case.never)) or (case.changes == (NOTHING,) and right is False)


# -- tables ----------------------------------------------------------------------------------------

COLUMNS = (
    "tool", "answered", "regime", "cause", "first change", "listed", "price in 15 %",
    "median error", "not too sure", "false alarms", "first sentence", "high", "medium", "low",
)  # fmt: skip


def row(tool: str, marks: Iterable[Mark]) -> list[str]:
    """A tool's line of the table: how many of its answers are right."""
    marks = list(marks)
    prices = [abs(each.price) for each in marks if each.price is not None]
    by_level: defaultdict[str | None, list[bool]] = defaultdict(list)
    for each in marks:
        if each.regime is not None:
            by_level[each.confidence].append(each.regime)
    said = sum(any(v is not None for v in (m.regime, m.cause, m.change)) for m in marks)
    return [
        tool,
        f"{said} of {len(marks)}",
        *(_share([getattr(m, name) for m in marks]) for name in ("regime", "cause", "change")),
        _share([each.listed for each in marks]),
        _share([each <= PRICE for each in prices]),
        f"{100 * median(prices):.1f} %" if prices else "-",
        _share([each.modest for each in marks]),
        _share([each.alarm for each in marks]),
        _share([each.sentence for each in marks]),
        *(_share(by_level[level]) for level in ("high", "medium", "low")),
    ]


def _share(values: Iterable[bool | None]) -> str:
    said = [value for value in values if value is not None]
    return f"{sum(said)} of {len(said)} ({sum(said) / len(said):.0%})" if said else "-"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]], *, is_padded: bool = True) -> str:
    """A Markdown table, padded to be readable as text."""
    cells = [list(columns), *([str(cell) for cell in each] for each in rows)]
    widths = [is_padded * max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    cells.insert(1, ["-" * max(width, 3) for width in widths])
    lines = (" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(f"| {line} |" for line in lines)


def failures(cases: Iterable[Case], answers: dict[str, Answer]) -> list[str]:
    """The errors in a tool's answers: for each case, the label beside the answer."""
    lines = []
    for case in cases:
        answer = answers[case.name]
        wrong = mark(case, answer).failures
        if answer.error:
            wrong = [*wrong, answer.error]
        if not wrong:
            continue
        lines += [
            f"{case.name}: {', '.join(wrong)}",
            f"  known: {_words(case)}",
            f"  said:  {_words(answer)}",
            f"  why:   {case.why}",
        ]
    return lines


def _words(facts: Case | Answer) -> str:
    known = {name: each for name, each in asdict(facts).items() if each not in (None, (), {})}
    return "; ".join(f"{k} {v}" for k, v in known.items() if k not in ("name", "kind", "why"))
