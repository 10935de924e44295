"""A page: figures in sections, put into one HTML file that needs nothing but itself."""

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
from tracekit.reporters import colours
from tracekit.reporters.html import charts
from tracekit.reporters.html.charts import shown_name
from tracekit.reporters.html.figure import Figure, Maker
from tracekit.reporters.parts import devices_of, without_profiler
from tracekit.reporters.terminal import clipped
from tracekit.text import duration, figure_of, percent, share
from tracekit.verdict.regime import split_bound
from tracekit.version import __version__

# A sentence is longer only if a name from the trace in it is absurdly long.
_LONGEST_SENTENCE = 2_000


class Part(Struct, frozen=True):
    """A section of a page: a heading and its figures."""

    name: str
    title: str
    figures: list[Figure]

    @property
    def is_half(self) -> bool:
        """Whether half of a wide page is enough for it."""
        return len(self.figures) == 1 and self.figures[0].is_half


def part_of(
    subject: Any, section: tuple[str, str, Sequence[Maker]], device_word: str = "GPU"
) -> Part:
    """A section, given by its name, title and figures, with those that have something to show."""
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
    """One of the things that a page shows, such as a trace or all ranks together.

    `template` draws its first screen from `facts`; the sections follow.
    """

    name: str
    title: str
    template: str
    facts: dict[str, Any]
    parts: Sequence[Part]
    label: str | None = None
    """The text of the button that shows it; None means its title."""

    def __post_init__(self) -> None:
        force_setattr(self, "parts", [part for part in self.parts if part.figures])

    @property
    def figures(self) -> dict[str, Figure]:
        """Its figures by name."""
        return {figure.name: figure for part in self.parts for figure in part.figures}

    @cached_property
    def data(self) -> dict[str, Any]:
        """Its figures, as the page's script takes them."""
        found: dict[str, Any] = {}
        for name, figure in self.figures.items():
            found[f"{self.name}-{name}"] = made = {
                "columns": {each.name: list(map(_value, each.to_list())) for each in figure.rows},
                "control": figure.control,
                "title": figure.title,
            }
            if figure.chart is not None and figure.is_drawn:
                made["spec"] = _spec(figure.chart)
        return found

    @cached_property
    def least_bytes(self) -> int:
        """What it adds to a page at least: its figures, without texts."""
        return len(script_json(_shared(self.data)["figures"]))


def told_view(
    name: str,
    title: str,
    headline: str,
    about: str,
    sentences: Iterable[str | tuple[str, str]],
    parts: Sequence[Part],
) -> View:
    """A view whose first screen is a headline, what it is about, and sentences, some of them with a
    command."""
    told = [each if isinstance(each, tuple) else (each, "") for each in sentences]
    facts = {"headline": headline, "about": about, "sentences": told}
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
    """JSON that can stand in a script element: no text in it can end the element.

    https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements
    """
    text = json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script.

    Bundling them takes seconds, so the script is kept in the user's cache. Each page trusts it, so
    one that somebody else could have written is not used.
    """
    folder = own_cache()
    path = folder and folder / f"vega-{version('vl-convert-python')}.js"
    if path and is_own(path):
        with suppress(OSError, UnicodeDecodeError):
            return path.read_text(encoding="utf-8")
    # Its stub calls the snippet required; its documentation does not.
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    if path:
        with suppress(TracekitError), written_whole(path) as beside:
            beside.write_text(bundle, encoding="utf-8")
            beside.chmod(0o600)
    return bundle


def _shared(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures with each text kept once for all of them, and its short name where it has one; a
    column of text has the places of its texts."""
    numbers: dict[str, int] = {}

    def shared(values: list[Any]) -> Any:
        if not any(isinstance(each, str) for each in values):
            return values
        given = (None if e is None else numbers.setdefault(e, len(numbers)) for e in values)
        return {"at": list(given)}

    found = {
        name: each | {"columns": {key: shared(values) for key, values in each["columns"].items()}}
        for name, each in figures.items()
    }
    short = {at: shown for text, at in numbers.items() if (shown := shown_name(text)) != text}
    return {"figures": found, "texts": list(numbers), "short": short}


def _value(value: Any) -> Any:
    if isinstance(value, float | Decimal):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return _safe(value) if isinstance(value, str) else value


@lru_cache(4096)
def _safe(text: object) -> str:
    """Text from a trace as a page shows it."""
    return clipped(str(text), charts.LONGEST_TEXT)


def _spec(chart: Any) -> dict[str, Any]:
    """The chart without its data: the page keeps those once, for the chart and for its table."""
    chart.data = altair.NamedData("rows")
    spec: dict[str, Any] = chart.to_dict(validate=False)
    if "datasets" in spec:
        raise AssertionError("a chart of a page draws one frame")
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
        "colour": colours.of,
        "safe_text": _safe,
        "sentence": lambda text: clipped(str(text), _LONGEST_SENTENCE),
        "figure": figure_of,
        "devices": devices_of,
        "without_profiler": without_profiler,
    }
    return environment


def _text(path: str) -> str:
    """A file of this folder."""
    return (files("tracekit.reporters.html") / path).read_text(encoding="utf-8")


def _script() -> str:
    """The page's own script: its parts share their names with each other, and with nothing else."""
    parts = ("values", "tables", "flame", "controls", "page")
    joined = "".join(_text(f"templates/{part}.js") for part in parts)
    return f'"use strict";\n(() => {{\n{joined}}})();\n'


def _policy(scripts: Sequence[str]) -> str:
    """The Content-Security-Policy: the page may run these scripts, by their hashes, and nothing
    else, and may load nothing at all."""
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()) for each in scripts]
    hashes = " ".join(f"'sha256-{each.decode()}'" for each in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
