"""The sections of a trace's page, in order."""

from __future__ import annotations

from tracekit.reporters.html.figure import Section
from tracekit.reporters.html.sections.communication import bandwidth, collectives, communication
from tracekit.reporters.html.sections.flame import flame
from tracekit.reporters.html.sections.health import health, missing
from tracekit.reporters.html.sections.host import (
    delays,
    operators,
    python,
    queue,
    synchronizations,
)
from tracekit.reporters.html.sections.kernels import counters, kernels, roofline
from tracekit.reporters.html.sections.memory import copies, holders, memory
from tracekit.reporters.html.sections.steps import faster, steps
from tracekit.reporters.html.sections.timeline import culprits, gaps, timeline

SECTIONS = (
    Section("faster", "If something were faster", (faster,)),
    Section("steps", "Steps", (steps,)),
    Section("timeline", "Timeline", (timeline,)),
    Section("gaps", "Idle gaps", (culprits, gaps)),
    Section("kernels", "Kernels", (kernels, roofline)),
    Section("host", "Host", (delays, queue, operators, synchronizations, python)),
    Section("memory", "Memory", (memory, holders, copies)),
    Section("communication", "Communication", (communication, collectives, bandwidth)),
    Section("counters", "Hardware counters", (counters,)),
    Section("flame", "Flame graph", (flame,)),
    Section("health", "Health", (health, missing)),
)
