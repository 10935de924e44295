"""The syntax of changes: `host*0.5`, `kernel:gemm*0.8`, `cuda-graph`."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import CAUSES
from tracekit.errors import TracekitError

# Aliases of causes and sides.
_ALIASES = {"gpu": "device", "cpu": "host", "network": "communication", "copies": "copy"}
# The kinds of patterns (`kind:PATTERN`), each with the query that finds the matches, and its
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
# The change that multiplies the batch by a factor.
BATCH = "batch"
# A remedy's change, everywhere or at one call site.
REMEDY = "remedy"
# Changes to a run of several ranks: to one rank, to the late rank, or to a pipeline's waits.
RANK = "rank"
STRAGGLER = "straggler"
BUBBLE = "pipeline-bubble"
HELP = """\
host*K, device*K: all work on a side takes K times as long.
CAUSE*K: launch, dispatch, python, sync, input, allocation, compilation, copy, host-function,
unrecorded-time, communication, memory-bandwidth, math, math-or-memory (kernels limited by either)
or latency; *0 removes it (sync*0: no call waits for the device).
kernel:NAME*K, class:NAME*K: kernels whose name or class contains NAME (or matches it, with *, ?
or [).
operator:NAME*K, module:NAME*K: the work inside the operator or module, and the ops launched there.
sync:NAME*0: calls with that name, or inside an operator with that name, no longer wait.
cuda-graph: launches are free, as in a graph captured between two synchronizations, except one per
marked step.
steady: one-off events take no longer than usual (`tracekit query one_offs`).
fuse, fuse:NAME: neighboring elementwise operators hand their intermediates over on chip.
batch*K: a batch K times as large: loading and all device work take K times as long. The prediction
is the (longer) step of that batch.
remedy:NAME, remedy:NAME:PLACE: a remedy that `tracekit advise` lists, at all call sites or at one.
For traces of a run's ranks, these changes apply to all ranks, and there are further ones:
rank:N:CHANGE: a change on rank N only, such as rank:6:host*0.5.
straggler*K: the rank for which the others wait longest differs from its peers K times as much; with
*0, it takes as long as they do. rank:N:straggler*K: the same for rank N.
network*K: collectives take K times as long once all ranks have arrived.
pipeline-bubble*0: pipeline stages do not wait for each other."""


class Change(Struct, frozen=True):
    """A change: its target, and the factor on the target's measured time."""

    text: str
    what: str
    pattern: str | None = None
    factor: float = 0.0
    rank: int | None = None
    """The rank that it changes; None: all."""


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
            raise TracekitError(
                f"{text!r} is not a change: write rank:N:CHANGE, such as rank:6:host*0.5"
            )
        rank = int(number)
    if re.fullmatch(r"pipeline-bubble\*0+(\.0*)?", rest) and rank is None:
        return Change(text, BUBBLE)
    match = re.fullmatch(r"straggler\*(\d+(\.\d*)?|\.\d+)", rest)
    if match:
        return Change(text, STRAGGLER, None, float(match[1]), rank)
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
        raise TracekitError(
            f"{text!r} applies to a run of several ranks: give the ranks' folder or DB"
        )
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
            raise TracekitError(
                f"{text!r} is not a change: the kind before the colon must be one of {kinds}"
            )
        if what == "sync" and factor:
            raise TracekitError(f"{text!r}: single synchronizations can only be removed (*0)")
        return Change(text, what, body, factor)
    name = _ALIASES.get(body, body)
    if name not in ("host", "device", BATCH, *CAUSES) or name == "unknown":
        names = ", ".join(["host", "device", BATCH, *CAUSES[:-1]])
        raise TracekitError(f"{text!r} is not a change: {body!r} is none of {names}, kernel:NAME")
    if name == BATCH and not factor:
        raise TracekitError(f"{text!r}: a batch has at least one sample: use a factor above 0")
    return Change(text, name, None, factor)
