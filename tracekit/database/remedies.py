"""All remedies: each is a query that finds call sites, and a description.

queries/remedies/NAME.sql answers which parts of a run the remedy changes, and how much; its rows
are what a replay scales (tracekit/replay/changes.py). Its header says what to do.
A remedy for one-off events has no query: its header names their causes. A larger batch has none
either, since it changes the whole run.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tracekit.causes import CAUSES
from tracekit.database import catalog
from tracekit.errors import TracekitError
from tracekit.plugins import Plugin
from tracekit.text import suggestion

EFFORTS = ("low", "medium", "high")
CLAIMS = ("", "events", "around")


class Remedy(Struct, frozen=True):
    """A change to a program, in words."""

    name: str
    title: str
    """What to do, as an imperative."""
    causes: tuple[str, ...]
    """The causes of time that it reduces (tracekit/causes.py), the main one first."""
    needs: str
    """Conditions under which it works."""
    before: str
    """Code with the fault."""
    after: str
    """The code without the fault."""
    risks: str
    check: str
    """The command that shows whether it helped."""
    sources: tuple[str, ...]
    since: str = ""
    """The version of tracekit that had it first; empty: a plugin brings it."""
    effort: str = "low"
    caveat: str = ""
    """Why its price is doubtful; empty: nothing beyond the replay's own limits."""
    blind: tuple[str, ...] = ()
    """Codes of data that a trace may lack (queries/trace/missing.sql); without them, the remedy
    cannot be looked for."""
    once: tuple[str, ...] = ()
    """The causes of one-off events that it helps against."""
    at_start: bool = False
    """Whether it helps only against one-offs while a run may still warm up."""
    claims: str = ""
    """The one-offs that are part of the recurring work that it finds: `events`, those that are
    events of its rows; `around`, those of its main cause with a row in them; empty: none."""
    in_loops: bool = False
    """Whether it pays only where most kernels run again and again."""
    outside_loops: bool = False
    """Whether it is about time with which no change in loops helps: those are priced as if this
    time was saved already."""
    frees_launches: bool = False
    """Whether it makes launches free, as a CUDA graph does."""
    is_apart: bool = False
    """Whether it saves time outside the program's step: it is listed after the others, and not
    combined with them."""
    is_batch: bool = False
    """Whether it is a larger batch, whose price is in throughput; one with a query doubles the
    batch."""
    is_elsewhere: bool = False
    """Whether the change is on another rank: this rank's bottleneck says nothing about it."""
    may_end: bool = False
    """Whether what it is against may end by itself: a longer recording shows that."""
    applied_as: str = ""
    """How a probe applies it without an edit of the program (tracekit/experiments/variants.py);
    empty: it needs an edit."""
    question: str = ""
    """The question that its query answers."""
    titled: str = ""
    """Titles for call sites with certain details: `DETAIL: TITLE`, separated by semicolons."""
    is_by_place: bool = False
    """Whether each of its call sites has its own cause, and its own line in the list."""
    of_plugin: Plugin | None = None
    """The plugin that brings it; None: it is tracekit's own."""

    @property
    def has_query(self) -> bool:
        return bool(self.question)

    def title_of(self, detail: str | None) -> str:
        """What to do at a call site with this detail."""
        pairs = (each.partition(": ") for each in self.titled.split("; "))
        found = (self._marked(title) for part, _, title in pairs if part and part in (detail or ""))
        return next(found, self.title)

    def _marked(self, title: str) -> str:
        return self.of_plugin.mark(title) if self.of_plugin else title

    @property
    def sections(self) -> tuple[tuple[str, str, bool], ...]:
        """How to apply it: headings, their texts, and whether a text is code."""
        found = (
            ("Before", self.before, True),
            ("After", self.after, True),
            ("Risks", self.risks, False),
            ("Why its price is doubtful", self.caveat, False),
            ("To check", self.check, False),
        )
        return tuple(each for each in found if each[1])

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of findings that make its price doubtful."""
        return catalog.query(query_of(self.name)).doubts if self.has_query else ()


def query_of(remedy: str) -> str:
    """The query that finds a remedy's places: `pinned-copies` is pinned_copies.sql."""
    return remedy.replace("-", "_")


def parse_remedy(name: str, sql: str) -> Remedy:
    """Parses a remedy's header: a comment `-- FIELD: words` for each field of `Remedy`. Line
    breaks count in code only.

    Raises:
        TracekitError: a field is missing.
    """
    types = Remedy.__annotations__
    values: dict[str, Any] = {}
    for comment in catalog.header(sql):
        field, _, text = comment.removeprefix("-- ").partition(":")
        words = text.strip() if field in ("before", "after") else " ".join(text.split())
        if types.get(field) == "bool":
            values[field] = words == "true"
        elif field in types:
            values[field] = words if types[field] == "str" else tuple(re.split(r",? ", words))
    try:
        return Remedy(name=name, **values)
    except TypeError as error:
        raise TracekitError(f"the header of the remedy {name}: {error}") from error


@cache
def all_remedies() -> dict[str, Remedy]:
    """All remedies, by name, without those of plugins that are wrong."""
    found = {}
    for file, text in catalog.remedy_texts().items():
        name = file.replace("_", "-")
        if (plugin := catalog.plugin_of(file)) is None:
            found[name] = parse_remedy(name, text)
            continue
        with plugin.leaving_out(f"the remedy {name}"):
            found[name] = _of_plugin(parse_remedy(name, text), plugin)
    return found


def _of_plugin(remedy: Remedy, plugin: Plugin) -> Remedy:
    """The remedy, marked as a plugin's.

    Raises:
        TracekitError: its causes, its effort or what it claims are none that tracekit knows, or it
            lacks the question that they need.
    """
    if unknown := [each for each in remedy.causes if each not in CAUSES]:
        raise TracekitError(f"no cause is {unknown[0]!r}")
    if remedy.effort not in EFFORTS:
        raise TracekitError(f"its effort is none of {', '.join(EFFORTS)}")
    if remedy.claims not in CLAIMS:
        raise TracekitError(f"it claims none of {', '.join(CLAIMS[1:])}")
    if (remedy.claims or remedy.outside_loops) and not remedy.has_query:
        raise TracekitError("claims and outside_loops need a question")
    return replace(remedy, title=plugin.mark(remedy.title), of_plugin=plugin)


def find_remedy(name: str) -> Remedy | None:
    """The remedy called `name`, as advice or as its file spells it; None: there is none."""
    return all_remedies().get(name.replace("_", "-"))


def applied_as(way: str) -> str:
    """The name of the remedy that a probe applies in this way."""
    (name,) = (name for name, each in all_remedies().items() if each.applied_as == way)
    return name


def marked(name: str) -> str:
    """A remedy's name, and the plugin that brings it."""
    found = find_remedy(name)
    return f"{name} (plugin {found.of_plugin.name})" if found and found.of_plugin else name


def remedy(name: str) -> Remedy:
    """The remedy called `name`.

    Raises:
        TracekitError: there is no such remedy.
    """
    found = find_remedy(name)
    if found is None:
        known = suggestion(name, all_remedies()) or f"; there are: {', '.join(all_remedies())}"
        raise TracekitError(f"no remedy is named {name!r}{known}")
    return found
