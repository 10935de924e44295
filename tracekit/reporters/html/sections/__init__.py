"""The sections of a trace's page, in order."""

from __future__ import annotations

from tracekit.reporters.html.figure import Section
from tracekit.reporters.html.sections.faster import faster
from tracekit.reporters.html.sections.steps import steps

SECTIONS = (
    Section("faster", "If something were faster", (faster,)),
    Section("steps", "Steps", (steps,)),
)
