"""The page of one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.reporters.html.page import Part, View
from tracekit.reporters.html.sections import SECTIONS
from tracekit.reporters.parts import parts_of

if TYPE_CHECKING:
    from tracekit.reporters.html.subject import Subject

# How many lines of the fix list the first screen has.
_ADVISED = 5


def trace_view(subject: Subject) -> View:
    """The verdict on a trace and all sections that have something to show."""
    analysis, fixes = subject.analysis, subject.judgement.fixes
    facts = {
        "analysis": analysis,
        "parts": parts_of(analysis),
        "source": f"{subject.command('analyze')} --json",
        "fixes": fixes,
        "advised": fixes.advice[:_ADVISED] if fixes else [],
    }
    parts = []
    for section in SECTIONS:
        made = [make(subject) for make in section.figures]
        figures = [figure for figure in made if figure is not None]
        subject.figures += figures
        if figures:
            parts.append(Part(section.name, section.title, figures))
    name = f"trace{analysis.trace.trace_id}"
    return View(name, analysis.trace.path, "trace.html", facts, parts)
