"""The verdict on a memory snapshot: what held a device's memory at its peak, in sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from tracekit.causes import words
from tracekit.evidence.memory import DeviceMemory, MemoryGrowth, MemoryRole, MemorySite, OutOfMemory
from tracekit.evidence.model import Window
from tracekit.text import counted, share, shortened, size
from tracekit.thresholds import Thresholds
from tracekit.verdict.model import Verdict
from tracekit.verdict.regime import UNKNOWN

UNTOLD, UNRECORDED = "unknown", "not recorded"
# As queries/facts/memory_role.sql has it.
OLDER = "allocated before the recording"
# The parts that the first sentence names, and the letters of a call site in it.
_NAMED, _PLACE = 3, 48
# Ranks by which the price of sharding is given.
_RANKS = 8
_WHEN = {
    "setup": ", while the model is set up",
    "forward": ", in forward",
    "backward": ", in backward",
    "optimizer": ", in the optimizer's step",
    "input": ", while a batch is loaded",
    "communication": ", in communication",
}
_FRAME = re.compile(r"(?s)(.*)(\(\d+\): .*)")


def judge_memory(window: Window, memory: DeviceMemory, thresholds: Thresholds) -> Verdict:
    """The verdict on a snapshot. It tells nothing of time, so the regime stays unknown."""
    return Verdict(
        headline(memory), UNKNOWN, None, "none", window, {}, reasons(memory, thresholds), [], None,
        next_steps(memory, thresholds),
    )  # fmt: skip


def headline(memory: DeviceMemory) -> str:
    """The sentence on the allocation that failed, else on the peak."""
    if memory.out_of_memory is not None:
        return _failed(memory.out_of_memory, memory.device_id)
    peak = f"{size(memory.peak_bytes)} {moment(memory)}{_when(memory)}"
    growing = memory.growth[0] if memory.growth else None
    if growing is not None and 2 * growing.live_bytes >= memory.peak_bytes:
        return f"{peak}: {_grown(growing)}"
    unknown = sum(role.live_bytes for role in memory.roles if role.role == UNTOLD)
    if 2 * unknown <= memory.peak_bytes:
        named = [(_role_name(role, memory), role.live_bytes) for role in memory.roles]
        return f"{peak}: {_listed(named)}"
    if 2 * _unstacked(memory, OLDER) >= memory.peak_bytes:
        return f"{peak}: most of it was allocated before the recording"
    if 2 * _unstacked(memory) >= memory.peak_bytes:
        return f"{peak}: no stacks tell what most of it is"
    # The parts by call site; a role that is known says more than its site.
    parts: dict[str, int] = {}
    for site in memory.sites:
        name = site_name(site.place) if site.role == UNTOLD else site.role
        parts[name] = parts.get(name, 0) + site.live_bytes
    rest = memory.peak_bytes - sum(parts.values())
    largest = sorted(parts.items(), key=lambda part: -part[1])
    # Two lines are as much as one sentence holds.
    return f"{peak}: {_listed(largest, rest, 2)}"


def moment(memory: DeviceMemory) -> str:
    """When the memory was held."""
    return "at the peak" if memory.is_recorded else "in use when the snapshot was taken"


def site_name(place: str, most: int = _PLACE) -> str:
    """A call site in few letters: its file without folders."""
    found = _FRAME.fullmatch(place)
    name = f"{PurePath(found[1]).name}{found[2]}" if found else place
    return shortened(name, most)


def _role_name(role: MemoryRole, memory: DeviceMemory) -> str:
    """The role; if it is unknown, its only call site."""
    sites = [site for site in memory.sites if site.role == role.role]
    if role.role == UNTOLD and len(sites) == 1 and sites[0].place != UNRECORDED:
        return site_name(sites[0].place)
    return role.role


def _when(memory: DeviceMemory) -> str:
    return _WHEN.get(memory.peak_phase or "", "") if memory.is_recorded else ""


def _listed(parts: Iterable[tuple[str, int]], rest: int = 0, most: int = _NAMED) -> str:
    """The largest parts with their sizes, in one unit if they have one: `parameters 13.6,
    gradients 13.6, optimizer states 27.2 GB`. What is left, with `rest`, is `other`."""
    listed = [*parts]
    # One part more has its own name.
    shown = most + (len(listed) == most + 1 and not rest)
    left = rest + sum(n_bytes for _, n_bytes in listed[shown:])
    listed = [*listed[:shown], *([("other", left)] if left > 0 else [])]
    texts = [(name, *size(n_bytes).split(" ")) for name, n_bytes in listed]
    units = {unit for *_, unit in texts}
    if len(units) == 1:
        return f"{', '.join(f'{name} {number}' for name, number, _ in texts)} {units.pop()}"
    return ", ".join(f"{name} {number} {unit}" for name, number, unit in texts)


def _failed(failed: OutOfMemory, device: int) -> str:
    free = failed.device_free_bytes
    had = "" if free is None else f" with {size(free)} free"
    where = f", by {site_name(failed.place)}" if failed.place else ""
    return (
        f"Out of memory: {size(failed.requested_bytes)} were asked for{had} on device "
        f"{device}{where}"
    )


def _grown(growing: MemoryGrowth) -> str:
    return (
        f"{counted(growing.allocations, 'allocation')} by {site_name(growing.place)} stay, "
        f"{size(growing.live_bytes)}"
    )


def _unstacked(memory: DeviceMemory, evidence: str = "") -> int:
    """The bytes at the peak that have no stack, all or those with one evidence."""
    return sum(
        site.live_bytes
        for site in memory.sites
        if site.place == UNRECORDED and evidence in ("", site.evidence)
    )


# -- the reasons -----------------------------------------------------------------------------------


def reasons(memory: DeviceMemory, thresholds: Thresholds) -> list[str]:
    """Sentences on the peak, each role, and what grows."""
    why = [
        f"Device {memory.device_id} had {size(memory.peak_bytes)} allocated {moment(memory)}"
        f"{_when(memory)}, of {size(memory.reserved_bytes)} reserved."
    ]
    if memory.out_of_memory is not None and memory.out_of_memory.allocated_bytes is not None:
        failed = memory.out_of_memory
        why.append(
            f"When the allocation failed, {size(failed.allocated_bytes)} were allocated, of "
            f"{size(failed.reserved_bytes)} reserved."
        )
    why += [
        f"{size(each.live_bytes)} are {each.allocations:,} x {size(each.each_bytes)} by "
        f"{each.place}: allocated over {counted(each.passes, 'forward pass', 'forward passes')}, "
        "none freed."
        for each in memory.growth
    ]
    for role in memory.roles:
        sites = [site for site in memory.sites if site.role == role.role]
        if role.live_bytes < thresholds.named_gain * memory.peak_bytes or not sites:
            continue
        part = share(role.live_bytes, memory.peak_bytes)
        name = "Memory of unknown role" if role.role == UNTOLD else role.role.capitalize()
        held = f"{name}: {size(role.live_bytes)} ({part})"
        why.append(f"{held} in {counted(role.allocations, 'allocation')}, most by {_told(sites)}.")
    return why


def _told(sites: Sequence[MemorySite]) -> str:
    first = sites[0]
    operator = f", {first.cpu_op}" if first.cpu_op and first.cpu_op != first.place else ""
    return f"{first.place}{operator} ({size(first.live_bytes)}; {first.evidence})"


# -- what to do ------------------------------------------------------------------------------------


def next_steps(memory: DeviceMemory, thresholds: Thresholds) -> list[str]:
    """What to change, priced in bytes at the peak, the largest first; what to record, if most is
    unknown."""
    least = thresholds.exposed_share * memory.peak_bytes
    held = {role.role: role.live_bytes for role in memory.roles}
    steps = [(each.live_bytes, _keep_less(each)) for each in memory.growth]
    steps += [(held[role], text) for role, text in _priced(memory, held)]
    chosen = [text for n, text in sorted(steps, key=lambda step: -step[0]) if n >= least]
    failed = memory.out_of_memory
    if failed is not None and None not in (failed.allocated_bytes, failed.reserved_bytes):
        unused = (failed.reserved_bytes or 0) - (failed.allocated_bytes or 0)
        if unused >= failed.requested_bytes:
            chosen.insert(
                0,
                f"Join free pieces (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True): "
                f"{size(unused)} were reserved and unused, but no piece was large enough.",
            )
    if 2 * _unstacked(memory) >= memory.peak_bytes:
        chosen.append(
            "Record stacks from the program's start, before the model is made: "
            "torch.cuda.memory._record_memory_history(stacks='all')."
        )
    return [*chosen, f"See who holds it: {words('commands')['memory']}."]


def _keep_less(growing: MemoryGrowth) -> str:
    return (
        f"Keep less at {site_name(growing.place)} (.item(), .detach(), .cpu(), or del): "
        f"{size(growing.live_bytes)} stay there."
    )


def _priced(memory: DeviceMemory, held: dict[str, int]) -> list[tuple[str, str]]:
    """Changes by the role that they reduce. What holds for one format only says so: a snapshot
    tells sizes, not formats."""
    found: list[tuple[str, str]] = []
    if states := held.get("optimizer states", 0):
        found.append(
            ("optimizer states",
             f"Keep the optimizer's states in 8 bits (torchao, bitsandbytes): up to "
             f"{size(0.75 * states)} less if they are fp32.")
        )  # fmt: skip
    sharded = {name: held.get(name, 0) for name in ("optimizer states", "gradients", "parameters")}
    # Memory of communication: probably they are sharded, or their gradients exchanged.
    if (total := sum(sharded.values())) and "communication" not in held:
        largest = max(sharded, key=lambda name: sharded[name])
        found.append(
            (largest,
             f"Shard {_joined([name for name, n in sharded.items() if n])} over ranks (FSDP): over "
             f"{_RANKS}, up to {size(total * (_RANKS - 1) / _RANKS)} less on each.")
        )  # fmt: skip
    if activations := held.get("activations", 0):
        found.append(
            ("activations",
             f"Checkpoint activations (torch.utils.checkpoint): up to {size(activations)} less at "
             "this peak, for a second forward.")
        )  # fmt: skip
    gradients = held.get("gradients", 0)
    if gradients and memory.peak_phase in ("forward", "input"):
        found.append(
            ("gradients",
             f"Free gradients before forward, zero_grad(set_to_none=True): {size(gradients)} less "
             "at this peak, unless they are accumulated.")
        )  # fmt: skip
    elif gradients:
        found.append(
            ("gradients",
             "Step the optimizer in backward (register_post_accumulate_grad_hook): up to "
             f"{size(gradients)} of gradients need not be held at once.")
        )  # fmt: skip
    if (scratch := held.get("temporaries", 0)) and memory.peak_phase == "optimizer":
        found.append(
            ("temporaries",
             f"Fuse the optimizer's step (fused=True): up to {size(scratch)} of temporaries less.")
        )  # fmt: skip
    return found


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
