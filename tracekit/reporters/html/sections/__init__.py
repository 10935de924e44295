"""The sections of a trace's page, in order."""

from __future__ import annotations

from tracekit.reporters.html.figure import Section
from tracekit.reporters.html.sections.communication import bandwidth, collectives, communication
from tracekit.reporters.html.sections.counters import counters
from tracekit.reporters.html.sections.faster import faster
from tracekit.reporters.html.sections.health import health, missing
from tracekit.reporters.html.sections.kernels import kernels, roofline
from tracekit.reporters.html.sections.memory import copies, holders, memory
from tracekit.reporters.html.sections.steps import steps

SECTIONS = (
    Section("faster", "If something were faster", (faster,)),
    Section("steps", "Steps", (steps,)),
    Section("kernels", "Kernels", (kernels, roofline)),
    Section("memory", "Memory", (memory, holders, copies)),
    Section("communication", "Communication", (communication, collectives, bandwidth)),
    Section("counters", "Hardware counters", (counters,)),
    Section("health", "Health", (health, missing)),
)
