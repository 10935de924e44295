"""What a memory snapshot tells of the device that held most memory: by role and call site, at its
peak."""

from __future__ import annotations

from msgspec import Struct


class MemorySite(Struct, frozen=True):
    """Memory of one role from one call site that was live at the peak
    (queries/memory/memory_roles.sql)."""

    role: str
    """parameters (with buffers), gradients, optimizer states, activations, temporaries, inputs,
    communication, workspace or unknown."""
    phase: str | None
    """What the program did when it allocated: setup, forward, backward, optimizer ...; null: no
    frame tells."""
    place: str
    """The line of the program; in stacks without lines, the backward node or the operator."""
    cpu_op: str | None
    """The innermost operator; null: no frame tells."""
    evidence: str
    """How the role is known, or why it is not."""
    allocations: int
    """The number of its allocations that were live at the peak."""
    live_bytes: int
    """The size of these allocations."""


class MemoryRole(Struct, frozen=True):
    """All memory of one role that was live at the peak."""

    role: str
    """As in `sites`."""
    allocations: int
    """The number of its allocations that were live at the peak."""
    live_bytes: int
    """The size of these allocations."""


class MemoryGrowth(Struct, frozen=True):
    """Allocations of one call site and size in several forward passes, none of which was freed
    (queries/memory/memory_growth.sql)."""

    place: str
    """The line of the program; in stacks without lines, the backward node or the operator."""
    cpu_op: str | None
    """The innermost operator; null: no frame tells."""
    allocations: int
    """The number of allocations."""
    each_bytes: int
    """The size of each."""
    live_bytes: int
    """The size of all."""
    passes: int
    """The number of forward passes in which, or after which, they were made (count)."""


class OutOfMemory(Struct, frozen=True):
    """The last allocation that failed (queries/memory/out_of_memory.sql)."""

    requested_bytes: int
    """The size that was asked for."""
    device_free_bytes: int | None
    """What the driver had free; null: unknown."""
    allocated_bytes: int | None
    """What the program used then; null: no earlier action was recorded."""
    reserved_bytes: int | None
    """What the allocator had reserved then; null: no earlier action was recorded."""
    place: str | None
    """The line of the program; null: not recorded."""


class DeviceMemory(Struct, frozen=True):
    """The memory of the device that held most, at its peak; of a snapshot without recorded actions,
    when it was taken."""

    device_id: int
    """The device (id)."""
    peak_bytes: int
    """Its allocated memory at the peak."""
    is_recorded: bool
    """Whether actions of the allocator were recorded, so that there is a peak."""
    reserved_bytes: int
    """What the allocator had reserved then."""
    peak_phase: str | None
    """What the program did at the peak: forward, backward, optimizer ...; null: unknown."""
    peak_place: str | None
    """The call site whose allocation made the peak; null: not recorded."""
    roles: list[MemoryRole]
    """What held the peak, by role, the largest first; they add up to it."""
    sites: list[MemorySite]
    """The largest call sites of each role, those of the largest role first."""
    growth: list[MemoryGrowth]
    """What is allocated again and again and never freed, the largest first."""
    out_of_memory: OutOfMemory | None
    """Null: no allocation failed."""
