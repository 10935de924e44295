"""Memory snapshots: the first sentence and the changes by what held the peak."""

from typing import Any

from tests.kit.evidenced import WINDOW, Judged
from tracekit.evidence.memory import DeviceMemory, MemoryGrowth, MemoryRole, MemorySite, OutOfMemory
from tracekit.evidence.model import Evidence, Period

GB = 10**9
STATES, LOST = "optimizer states", "allocated before the recording"


def _role(role: str, size: int) -> MemoryRole:
    return MemoryRole(role=role, allocations=1, live_bytes=size)


def _lost(free: int | None, allocated: int, place: str | None = None) -> OutOfMemory:
    """2 GB that could not be allocated, with 70 GB reserved."""
    return OutOfMemory(
        requested_bytes=2 * GB, device_free_bytes=free, allocated_bytes=allocated,
        reserved_bytes=70 * GB, place=place,
    )  # fmt: skip


def held(*roles: tuple[str, float], place: str = "/app/a.py(1): f", **fields: Any) -> Evidence:
    """A snapshot whose peak was held by these roles, of GB each, from one line."""
    sizes = [(role, round(size * GB)) for role, size in roles]
    evidence = fields.pop("evidence", "its stack")
    usual = {
        "device_id": 0, "peak_bytes": sum(size for _, size in sizes), "is_recorded": True,
        "reserved_bytes": 80 * GB, "peak_phase": None, "peak_place": place, "growth": [],
        "roles": [_role(role, size) for role, size in sizes],
        "sites": [
            MemorySite(
                role=role, phase=None, place=place, cpu_op=None, evidence=evidence, allocations=1,
                live_bytes=size,
            )
            for role, size in sizes
        ],
        "out_of_memory": None,
    }  # fmt: skip
    return Evidence(period=Period(window=WINDOW), memory=DeviceMemory(**(usual | fields)))


TRAINED = (("parameters", 13.6), ("gradients", 13.6), (STATES, 27.2))
GROWN = MemoryGrowth(
    place="/app/guide.py(9): guide_diffusion", cpu_op="aten::mul", allocations=34, each_bytes=GB,
    live_bytes=34 * GB, passes=34,
)  # fmt: skip
CASES = {
    "a snapshot whose peak is in the optimizer's step": Judged(
        evidence=held(*TRAINED, peak_phase="optimizer"),
        regime="unknown", confidence="none",
        begins="54.4 GB at the peak, in the optimizer's step: parameters 13.6, gradients 13.6, "
               "optimizer states 27.2 GB.",
        says=["up to 20.4 GB less if they are fp32", "over 8, up to 47.6 GB less on each",
              "Step the optimizer in backward"],
        lacks=["Checkpoint", "does not tell"],
    ),
    "a snapshot whose gradients live during forward": Judged(
        evidence=held(("activations", 20), ("gradients", 13.6), peak_phase="forward"),
        says=["Checkpoint activations (torch.utils.checkpoint): up to 20 GB less",
              "zero_grad(set_to_none=True): 13.6 GB less"],
    ),
    "a snapshot of ranks that communicate already": Judged(
        evidence=held(*TRAINED, ("communication", 1)), lacks=["Shard"], says=["8 bits"],
    ),
    "a snapshot of mostly older memory": Judged(
        evidence=held(("unknown", 9), ("activations", 1), place="not recorded", evidence=LOST),
        begins="10 GB at the peak: most of it was allocated before the recording.",
        says=["_record_memory_history(stacks='all')"],
    ),
    "a snapshot of one unknown line": Judged(
        evidence=held(("unknown", 9), place="/app/a.py(1): f", peak_phase="forward"),
        begins="9 GB at the peak, in forward: a.py(1): f 9 GB.",
        lacks=["Checkpoint", "Shard"],
    ),
    "a snapshot of passes that stay": Judged(
        evidence=held(("unknown", 34), ("parameters", 6), growth=[GROWN]),
        begins="40 GB at the peak: 34 allocations by guide.py(9): guide_diffusion stay, 34 GB.",
        says=["over 34 forward passes, none freed", "Keep less at guide.py(9): guide_diffusion"],
    ),
    "a snapshot of memory that is free in pieces": Judged(
        evidence=held(
            *TRAINED, out_of_memory=_lost(None, 60 * GB)
        ),
        begins="Out of memory: 2 GB were asked for on device 0.",
        says=["expandable_segments:True): 10 GB were reserved and unused"],
    ),
    "a snapshot that was full": Judged(
        evidence=held(
            *TRAINED, out_of_memory=_lost(GB, 69 * GB, "/app/a.py(1): f")
        ),
        begins="Out of memory: 2 GB were asked for with 1 GB free on device 0, by a.py(1): f.",
        lacks=["expandable_segments"],
    ),
}  # fmt: skip
