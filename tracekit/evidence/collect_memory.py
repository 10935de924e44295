"""Collects what held a device's memory, of a memory snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracekit.evidence.memory import (
    DeviceMemory,
    MemoryGrowth,
    MemoryRole,
    MemorySite,
    OutOfMemory,
)
from tracekit.evidence.model import Finding, is_snapshot, of_row

if TYPE_CHECKING:
    from tracekit.database.session import Session

# The most call sites of a role, and growing sites, in an analysis.
_SITES, _GROWING = 5, 5
# Memory that the allocator counts, and whose allocations a snapshot does not have.
_UNSEEN = {
    "role": "unknown", "phase": None, "place": "not recorded", "cpu_op": None,
    "evidence": "allocated before the recording", "allocations": 0,
}  # fmt: skip


def memory_of(database: Session, trace_id: int, health: Sequence[Finding]) -> DeviceMemory | None:
    """What held the memory of the device of a memory snapshot that held most; None: the trace is
    none, or nothing was allocated."""
    if not is_snapshot(health):
        return None
    held: dict[int, list[dict[str, Any]]] = {}
    for row in database.ask("memory_roles", trace=trace_id):
        held.setdefault(row["device_id"], []).append(row)
    failed = database.ask("out_of_memory", trace=trace_id)
    if not held:
        return None
    # The device that ran out of memory, or else that with most.
    most = max(held, key=lambda each: (sum(row["live_bytes"] for row in held[each]), -each))
    device = failed[-1]["device_id"] if failed and failed[-1]["device_id"] in held else most
    rows, first = held[device], held[device][0]
    rest = (first["peak_bytes"] or 0) - sum(row["live_bytes"] for row in rows)
    if rest > 0:
        rows.append(_UNSEEN | {"live_bytes": rest})
    by_role: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_role.setdefault(row["role"], []).append(row)
    roles = [
        MemoryRole(
            role, *(sum(row[name] for row in same) for name in ("allocations", "live_bytes"))
        )
        for role, same in by_role.items()
    ]
    roles.sort(key=lambda role: -role.live_bytes)
    sites = [
        of_row(MemorySite, row)
        for role in roles
        for row in sorted(by_role[role.role], key=lambda row: -row["live_bytes"])[:_SITES]
    ]
    is_recorded = first["peak_bytes"] is not None
    if is_recorded:
        peaks = database.ask("memory_peak", trace=trace_id, top=1)
        reserved = next(row["reserved_bytes"] for row in peaks if row["device_id"] == device)
    else:
        pools = database.ask("fragmentation", trace=trace_id)
        reserved = sum(row["segment_bytes"] for row in pools if row["device_id"] == device)
    growing = database.ask("memory_growth", trace=trace_id, top=_GROWING)
    lost = [of_row(OutOfMemory, row) for row in failed if row["device_id"] == device]
    return DeviceMemory(
        device_id=device,
        peak_bytes=first["peak_bytes"] or sum(role.live_bytes for role in roles),
        is_recorded=is_recorded,
        reserved_bytes=reserved,
        peak_phase=first["peak_phase"],
        peak_place=first["peak_place"],
        roles=roles,
        sites=sites,
        growth=[of_row(MemoryGrowth, row) for row in growing if row["device_id"] == device],
        out_of_memory=lost[-1] if lost else None,
    )
