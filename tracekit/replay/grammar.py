"""Changes as a user writes them: `host*0.5`, `kernel:gemm*0.8`, `cuda-graph`."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import CAUSES
from tracekit.errors import TracekitError

# Aliases of causes and sides.
_ALIASES = {"gpu": "device", "cpu": "host", "network": "communication", "copies": "copy"}
# The kinds of pattern (`kind:PATTERN`), each with the query that finds what matches, and its
# parameters.
PATTERNS: dict[str, tuple[str, dict[str, str]]] = {
    "kernel": ("kernels_named", {}),
    "class": ("kernels_named", {"by": "class"}),
    "operator": ("operators_named", {}),
    "module": ("operators_named", {"of": "module"}),
    "sync": ("syncs_named", {}),
}
# The change that removes one-offs.
STEADY = "steady"
# The change that makes the batch larger by a factor.
BATCH = "batch"
# The change that a remedy makes, everywhere or at one call site.
REMEDY = "remedy"
# Changes to a run of several ranks: to one rank, to the late rank, or to a pipeline's waits.
RANK = "rank"
STRAGGLER = "straggler"
BUBBLE = "pipeline-bubble"
HELP = """\
host*K, device*K: all work of a side takes K times as long.
CAUSE*K: launch, dispatch, python, sync, input, allocation, compilation, copy, unrecorded-time,
communication, memory-bandwidth, math, math-or-memory (kernels limited by either) or latency; *0
removes it (sync*0: no call waits for the device).
kernel:NAME*K, class:NAME*K: kernels whose name contains NAME (or matches it, with *, ? or [), or of
such a class.
operator:NAME*K, module:NAME*K: the work in such an operator or module, and the ops launched there.
sync:NAME*0: calls of that name, or in an operator of that name, no longer wait.
cuda-graph: launches are free, as in a graph captured between two synchronizations, but for one in
each marked step.
steady: one-off events take no longer than usual (`tracekit query one_offs`).
fuse, fuse:NAME: neighbouring elementwise operators hand their intermediates over on chip.
batch*K: a batch K times as large: loading and all work of the device take K times as long. The
prediction is the longer step of that batch.
remedy:NAME, remedy:NAME:PLACE: a remedy that `tracekit advise` lists, at all call sites or at one.
For traces of a run's ranks, a change applies to all ranks, and there are further changes:
rank:N:CHANGE: a change of rank N alone, such as rank:6:host*0.5.
straggler*K: the rank for which the others wait longest differs K times as much from its peers; with
*0, it takes as long as they do. rank:N:straggler*K: the same for another rank.
network*K: collectives take K times as long once all ranks have come.
pipeline-bubble*0: no stage of a pipeline waits for another one."""


class Change(Struct, frozen=True):
    """One change: its target, and the factor on the target's measured time."""

    text: str
    what: str
    pattern: str | None = None
    factor: float = 0.0
    rank: int | None = None
    """The only rank of a run that it concerns; None: all."""


def times(**factors: float) -> list[Change]:
    """Changes of sides, causes, or `unknown` waits by these factors, such as `host=0.5`."""
    return [Change("", what, None, factor) for what, factor in factors.items()]


def parse_of_run(text: str) -> Change:
    """Parses a change to a run of several ranks.

    Raises:
        TracekitError: the text is not a change.
    """
    rank, rest = None, text.strip()
    if rest.startswith(f"{RANK}:"):
        number, colon, rest = rest.removeprefix(f"{RANK}:").partition(":")
        if not colon or not re.fullmatch(r"\d{1,9}", number):
            raise TracekitError(f"{text!r} is not a change: write rank:N:CHANGE: rank:6:host*0.5")
        rank = int(number)
    if re.fullmatch(r"pipeline-bubble\*0+(\.0*)?", rest) and rank is None:
        return Change(text, BUBBLE)
    found = re.fullmatch(r"straggler\*(\d+(\.\d*)?|\.\d+)", rest)
    if found:
        return Change(text, STRAGGLER, None, float(found[1]), rank)
    return replace(parse(rest, of_run=True), text=text, rank=rank)


def parse(text: str, of_run: bool = False) -> Change:
    """Parses a change as a user writes it.

    Raises:
        TracekitError: the text is not a change.
    """
    what, colon, rest = text.strip().partition(":")
    if what in ("cuda-graph", STEADY) and not colon:
        return Change(text, what)
    if what == "fuse" or (what == REMEDY and rest):
        return Change(text, what, rest or None)
    if not of_run and re.match(rf"({RANK}:|{STRAGGLER}\*|{BUBBLE}\*)", text.strip()):
        raise TracekitError(f"{text!r} changes a run of several ranks: give their folder or DB")
    body, star, number = (rest if colon else what).rpartition("*")
    if not star or not re.fullmatch(r"\d+(\.\d*)?|\.\d+", number):
        raise TracekitError(
            f"{text!r} is not a change: write WHAT*FACTOR, such as host*0.5 or kernel:gemm*0.8, "
            f"cuda-graph, steady, fuse or {REMEDY}:NAME of the fix list"
        )
    factor = float(number)
    if not factor < 1e6:
        raise TracekitError(f"{text!r}: the factor is the new time as a multiple of the old one")
    if colon:
        if what not in PATTERNS or not body:
            kinds = ", ".join(f"{kind}:NAME" for kind in [*PATTERNS, REMEDY])
            raise TracekitError(f"{text!r} is not a change: what is named is one of {kinds}")
        if what == "sync" and factor:
            raise TracekitError(f"{text!r}: single synchronizations can be removed (*0), not more")
        return Change(text, what, body, factor)
    name = _ALIASES.get(body, body)
    if name not in ("host", "device", BATCH, *CAUSES) or name == "unknown":
        known = ", ".join(["host", "device", BATCH, *CAUSES[:-1]])
        raise TracekitError(f"{text!r} is not a change: {body!r} is none of {known}, kernel:NAME")
    if name == BATCH and not factor:
        raise TracekitError(f"{text!r}: a batch has at least one sample: take a factor above 0")
    return Change(text, name, None, factor)
