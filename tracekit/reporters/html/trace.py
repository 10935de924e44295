"""The page of one trace."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from tracekit.reporters.html.figure import Section
from tracekit.reporters.html.page import Part, View, part_of
from tracekit.reporters.html.sections.allocations import memory_flame, memory_sites
from tracekit.reporters.html.sections.communication import bandwidth, collectives, communication
from tracekit.reporters.html.sections.flame import flame
from tracekit.reporters.html.sections.health import health, missing
from tracekit.reporters.html.sections.host import delays, operators, python, queue, synchronizations
from tracekit.reporters.html.sections.kernels import counters, kernels, roofline
from tracekit.reporters.html.sections.memory import copies, holders, memory
from tracekit.reporters.html.sections.steps import faster, steps
from tracekit.reporters.html.sections.timeline import culprits, gaps, timeline
from tracekit.reporters.html.snapshot import Snapshot, snapshot_view
from tracekit.reporters.parts import lists_of, parts_of

if TYPE_CHECKING:
    from tracekit.reporters.html.subject import Subject

# In the order of the page.
SECTIONS = (
    Section("faster", "If something were faster", (faster,)),
    Section("steps", "Steps", (steps,)),
    Section("timeline", "Timeline", (timeline,)),
    Section("gaps", "Idle gaps", (culprits, gaps)),
    Section("kernels", "Kernels", (kernels, roofline)),
    Section("host", "Host", (delays, queue, operators, synchronizations, python)),
    Section("memory", "Memory", (memory, holders, memory_sites, memory_flame, copies)),
    Section("communication", "Communication", (communication, collectives, bandwidth)),
    Section("counters", "Hardware counters", (counters,)),
    Section("flame", "Flame graph", (flame,)),
    Section("health", "Health", (health, missing)),
)

# How many lines of the fix list the first screen has.
_ADVISED = 5
_SAVED = "What each saves alone, as a share of the window without one-offs"
# Sections at once: one is drawn while the database answers for the other. A large trace's are made
# one by one, to save memory.
_AT_ONCE = 2


def trace_view(subject: Subject) -> View:
    """The verdict on a trace and all sections that have something to show; or, of a memory
    snapshot, who holds the memory."""
    if subject.lacks("memory_snapshot"):
        return snapshot_view(Snapshot(subject.database, subject.trace_id))
    analysis, fixes = subject.analysis, subject.judgement.fixes
    facts = {
        "analysis": analysis,
        "parts": parts_of(analysis),
        "source": f"{subject.command('analyze')} --json",
        "fixes": fixes,
        "advised": [
            (heading, listed[:_ADVISED])
            for heading, listed in lists_of(fixes.advice if fixes else [], _SAVED)
        ],
    }
    # Asked here: the threads would ask twice.
    subject.findings  # noqa: B018
    parts: list[Part] = []
    at_once = 1 if subject.database.is_large else _AT_ONCE
    with ThreadPoolExecutor(at_once, "tracekit-sections") as threads:
        for part in threads.map(partial(part_of, subject), SECTIONS[:-1]):
            subject.figures += part.figures
            parts.append(part)
    # The last section tells which of the other figures a finding touches.
    parts += (part_of(subject, last) for last in SECTIONS[-1:])
    name = f"trace{analysis.trace.trace_id}"
    return View(name, analysis.trace.path, "trace.html", facts, parts)
