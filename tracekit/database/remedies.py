"""The remedies: a remedy is a query that finds call sites, and a description.

queries/remedies/NAME.sql finds the parts of a run that the remedy changes, and by how much: a
replay scales its rows (tracekit/replay/changes.py). Its header says what to do. A remedy for
one-off events has no query: its header names their causes. Neither has a larger batch, since it
changes the whole run.
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
    """A description of a change to a program."""

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
    """The first version of tracekit that has it; empty: from a plugin."""
    effort: str = "low"
    caveat: str = ""
    """Why its price is doubtful; empty: nothing beyond the replay's own limits."""
    blind: tuple[str, ...] = ()
    """Codes of data that it needs and a trace may lack (queries/trace/missing.sql)."""
    once: tuple[str, ...] = ()
    """The causes of one-off events that it helps against."""
    at_start: bool = False
    """Whether it helps only against one-offs during warm-up."""
    claims: str = ""
    """The one-offs that belong to the recurring work that it finds: `events` (events in its rows),
    `around` (one-offs of its main cause that contain a row); empty: none."""
    in_loops: bool = False
    """Whether it pays only if most kernels run repeatedly."""
    outside_loops: bool = False
    """Whether it concerns time outside loops: changes in loops are priced as if this time were
    already saved."""
    frees_launches: bool = False
    """Whether it makes launches free, as a CUDA graph does."""
    is_apart: bool = False
    """Whether it saves time outside the program's step. Such remedies are listed last, and not
    combined with others."""
    is_batch: bool = False
    """Whether it is a larger batch, whose price is a throughput. A remedy with a query doubles the
    batch."""
    less_work: bool = False
    """Whether the device has less to compute or to read after it, as in a shorter number format.
    Other remedies cannot save what the device needs at its peaks."""
    is_elsewhere: bool = False
    """Whether the change is on another rank, so this rank's bottleneck does not matter."""
    may_end: bool = False
    """Whether what it is against may end by itself: a longer recording shows that."""
    applied_as: str = ""
    """How a probe applies it without an edit of the program (tracekit/experiments/variants.py);
    empty: it needs an edit."""
    question: str = ""
    """The question that its query answers."""
    titled: str = ""
    """Titles for call sites with given details: `DETAIL: TITLE`, separated by semicolons."""
    is_by_place: bool = False
    """Whether each of its call sites has its own cause, and its own line in the list."""
    of_plugin: Plugin | None = None
    """The plugin that provides it; None: tracekit."""

    @property
    def is_beside(self) -> bool:
        """Whether it does not change the program's step: a recording, or a larger batch."""
        return self.is_apart or self.is_batch

    @property
    def has_query(self) -> bool:
        return bool(self.question)

    def title_of(self, detail: str | None) -> str:
        """The title for a call site with this detail."""
        pairs = (each.partition(": ") for each in self.titled.split("; "))
        titles = (
            self._marked(title) for part, _, title in pairs if part and part in (detail or "")
        )
        return next(titles, self.title)

    def _marked(self, title: str) -> str:
        return self.of_plugin.mark(title) if self.of_plugin else title

    @property
    def sections(self) -> tuple[tuple[str, str, bool], ...]:
        """Instructions: headings, their texts, and whether a text is code."""
        texts = (
            ("Before", self.before, True),
            ("After", self.after, True),
            ("Risks", self.risks, False),
            ("Why the price is doubtful", self.caveat, False),
            ("To check", self.check, False),
        )
        return tuple(text for text in texts if text[1])

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of findings that make the price doubtful."""
        return catalog.query(query_of(self.name)).doubts if self.has_query else ()


def query_of(remedy: str) -> str:
    """The query that finds a remedy's call sites: `pinned-copies` uses pinned_copies.sql."""
    return remedy.replace("-", "_")


def parse_remedy(name: str, sql: str) -> Remedy:
    """Parses a remedy's header: a comment `-- FIELD: words` for each field of `Remedy`. Line
    breaks count in code only.

    Raises:
        TracekitError: when a field is missing.
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
    """All remedies, by name, without faulty ones from plugins."""
    remedies = {}
    for file, text in catalog.remedy_texts().items():
        name = file.replace("_", "-")
        if (plugin := catalog.plugin_of(file)) is None:
            remedies[name] = parse_remedy(name, text)
            continue
        with plugin.leaving_out(f"the remedy {name}"):
            remedies[name] = _of_plugin(parse_remedy(name, text), plugin)
    return remedies


def _of_plugin(remedy: Remedy, plugin: Plugin) -> Remedy:
    """The remedy, marked as a plugin's.

    Raises:
        TracekitError: when tracekit does not know its causes, effort or claims, or it lacks a
            question that they need.
    """
    if unknown := [cause for cause in remedy.causes if cause not in CAUSES]:
        raise TracekitError(f"{unknown[0]!r} is not a cause")
    if remedy.effort not in EFFORTS:
        raise TracekitError(f"its effort must be one of {', '.join(EFFORTS)}")
    if remedy.claims not in CLAIMS:
        raise TracekitError(f"its claims must be one of {', '.join(CLAIMS[1:])}")
    if (remedy.claims or remedy.outside_loops) and not remedy.has_query:
        raise TracekitError("claims and outside_loops need a question")
    return replace(remedy, title=plugin.mark(remedy.title), of_plugin=plugin)


def find_remedy(name: str) -> Remedy | None:
    """The remedy called `name`, spelled as in advice or as its file; None: no such remedy."""
    return all_remedies().get(name.replace("_", "-"))


def applied_as(way: str) -> str:
    """The name of the remedy that a probe applies in this way."""
    (name,) = (name for name, each in all_remedies().items() if each.applied_as == way)
    return name


def marked(name: str) -> str:
    """A remedy's name, with the plugin that provides it."""
    known_remedy = find_remedy(name)
    return (
        f"{name} (plugin {known_remedy.of_plugin.name})"
        if known_remedy and known_remedy.of_plugin
        else name
    )


def remedy(name: str) -> Remedy:
    """The remedy called `name`.

    Raises:
        TracekitError: when there is no such remedy.
    """
    known_remedy = find_remedy(name)
    if known_remedy is None:
        hint = suggestion(name, all_remedies()) or f"; there are: {', '.join(all_remedies())}"
        raise TracekitError(f"there is no remedy named {name!r}{hint}")
    return known_remedy
