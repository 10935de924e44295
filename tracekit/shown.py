"""What shows itself in a notebook."""

from __future__ import annotations

from importlib import import_module


class Shown:
    """A result that notebooks show as HTML.

    The reporter is loaded by its name when a notebook asks: results know nothing of reporters.
    """

    def _repr_html_(self) -> str:
        html: str = import_module("tracekit.reporters.notebook").html(self)
        return html
