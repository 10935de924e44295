"""Evidence that a verdict rests on, built by keyword without a trace, and cases of verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import words
from tracekit.evidence.model import (
    Clocks,
    Collectives,
    Evidence,
    Finding,
    Gpu,
    HostThread,
    Idle,
    Launch,
    Period,
    WaitingRank,
    Window,
)
from tracekit.evidence.run import RankEvidence, RunEvidence
from tracekit.evidence.units import UnitGroup
from tracekit.replay.model import Causal, Gains
from tracekit.replay.one_offs import OneOff
from tracekit.thresholds import Thresholds
from tracekit.verdict import judge as judging
from tracekit.verdict.model import Verdict

MS = 1_000_000
SPAN_NS = 100 * MS
# The words of queries/words.csv: tests say which of them a sentence has, so a word is changed there
# alone.
HOST_DOES, DEVICE_DOES, LIMITS, TURNS_ARE = (
    words(kind) for kind in ("host_does", "device_does", "device_limits", "takes_turns")
)


class Judged(Struct, frozen=True, kw_only=True):
    """A case of a verdict: the evidence, and what the verdict on it is, has and lacks; None: it
    does not matter here."""

    evidence: Evidence
    regime: str | None = None
    bottleneck: str | None = None
    confidence: str | None = None
    begins: str = ""
    """How the first sentence begins."""
    notes: Sequence[str] = ()
    """Sentences beside it."""
    says: Sequence[str] = ()
    """Words that the sentences have."""
    lacks: Sequence[str] = ()
    """Words that they do not have."""

    def check(self) -> None:
        """Fails where the verdict is another one."""
        verdict = judge(self.evidence)
        expected = (self.regime, self.bottleneck, self.confidence)
        found = (verdict.regime, verdict.bottleneck, verdict.confidence)
        lists = (verdict.notes, verdict.why, verdict.doubts, verdict.try_next)
        text = " ".join([verdict.headline, *(each for listed in lists for each in listed)])
        assert any(expected) or self.begins or self.notes or self.says or self.lacks, (
            "nothing is expected"
        )
        assert [a or b for a, b in zip(expected, found, strict=True)] == [*found]
        assert verdict.headline.startswith(self.begins), verdict.headline
        assert [note for note in self.notes if note not in verdict.notes] == [], verdict.notes
        assert [words for words in self.says if words not in text] == [], text
        assert [words for words in self.lacks if words in text] == []


def judge(evidence: Evidence, thresholds: Thresholds | None = None) -> Verdict:
    """The verdict on evidence."""
    return judging.judge(evidence, thresholds or Thresholds())


# -- evidence --------------------------------------------------------------------------------------


def evidence(
    *,
    busy: float = 0.5,
    ops: int = 1000,
    host_gain: float = 0.0,
    device_gain: float = 0.0,
    removed: dict[str, float] | None = None,
    unknown: float = 0.0,
    flip: float | None = 2.0,
    work: dict[str, int] | None = None,
    recorder_ns: int | None = None,
    shift_ns: int = 0,
    health: Sequence[str | Finding] = (),
    **context: Any,
) -> Evidence:
    """A window of 100 ms: the device works for the share `busy` of it, and waits for the host in
    the rest. Gains are shares of the window, too. `context` has other fields of `Evidence`
    and of its period."""
    busy_ns = round(busy * SPAN_NS)
    late_ns = SPAN_NS - busy_ns
    ranked = dict(sorted((removed or {}).items(), key=lambda item: -item[1]))
    untraced_ns = min(late_ns, round(ranked.get("unrecorded-time", 0.0) * SPAN_NS))
    causes = {"untraced": untraced_ns, "python": late_ns - untraced_ns}
    gains = Gains(
        window_ns=SPAN_NS - (recorder_ns or 0), host=host_gain, device=device_gain, removed=ranked,
        cuda_graph=host_gain, unknown=unknown, work_ns=work or {}, recorder_ns=recorder_ns,
    )  # fmt: skip
    usual_period = {
        "window": WINDOW,
        "gpu": gpu(ops=ops, busy_ns=busy_ns, idle_ns=late_ns),
        "idle": idle(host_late_ns=late_ns, causes=causes),
        "gains": gains,
    }
    of_period = {name: context.pop(name) for name in usual_period.keys() & context.keys()}
    usual = {
        "period": Period(**(usual_period | of_period)),
        "launch": launch(count=ops),
        "ops": ops,
        "flip": flip,
        "clock_shift_ns": shift_ns,
        "health": [finding(each) if isinstance(each, str) else each for each in health],
    }
    return Evidence(**(usual | context))


def host_evidence(
    *,
    compute_ms: int,
    dispatch_ms: int = 0,
    python_ms: int = 0,
    untraced_ms: int = 0,
    launches: int = 0,
) -> Evidence:
    """A window of 100 ms of a host without a device."""
    host = HostThread(
        operators=50, launches=launches, compute_ns=compute_ms * MS, dispatch_ns=dispatch_ms * MS,
        view_ns=0, python_ns=python_ms * MS, input_ns=0, compilation_ns=0, runtime_ns=0,
        untraced_ns=untraced_ms * MS,
    )  # fmt: skip
    return Evidence(period=Period(window=WINDOW, host=host), ops=50)


def run_evidence(*ranks: RankEvidence, length_ns: int = SPAN_NS, **context: Any) -> RunEvidence:
    """A run of 100 ms, in whose collectives all ranks together wait for the time that these are
    awaited, of two ranks by default; each but the first waits for the first. `context` has other
    fields of `RunEvidence`."""
    ranks = ranks or (rank(0), rank(1))
    awaited_ns = round(sum(each.awaited_ns for each in ranks))
    waiting = [
        WaitingRank(
            rank=each.rank, trace_id=each.trace_id, waited_ns=awaited_ns,
            awaited_rank=ranks[0].rank, awaited_trace_id=ranks[0].trace_id, awaited_ns=awaited_ns,
            length_ns=length_ns,
        )
        for each in ranks
    ]  # fmt: skip
    usual = {
        "thresholds": Thresholds(), "ranks": ranks, "world_size": len(ranks), "step_ns": length_ns,
        "span_ns": length_ns, "waiting": waiting, "collectives": collectives(waited_ns=awaited_ns),
        "clocks": Clocks(apart_ns=0, residual_ns=0, compared=len(ranks), ranks=[]),
    }  # fmt: skip
    return RunEvidence(**(usual | context))


# -- parts of it -----------------------------------------------------------------------------------


def window(kind: str, name: str, start_ns: int, end_ns: int) -> Window:
    """A window by its ends."""
    span_ns = end_ns - start_ns
    return Window(kind=kind, name=name, start_ns=start_ns, end_ns=end_ns, span_ns=span_ns)


def period(window: Window, regime: str, cause: str | None = None, **context: Any) -> Period:
    """A window of the trace, judged."""
    return Period(window=window, regime=regime, bottleneck=cause, **context)


def gpu(*, ops: int = 1000, busy_ns: int, comm_ns: int = 0, idle_ns: int) -> Gpu:
    """A device whose ops are all launched kernels."""
    return Gpu(
        device_id=0, kernels=ops, gpu_ops=ops, linked=ops, busy_ns=busy_ns,
        compute_ns=busy_ns - comm_ns, exposed_comm_ns=comm_ns, exposed_memcpy_ns=0, idle_ns=idle_ns,
    )  # fmt: skip


def idle(
    *, host_late_ns: int, device_ns: int = 0, unlinked_ns: int = 0, causes: dict[str, int]
) -> Idle:
    """Idle time by reason: a host that is ready in time would save all of `host_late_ns`."""
    return Idle(
        host_late_ns=host_late_ns, device_ns=device_ns, device_in_launch_ns=0,
        unlinked_ns=unlinked_ns, after_last_op_ns=0, causes=causes, waits_for_host_ns=host_late_ns,
    )  # fmt: skip


def late_for(*, python_ms: int = 0, untraced_ms: int = 0, device_ms: int = 0) -> Idle:
    """Idle time in which the host is late: it runs Python, or nothing was recorded."""
    causes = {"python": python_ms * MS, "untraced": untraced_ms * MS}
    return idle(host_late_ns=sum(causes.values()), device_ns=device_ms * MS, causes=causes)


def launch(
    *, count: int = 1000, delay_ns: int = 6000, call_ns: int = 5000, queue_depth: int = 1
) -> Launch:
    """How launches reach the device: by default, the device waits for each."""
    return Launch(
        count=count, delay_p50_ns=delay_ns, delay_p90_ns=9000, first_delay_p50_ns=delay_ns,
        launch_call_p50_ns=call_ns, queue_depth_p50=queue_depth, dispatch_per_launch_ns=10_000,
    )  # fmt: skip


def finding(
    code: str,
    message: str = "something",
    *,
    severity: str = "warning",
    count: int = 1,
    time_ns: int | None = None,
) -> Finding:
    """A problem of the trace."""
    return Finding(code=code, severity=severity, message=message, count=count, time_ns=time_ns)


def rank(number: int, **fields: Any) -> RankEvidence:
    """A rank of a run, which begins with the others."""
    return RankEvidence(**({"rank": number, "trace_id": number + 1, "begins_ns": 0} | fields))


def collectives(*, waited_ns: int, exchanges: int = 0) -> Collectives:
    """Ten collectives that take 5 ms on the wire."""
    return Collectives(
        count=10, exchanges=exchanges, matched_by={"sequence number": 10}, left_out=0,
        waited_ns=waited_ns, wire_ns=5 * MS, bandwidth=[],
    )  # fmt: skip


def with_period(evidence: Evidence, **fields: Any) -> Evidence:
    """The evidence with other fields of its period."""
    return replace(evidence, period=replace(evidence.period, **fields))


def with_gains(evidence: Evidence, **gains: Any) -> Evidence:
    """The evidence with other gains."""
    return with_period(evidence, gains=replace(evidence.period.gains, **gains))


def with_links(evidence: Evidence, *links: dict[str, Any]) -> Evidence:
    """The evidence with these links of the critical path."""
    return replace(evidence, links=[*links])


def causal_of(evidence: Evidence) -> Causal | None:
    """What the evidence has of the replays, as an analysis has it."""
    if evidence.period.gains is None:
        return None
    return Causal(
        gains=evidence.period.gains, flip=evidence.flip, undilated=None, path={"python": 1.0},
        links=[*evidence.links], clock_shift_ns=evidence.clock_shift_ns, edges_left_out=0,
    )  # fmt: skip


def one_off(**fields: Any) -> OneOff:
    """A call of 1 ms on the host that happened once."""
    usual = {
        "kind": "stretch", "event_id": 1, "start_ns": 0, "dur_ns": MS, "usual_ns": 0,
        "excess_ns": MS, "cause": "python", "name": "load", "begin": 0, "end": MS,
    }  # fmt: skip
    return OneOff(**(usual | fields))


# -- usual ones ------------------------------------------------------------------------------------

WINDOW = window("gpu_active", "GPU-active span", 0, SPAN_NS)
STEP = window("step", "ProfilerStep#1", 0, SPAN_NS)
# A trace that is far longer than the span of its GPU ops.
LONG = window("trace", "whole trace", -150 * MS, SPAN_NS + 200 * MS)
ONE_STEP = UnitGroup(
    group=0, kind="step", source="mark", name=STEP.name, count=1, whole=1, cold=0, start_ns=0,
    end_ns=SPAN_NS, first_ns=SPAN_NS, min_ns=SPAN_NS, median_ns=SPAN_NS, max_ns=SPAN_NS, trend=None,
    passes=5, requests=None, tokens=None, is_main=True,
)  # fmt: skip
CUT = finding("truncated", "the end is missing: it stops inside an event", severity="error")
# The host is late, for Python.
LATE = {"busy": 0.1, "host_gain": 0.45}
PYTHON = LATE | {"removed": {"python": 0.8}}
TURNS = {"busy": 0.47, "host_gain": 0.26, "device_gain": 0.23, "removed": {"input": 0.5}}
SPLIT = {"communication": 0.13, "memory-bandwidth": 0.11, "math": 0.08}
RECORDED = {
    "busy": 0.83, "recorder_ns": 8 * MS, "work": {"memory-bandwidth": 50 * MS},
    "health": [finding("recorder_cost", "recording took about 8 % of it", severity="info",
                       time_ns=8 * MS)],
}  # fmt: skip
