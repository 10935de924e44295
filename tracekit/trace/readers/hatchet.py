"""Triton's Proton (`data="tree"`, the default): a tree of scopes and kernels with totals of each,
and no times at which anything ran.

https://github.com/triton-lang/triton: third_party/proton/csrc/lib/Data/TreeData.cpp
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tracekit.trace.budget import OBJECT_BYTES, json_bytes
from tracekit.trace.other.converted import OpenedFile, texts

NAME = "proton (tree)"
ENDINGS = (".hatchet", ".hatchet_msgpack")

_SIGNS = re.compile(rb'"frame":\s*\{[^{}]*"name":\s*"ROOT"')
_PACKED = (b"\xa5frame", b"\xa4name\xa4ROOT")
_ROOT = "ROOT"
_TIME = re.compile(r"time \((ns|us|ms|s)\)")
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def sniff(opened: OpenedFile) -> bool:
    """Whether the file is a tree of Proton, as JSON or MessagePack."""
    is_packed = all(sign in opened.head for sign in _PACKED)
    return is_packed or _SIGNS.search(opened.head) is not None


def read(opened: OpenedFile) -> Iterator[bytes | dict[str, Any]]:
    """One event for each scope and kernel that has totals of its own, and the devices."""
    data = bytearray()
    while chunk := opened.read():
        opened.budget.require_room(len(data) + len(chunk))
        data += chunk
    is_json = data.lstrip()[:1] == b"["
    opened.budget.require_room(
        json_bytes(data.decode("utf-8", "replace")) if is_json else OBJECT_BYTES * len(data) // 4
    )
    try:
        decode = msgspec.json.decode if is_json else msgspec.msgpack.decode
        trees = decode(bytes(data), type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        opened.damage = f"its tree is damaged: {error}"
        trees = []
    roots = [each for each in trees if "frame" in each]
    yield from texts(event for root in roots for event in _nodes(root, opened))
    others = {key: value for tree in trees if "frame" not in tree for key, value in tree.items()}
    yield {"devices": others}


def _nodes(root: dict[str, Any], opened: OpenedFile) -> Iterator[dict[str, Any]]:
    """The nodes with totals, each with the names from the root to it."""
    waiting: list[tuple[dict[str, Any], list[str]]] = [(root, [])]
    while waiting:
        node, above = waiting.pop()
        opened.budget.spend(1)
        opened.budget.require_depth(len(above))
        frame, metrics = node.get("frame"), node.get("metrics")
        name = str(frame.get("name", "")) if isinstance(frame, dict) else ""
        path = above if name == _ROOT and not above else [*above, name]
        if isinstance(metrics, dict) and metrics:
            yield _event(name, path, metrics)
        children = node.get("children")
        if isinstance(children, list):
            waiting += [(each, path) for each in reversed(children) if isinstance(each, dict)]


def _event(name: str, path: list[str], metrics: dict[str, Any]) -> dict[str, Any]:
    """An event without a time: it has none."""
    args: dict[str, Any] = {"path": path}
    for key, value in metrics.items():
        unit = _TIME.fullmatch(key)
        if unit and isinstance(value, int | float):
            args["time_ns"] = round(value * _NS[unit[1]])
        else:
            args[key] = value
    return {"ph": "i", "cat": "proton_tree", "name": name, "pid": 0, "tid": 0, "args": args}
