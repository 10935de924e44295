"""What to try next for each bottleneck, and the fix list of a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracekit.evidence.model import HostThread, Launch, Trace
from tracekit.text import duration, percent
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Verdict
from tracekit.verdict.regime import UNKNOWN

if TYPE_CHECKING:
    from tracekit.advice.model import AdvisedWindow, FixList
    from tracekit.database.session import Session
    from tracekit.replay.prices import WindowGains

NEXT = {
    "launch": "Launch less: capture the step as a CUDA graph "
    "(torch.compile(mode='reduce-overhead')), or fuse kernels.",
    "dispatch": "Dispatch less: torch.compile the model, or use fused and foreach operators.",
    "python": "Keep Python out of the loop: torch.compile, or move per-step logic out of it.",
    "sync": "Remove synchronisation from the loop: .item(), .cpu(), print of a tensor, "
    "torch.cuda.synchronize().",
    "copy": "Copy from pinned memory with non_blocking=True, on a separate stream.",
    "input": "Prefetch input: more DataLoader workers, a larger prefetch_factor, pinned memory; "
    "compute on the device what operators compute on the host.",
    "allocation": "Let the caching allocator settle: warm up before measuring, keep sizes stable, "
    "or set expandable_segments:True.",
    "compilation": "Compile before measuring: warm up with every shape that the run uses.",
    "communication": "Overlap communication with compute: larger buckets, an earlier start, "
    "or a different sharding.",
    "memory-bandwidth": "Move fewer bytes: fuse neighbouring elementwise kernels, use a smaller "
    "dtype, or, where matrix products read weights for few tokens, a larger batch.",
    "math": "Do less arithmetic, or do it in a faster dtype; faster kernels pay off here.",
    "math-or-memory": "Faster kernels pay off here. Record shapes (record_shapes=True) to learn "
    "whether they need less arithmetic or fewer bytes.",
    "latency": "Give each kernel more work, or fuse small ones; `tracekit query idle_gaps` lists "
    "the longest gaps.",
}

# The same for a run whose shapes are recorded already.
_SHAPED = {
    "math-or-memory": "Faster kernels pay off here. The recorded shapes do not tell whether they "
    "need less arithmetic or fewer bytes: profile the longest (`tracekit query top_kernels`) with "
    "the device's kernel profiler, such as Nsight Compute.",
}

# For runs whose GPU ops mostly run in CUDA graphs already.
_CAPTURED = {
    "launch": "Most GPU ops run in CUDA graphs already: capture what is launched outside them, "
    "or replay larger graphs.",
    "dispatch": "Most GPU ops run in CUDA graphs already: move the operators between the replays "
    "into the graphs.",
    "python": "Most GPU ops run in CUDA graphs already: move per-step logic out of the loop.",
}

# And for runs whose kernels torch.compile has mostly written already.
_COMPILED = {
    "launch": "Launch less: the model is compiled; mode='reduce-overhead' also captures it as a "
    "CUDA graph.",
    "dispatch": "Dispatch less: the model is compiled; mode='reduce-overhead' also captures it as "
    "a CUDA graph. `tracekit query top_cpu_ops` lists the operators that are left.",
    "python": "Keep Python out of the loop: the model is compiled, so move per-step logic out of "
    "the loop, and look for graph breaks.",
    "memory-bandwidth": "Move fewer bytes: torch.compile has fused what it can, so use a smaller "
    "dtype, or, where matrix products read weights for few tokens, a larger batch.",
}

# For a host whose waits for others are mostly for other workers.
STAGES = (
    "Overlap the stages: send the next micro-batch before the answer to the last one is there, "
    "with more and smaller micro-batches, and share the work so that no worker holds up the others."
)


def waits_for_workers(host: HostThread) -> bool:
    """Whether most of a host's communication is calls of other workers."""
    return 2 * host.remote_ns > host.communication_ns


def is_captured(launch: Launch | None, thresholds: Thresholds) -> bool:
    """Whether most GPU ops run in CUDA graphs."""
    return launch is not None and launch.graph_share > thresholds.captured_majority


def next_step(
    bottleneck: str, launch: Launch | None, thresholds: Thresholds, *, shaped: bool = False
) -> str:
    """What to try next, without what the run does already."""
    if shaped and bottleneck in _SHAPED:
        return _SHAPED[bottleneck]
    if is_captured(launch, thresholds) and bottleneck in _CAPTURED:
        return _CAPTURED[bottleneck]
    compiled = launch.compiled_share if launch is not None else None
    if compiled is not None and compiled > thresholds.captured_majority and bottleneck in _COMPILED:
        return _COMPILED[bottleneck]
    return NEXT[bottleneck]


def fix_list(
    gains: WindowGains,
    judged: AdvisedWindow,
    trace: Trace,
    thresholds: Thresholds,
    *,
    combine: bool,
) -> FixList:
    """What could be changed in the window that is judged."""
    from tracekit.advice.find import find

    findings = [(each.code, each.severity, each.message) for each in trace.health]
    found = find(gains, judged, findings, thresholds, combine=combine)
    return replace(found, trace=trace.path)


def list_notes(
    fixes: FixList, verdict: Verdict, database: Session, trace_id: int, thresholds: Thresholds
) -> list[str]:
    """How the fix list and the bottleneck go together; of an empty list, what is left."""
    recurring = [each for each in fixes.advice if not each.once]
    if not recurring and verdict.regime == UNKNOWN:
        return verdict.try_next
    if not recurring:
        return [
            "No remedy that tracekit knows would save 1 % of the window or more.",
            *_reached(database, trace_id, thresholds),
        ]
    saving = next((each for each in verdict.savings if each.remove == verdict.bottleneck), None)
    first = recurring[0]
    if saving is None or first.cause == verdict.bottleneck or not saving.saves_at_most_ns:
        return []
    most = f"{duration(saving.saves_at_most_ns)} if it were removed whole"
    if any(each.cause == verdict.bottleneck for each in recurring):
        return [
            f"The bottleneck, {verdict.bottleneck}, would save {most}; {first.remedy}, against "
            f"{first.cause}, saves more than what was found against it."
        ]
    return [
        f"The bottleneck, {verdict.bottleneck}, would save {most}, but no remedy against it was "
        f"found; {first.remedy} is against {first.cause}."
    ]


def _reached(database: Session, trace_id: int, thresholds: Thresholds) -> list[str]:
    """How near the device is to its peak in matrix products, if enough of its work tells."""
    rows = database.ask("mfu", trace=trace_id, kind="gpu_active")
    least = thresholds.shaped_work_share
    known = [row for row in rows if row["share_of_peak"] and (row["share_counted"] or 0) >= least]
    if not known:
        return []
    row = known[0]
    return [
        f"Matrix products reach {percent(row['share_of_peak'])} of the device's peak over the "
        f"GPU-active span ({percent(row['share_counted'])} of kernel time is counted)."
    ]
