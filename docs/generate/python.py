"""The page of the Python API, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import tracekit
from docs.generate.markdown import code, fence, page, prose, table


def _words(documented: object) -> str:
    """A docstring: indented parts are code, `Raises:` a table."""
    parts, raised = [], []
    said, _, raises = (inspect.getdoc(documented) or "").partition("\nRaises:\n")
    for paragraph in said.split("\n\n"):
        is_code = all(line.startswith("    ") for line in paragraph.splitlines())
        parts.append(
            fence(inspect.cleandoc("\n" + paragraph), "python") if is_code else prose(paragraph)
        )
    for error in re.split(r"\n    (?=\w)", "\n" + raises)[1:]:
        name, _, when = error.partition(":")
        raised.append((code(name), prose(when)))
    return page(*parts, table(("raises", "when"), raised)).strip()


def _signature(name: str, function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    parameters = [
        parameter for parameter in signature.parameters.values() if parameter.name != "self"
    ]
    written = [str(parameter) for parameter in parameters]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        written.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    shown = ",\n".join(f"    {each}".replace("'", "") for each in written)
    returned = signature.return_annotation
    after = "" if returned in (inspect.Signature.empty, None, "None") else f" -> {returned}"
    inside = f"\n{shown},\n" if len(parameters) > 1 else shown.strip()
    return fence(f"{name}({inside}){after}".replace("'", ""), "python")


def public_methods(kind: type) -> dict[str, Any]:
    """A class's public methods and properties, also those that it inherits from tracekit."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("tracekit"):
            for name, member in vars(base).items():
                is_told = inspect.isfunction(member) or isinstance(member, property)
                if is_told and not name.startswith("_") and inspect.getdoc(member):
                    found.setdefault(name, member)
    return found


def _member(owner: str, name: str, member: Any) -> str:
    head = f"### {owner}.{name}"
    if isinstance(member, property):
        return page(head, "A property.", _words(member)).strip()
    return page(head, _signature(name, member), _words(member)).strip()


def _section(name: str) -> str:
    public = getattr(tracekit, name)
    is_error = inspect.isclass(public) and issubclass(public, Exception)
    is_made = inspect.isclass(public) and not is_error and name[0].islower()
    callable_ = public if inspect.isfunction(public) else public.__init__ if is_made else None
    members = public_methods(public) if inspect.isclass(public) and not is_error else {}
    return page(
        f"## tracekit.{name}",
        _signature(f"tracekit.{name}", callable_) if callable_ else "",
        _words(public),
        *(_member(name, each, member) for each, member in members.items()),
    ).strip()


def python_page() -> str:
    return page(
        "# Python API",
        "The names are those of the command line. Each [question](questions/index.md) is a method "
        "of a `Database`, too: `run.top_kernels(top=5)`.",
        *map(_section, sorted(tracekit.__all__)),
    )
