"""What a run's fix list promises of the remedies that a probe can apply by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tracekit.advice.catalogue import catalogue
from tracekit.advice.model import Advice, FixList
from tracekit.replay.whatif import Replay
from tracekit.run import Database
from tracekit.text import percent
from tracekit.thresholds import Thresholds

GRAPH, COMPILE, TENSOR_CORES = "cuda-graph", "torch-compile", "tensor-cores"
BATCH, WORKERS = "larger-batch", "dataloader-workers"
# Of the formats that use tensor cores, the one that needs no edit of the program.
_TF32 = "tf32"


@dataclass(frozen=True)
class Promise:
    """What remedies are said to save: a share of the window, and where the number is from.

    None: the list does not advise them.
    """

    share: float | None
    arithmetic: str

    def step_ns(self, unchanged_ns: int) -> int | None:
        """The promised length of a step that now takes `unchanged_ns`."""
        return None if self.share is None else round(unchanged_ns * (1 - self.share))


class Promises:
    """A fix list, asked about remedies that apply to the whole step, wherever it names them."""

    def __init__(
        self, fixes: FixList | None, reason: str, price: Callable[[Sequence[str]], float]
    ) -> None:
        """Args:
        fixes: the list; None: nothing can be advised, and `reason` says why.
        price: the share of the window that several changes save together.
        """
        self._fixes, self._reason, self._price = fixes, reason, price

    def of(self, *remedies: str) -> Promise:
        """What the remedies save together, at all places that the list names."""
        found = [each for remedy in remedies for each in self._advised(remedy)]
        if not found:
            return Promise(None, self._why_not(remedies))
        names = " and ".join(dict.fromkeys(each.remedy for each in found))
        if len(found) == 1:
            share = found[0].share or 0.0
            return Promise(share, f"{names} saves {percent(share)}, says the list")
        share = self._price([each.change for each in found if each.change])
        text = f"{names} at {len(found)} places" if len(found) > len(set(remedies)) else names
        return Promise(share, f"{text}, replayed together: {percent(share)} less")

    def times(self) -> int | None:
        """How many times larger the advised batch is; None: no batch is advised."""
        changes = [each.change or "" for each in self._advised(BATCH)]
        found = re.fullmatch(r"batch\*(\d+)", changes[0]) if changes else None
        return int(found[1]) if found else None

    def workers(self) -> int | None:
        """How many worker processes keep up; None: none are advised."""
        details = [each.detail or "" for each in self._advised(WORKERS)]
        needed = [int(found[0]) for each in details if (found := re.match(r"\d+", each))]
        return max(needed, default=None)

    def others(self, applied: Collection[str]) -> list[str]:
        """The remedies of the program's step that are not among those applied, most worth first."""
        known = catalogue()
        names = dict.fromkeys(each.remedy for each in self._list())
        return [each for each in names if each not in applied and not known[each].is_apart]

    def _list(self) -> list[Advice]:
        return [each for each in self._fixes.advice if not each.once] if self._fixes else []

    def _advised(self, remedy: str) -> list[Advice]:
        found = [each for each in self._list() if each.remedy == remedy]
        if remedy == TENSOR_CORES:
            return [each for each in found if (each.detail or "").startswith(_TF32)]
        return found

    def _why_not(self, remedies: Sequence[str]) -> str:
        if self._fixes is None:
            return f"not advised: {self._reason}"
        for each in self._fixes.unlooked:
            if set(remedies) <= set(each.remedies):
                return f"not looked for: {each.missing}"
        return "not advised"


def price_together(
    database: Database, trace_id: int, limits: Thresholds
) -> Callable[[Sequence[str]], float]:
    """Prices changes by one replay with all of them, as the list prices one: without one-offs."""

    def price(changes: Sequence[str]) -> float:
        replay = Replay(database, trace_id, limits)
        window = replay.bounds()
        before_ns = window.length(replay.run(steady=True))
        after_ns = window.length(replay.run(*changes, steady=True))
        return 1 - after_ns / before_ns if before_ns else 0.0

    return price
