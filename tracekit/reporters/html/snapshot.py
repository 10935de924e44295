"""The page of a memory snapshot: who holds the memory, and how its segments are filled."""

from __future__ import annotations

import json
from functools import cached_property

import polars

from tracekit.evidence.model import Window
from tracekit.reporters.html.figure import Section
from tracekit.reporters.html.page import View, part_of
from tracekit.reporters.html.sections.memory import (
    fragmentation,
    largest_allocations,
    memory,
    memory_flame,
    memory_left,
    memory_segments,
    memory_sites,
    out_of_memory,
)
from tracekit.reporters.html.subject import Subject
from tracekit.text import size

SECTIONS = (
    Section("oom", "Out of memory", (out_of_memory,)),
    Section("time", "Memory over time", (memory,)),
    Section("peak", "The peak", (memory_flame, memory_sites, largest_allocations)),
    Section("end", "When the snapshot was taken", (memory_left,)),
    Section("segments", "Segments", (fragmentation, memory_segments)),
)


class Snapshot(Subject):
    """A memory snapshot, as the figures of its page ask for it."""

    @cached_property
    def window(self) -> Window:
        """The recorded actions."""
        at_ns = self.rows("memory_timeline")["at_ns"]
        first, last = (0, 0) if at_ns.is_empty() else (at_ns.min(), at_ns.max())
        assert isinstance(first, int) and isinstance(last, int)
        return Window("trace", "the recording", first, last, last - first)

    def sentences(self) -> list[str]:
        """What each device has in use and reserved, and what it had at its peak."""
        held = self.rows("fragmentation").group_by("device_id", maintain_order=True).agg(
            polars.sum("segment_bytes", "used_bytes", "rounding_bytes")
        )  # fmt: skip
        told = [
            f"Device {row['device_id']}: {size(row['used_bytes'] - row['rounding_bytes'])} in use "
            f"and {size(row['segment_bytes'])} reserved when the snapshot was taken."
            for row in held.to_dicts()
        ]
        for row in self.rows("memory_peak", top=1).to_dicts():
            told.append(
                f"Device {row['device_id']}: at most {size(row['peak_bytes'])} in use while "
                f"recording, of {size(row['reserved_bytes'])} reserved."
            )
        if not self.window.span_ns:
            told.append(
                "No actions were recorded (torch.cuda.memory._record_memory_history): the page "
                "shows what was in use when the snapshot was taken."
            )
        return told


def snapshot_view(subject: Snapshot) -> View:
    """What a snapshot says, in figures."""
    path, settings = _trace(subject)
    facts = {"sentences": subject.sentences(), "settings": settings}
    parts = [part_of(subject, section) for section in SECTIONS]
    return View(f"trace{subject.trace_id}", path, "snapshot.html", facts, parts)


def _trace(subject: Subject) -> tuple[str, str | None]:
    """The path of the snapshot and the allocator's settings."""
    sql = "SELECT path, metadata FROM trace WHERE trace_id = getvariable('trace')"
    path, metadata = subject.database.frame(sql, {"trace": subject.trace_id}).row(0)
    settings = json.loads(metadata).get("memory_snapshot", {}).get("allocator_settings") or {}
    return path, settings.get("PYTORCH_CUDA_ALLOC_CONF")
