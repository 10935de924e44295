"""What several reporters say of an analysis: its devices, and the parts that its window's time went
to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tracekit.verdict.model import Analysis, HostThread

# Columns of the query cpu_time, in the order in which they are shown.
_OF_HOST = (
    "compute", "dispatch", "communication", "view", "allocation", "python", "input", "compilation",
    "runtime", "untraced",
)  # fmt: skip


@dataclass(frozen=True)
class WindowPart:
    """A part of a window; `kind` is the cause or activity that has its colour."""

    name: str
    kind: str
    ns: int


def devices_of(analysis: Analysis) -> str:
    """The trace's devices by name, equal ones counted; else that they have no names, or that there
    are none."""
    named = Counter(name for name in analysis.trace.devices if name)
    if named:
        alike = (f"{count} x {name}" if count > 1 else name for name, count in named.items())
        return ", ".join(alike)
    if analysis.gpu:
        return "unnamed device"
    return "CPU only" if analysis.host else "no device"


def parts_of(analysis: Analysis) -> list[WindowPart]:
    """The parts of the verdict's window, without those that are 0."""
    gpu, idle, host = analysis.gpu, analysis.idle, analysis.host
    if gpu is not None and idle is not None:
        parts = [
            WindowPart("compute", "compute", gpu.compute_ns),
            WindowPart("communication, exposed", "communication", gpu.exposed_comm_ns),
            WindowPart("copies, exposed", "memcpy", gpu.exposed_memcpy_ns),
            *(WindowPart(f"idle: {cause}", cause, ns) for cause, ns in idle.causes.items()),
            WindowPart("idle: device", "latency", idle.device_ns),
            WindowPart("idle: unlinked", "unknown", idle.unlinked_ns),
            WindowPart("idle: after the last op", "idle", idle.after_last_op_ns),
        ]
    else:
        parts = _of_host(host) if host is not None else []
    return [part for part in parts if part.ns > 0]


def _of_host(host: HostThread) -> list[WindowPart]:
    return [WindowPart(name, name, getattr(host, f"{name}_ns")) for name in _OF_HOST]
