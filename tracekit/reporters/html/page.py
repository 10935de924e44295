"""A page: figures in sections, in one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache, cached_property, lru_cache, partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import altair
import jinja2
import vl_convert
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from tracekit.causes import in_words_of
from tracekit.errors import TracekitError
from tracekit.files import is_own, own_cache, written_whole
from tracekit.reporters import colors
from tracekit.reporters.html import charts
from tracekit.reporters.html.charts import shown_name
from tracekit.reporters.html.figure import Figure, Maker
from tracekit.reporters.kernel_names import short_name
from tracekit.reporters.parts import devices_of
from tracekit.reporters.terminal import clipped
from tracekit.text import duration, figure_of, percent, printable, share
from tracekit.verdict import screen
from tracekit.verdict.regime import split_bound
from tracekit.version import __version__

# A sentence is longer only if it contains an absurdly long name from the trace.
_LONGEST_SENTENCE = 2_000
# The most letters of a kernel's name on the first screen.
_KERNEL = 38


class Part(Struct, frozen=True):
    """A section of a page: a heading and its figures."""

    name: str
    title: str
    figures: list[Figure]

    @property
    def is_half(self) -> bool:
        """Whether half the width of a wide page is enough."""
        return len(self.figures) == 1 and self.figures[0].is_half


def part_of(
    subject: Any, section: tuple[str, str, Sequence[Maker]], device_word: str = "GPU"
) -> Part:
    """A section with its name, title and the figures that have something to show."""
    name, title, makers = section
    made = ((make.__name__, make(subject)) for make in makers)
    words = partial(in_words_of, device_word)
    figures = [
        replace(each, name=of, title=words(each.title), says=words(each.says))
        for of, each in made
        if each is not None
    ]
    return Part(name, title, figures)


class View(Struct, frozen=True, dict=True):
    """A subject of a page, such as a trace or all ranks together.

    `template` draws its first screen from `facts`; the sections follow.
    """

    name: str
    title: str
    template: str
    facts: dict[str, Any]
    parts: Sequence[Part]
    label: str | None = None
    """The text of its button; None: its title."""

    def __post_init__(self) -> None:
        force_setattr(self, "parts", [part for part in self.parts if part.figures])

    @property
    def figures(self) -> dict[str, Figure]:
        """Its figures by name."""
        return {figure.name: figure for part in self.parts for figure in part.figures}

    @cached_property
    def data(self) -> dict[str, Any]:
        """Its figures, in the form for the page's script."""
        figures: dict[str, Any] = {}
        for name, figure in self.figures.items():
            figures[f"{self.name}-{name}"] = made = {
                "columns": {
                    column.name: list(map(_value, column.to_list())) for column in figure.rows
                },
                "control": figure.control,
                "title": figure.title,
            }
            if figure.chart is not None and figure.is_drawn:
                made["spec"] = _spec(figure.chart)
        return figures

    @cached_property
    def least_bytes(self) -> int:
        """The minimum size that it adds to a page: its figures, without texts."""
        return len(script_json(_shared(self.data)["figures"]))


def told_view(
    name: str,
    title: str,
    headline: str,
    about: str,
    sentences: Iterable[str | tuple[str, str]],
    parts: Sequence[Part],
) -> View:
    """A view whose first screen has a headline, a subject, and sentences, some with a command."""
    pairs = [sentence if isinstance(sentence, tuple) else (sentence, "") for sentence in sentences]
    facts = {"headline": headline, "about": about, "sentences": pairs}
    return View(name, title, "told.html", facts, parts)


def page(title: str, views: Sequence[View]) -> str:
    """The whole page as HTML text."""
    scripts = [vega(), _text("vendor/dataTables.min.js"), _script()]
    figures = {name: figure for view in views for name, figure in view.data.items()}
    template = _templates().get_template("page.html")
    return template.render(
        title=title, views=views, scripts=scripts, style=_text("templates/page.css"),
        policy=_policy(scripts), data=script_json(_shared(figures)), version=__version__,
    )  # fmt: skip


def script_json(value: object) -> str:
    """JSON that is safe inside a script element: its texts cannot end the element.

    https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements
    """
    text = json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script.

    Bundling them takes seconds, so the script is cached for the user. Pages trust it, so a cached
    script that another user could have written is not used.
    """
    folder = own_cache()
    path = folder and folder / f"vega-{version('vl-convert-python')}.js"
    if path and is_own(path):
        with suppress(OSError, UnicodeDecodeError):
            return path.read_text(encoding="utf-8")
    # The snippet is required in the type stub, but not in the documentation.
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    if path:
        with suppress(TracekitError), written_whole(path) as beside:
            beside.write_text(bundle, encoding="utf-8")
            beside.chmod(0o600)
    return bundle


def _shared(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures with shared texts, each stored once with its short name, if any; a column of text
    holds indexes."""
    numbers: dict[str, int] = {}

    def shared(values: list[Any]) -> Any:
        if not any(isinstance(value, str) for value in values):
            return values
        given = (None if e is None else numbers.setdefault(e, len(numbers)) for e in values)
        return {"at": list(given)}

    columns = {
        name: each | {"columns": {key: shared(values) for key, values in each["columns"].items()}}
        for name, each in figures.items()
    }
    short = {at: shown for text, at in numbers.items() if (shown := shown_name(text)) != text}
    return {"figures": columns, "texts": list(numbers), "short": short}


def _value(value: Any) -> Any:
    if isinstance(value, float | Decimal):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return _safe(value) if isinstance(value, str) else value


@lru_cache(4096)
def _safe(text: object) -> str:
    """Text from a trace in a page's form."""
    return clipped(str(text), charts.LONGEST_TEXT)


def _spec(chart: Any) -> dict[str, Any]:
    """The chart without its data: the page keeps those once, for the chart and for its table."""
    chart.data = altair.NamedData("rows")
    spec: dict[str, Any] = chart.to_dict(validate=False)
    if "datasets" in spec:
        raise AssertionError("a page's chart must draw a single frame")
    return {key: each for key, each in spec.items() if key not in ("config", "$schema")}


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tracekit.reporters.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": duration,
        "percent": percent,
        "share": share,
        "bound": lambda verdict: split_bound(verdict.regime, verdict.bottleneck),
        "color": colors.of,
        "safe_text": _safe,
        "sentence": lambda text: clipped(str(text), _LONGEST_SENTENCE),
        "figure": figure_of,
        "devices": devices_of,
        "facts": lambda analysis: [*screen.head(analysis), *screen.sides(analysis)],
        "kernels": screen.kernels,
        "doubts": screen.doubts,
        "together": screen.together,
        "kernel_name": lambda name: short_name(printable(name), _KERNEL),
    }
    return environment


def _text(path: str) -> str:
    """A file of this folder."""
    return (files("tracekit.reporters.html") / path).read_text(encoding="utf-8")


def _script() -> str:
    """The page's own script: its parts share names only with each other."""
    parts = ("values", "tables", "flame", "controls", "page")
    joined = "".join(_text(f"templates/{part}.js") for part in parts)
    return f'"use strict";\n(() => {{\n{joined}}})();\n'


def _policy(scripts: Sequence[str]) -> str:
    """The Content-Security-Policy: the page may run only these scripts, by hash, and may not load
    anything."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()) for script in scripts]
    hashes = " ".join(f"'sha256-{each.decode()}'" for each in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
