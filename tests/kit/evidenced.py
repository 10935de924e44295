"""Builds the evidence that a verdict rests on by keyword, without a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracekit.evidence.model import Evidence, Finding, Gpu, HostThread, Idle, Launch, Window
from tracekit.replay.model import Causal, Gains
from tracekit.replay.one_offs import OneOff
from tracekit.thresholds import Thresholds
from tracekit.verdict import judge as judging
from tracekit.verdict.model import Verdict

MS = 1_000_000
SPAN_NS = 100 * MS
WINDOW = Window("gpu_active", "GPU-active span", 0, SPAN_NS, SPAN_NS)


def gpu(ops: int, busy_ns: int, comm_ns: int = 0, *, idle_ns: int) -> Gpu:
    """A device whose ops are all launched kernels."""
    return Gpu(
        device_id=0, kernels=ops, gpu_ops=ops, linked=ops, busy_ns=busy_ns,
        compute_ns=busy_ns - comm_ns, exposed_comm_ns=comm_ns, exposed_memcpy_ns=0, idle_ns=idle_ns,
    )  # fmt: skip


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
    """A window of 100 ms in which the device works for the share `busy` and otherwise waits for the
    host; halving the sides and removing causes gains these shares of it."""
    busy_ns = round(busy * SPAN_NS)
    late_ns = SPAN_NS - busy_ns
    ranked = dict(sorted((removed or {}).items(), key=lambda item: -item[1]))
    untraced_ns = min(late_ns, round(ranked.get("unrecorded-time", 0.0) * SPAN_NS))
    causes = {"untraced": untraced_ns, "python": late_ns - untraced_ns}
    gains = Gains(
        SPAN_NS - (recorder_ns or 0), host_gain, device_gain, ranked, host_gain, unknown,
        work or {}, recorder_ns=recorder_ns,
    )  # fmt: skip
    given = {
        "window": WINDOW,
        "gpu": gpu(ops, busy_ns, idle_ns=late_ns),
        "idle": Idle(late_ns, 0, 0, 0, 0, causes, late_ns),
        "launch": Launch(ops, 6000, 9000, 6000, 5000, 1, 10_000),
        "ops": ops,
        "causal": Causal(gains, flip, None, {"python": 1.0}, [], shift_ns, 0),
        "health": [
            each if isinstance(each, Finding) else Finding(each, "warning", "something", 1)
            for each in health
        ],
    }
    return Evidence(**(given | context))


def host_evidence(
    compute: float, dispatch: float = 0, python: float = 0, untraced: float = 0, launches: int = 0
) -> Evidence:
    """A window of 100 ms of a host without a device; times in ms."""
    times = (round(each * MS) for each in (compute, dispatch, 0, python, 0, 0, 0, untraced))
    return Evidence(window=WINDOW, host=HostThread(50, launches, *times), ops=50)


def judge(found: Evidence, thresholds: Thresholds | None = None) -> Verdict:
    """The verdict on evidence."""
    return judging.judge(found, thresholds or Thresholds())


def one_off(**given: Any) -> OneOff:
    """A call of 1 ms on the host that happened once."""
    usual = {
        "kind": "stretch", "event_id": 1, "start_ns": 0, "dur_ns": MS, "usual_ns": 0,
        "excess_ns": MS, "cause": "python", "name": "load", "begin": 0, "end": MS,
    }  # fmt: skip
    return OneOff(**(usual | given))
