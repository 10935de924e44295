"""Imports run one way: from the commands down to what knows nothing of the rest."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tracekit"
# From the lowest room up: a module imports from its own room, and from those before it. A room
# within another one has its own line.
ROOMS = [
    "errors", "text", "causes", "thresholds", "files", "records", "shown", "workloads", "queries",
    "native", "trace", "database", "ingest", "replay.graph", "replay", "evidence", "advice",
    "verdict", "examine", "compare", "run", "lake", "perfetto", "capture", "experiments",
    "reporters", "budgets", "frameworks", "agents", "schemas", "commands", "pytest_plugin",
    "__main__",
]  # fmt: skip
# What it holds is loaded when it is first used.
FRONT = "__init__"


@cache
def modules() -> dict[str, ast.Module]:
    """Each module's syntax tree, by its name within the package."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text())
    return found


def imports(tree: ast.Module) -> set[str]:
    """The names within the package that a module imports anywhere, but for types alone."""
    for_types = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tracekit":
            inside = (node.module or "").removeprefix("tracekit").lstrip(".")
            found |= {f"{inside}.{each.name}".lstrip(".") for each in node.names}
        if isinstance(node, ast.Import):
            found |= {
                each.name.removeprefix("tracekit.")
                for each in node.names
                if each.name.startswith("tracekit.")
            }
    return found


@cache
def graph() -> dict[str, set[str]]:
    """Which modules each module imports."""
    trees = modules()
    return {
        name: {
            target
            for each in imports(tree)
            for target in [each if each in trees else each.rpartition(".")[0]]
            if target in trees and target != name
        }
        for name, tree in trees.items()
    }


def room(module: str) -> str:
    """The innermost room that a module is in."""
    parts = module.split(".")
    inner = ".".join(parts[:2])
    return inner if inner in ROOMS else parts[0]


def test_every_module_is_in_a_room():
    assert {room(name) for name in modules()} <= {*ROOMS, FRONT}


def test_no_module_imports_from_a_room_above_its_own():
    upward = [
        (name, target)
        for name, targets in graph().items()
        for target in targets
        if name != FRONT and target != FRONT and ROOMS.index(room(target)) > ROOMS.index(room(name))
    ]
    assert upward == []


def test_no_modules_import_each_other_in_a_circle():
    without_front = {name: targets - {FRONT} for name, targets in graph().items()}
    # Raises CycleError, naming the circle.
    tuple(TopologicalSorter(without_front).static_order())


def test_no_two_classes_have_one_name():
    named = Counter(
        node.name
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, classes in named.items() if classes > 1] == []


def test_importing_tracekit_loads_nothing_heavy():
    program = (
        "import sys, tracekit; from tracekit.commands import cli\n"
        "for name in cli.list_commands(None): cli.get_command(None, name)\n"
        "heavy = {'torch', 'triton', 'hta', 'altair', 'ray', 'polars', 'pandas'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
