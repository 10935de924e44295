"""Imports go one way: from the commands down to modules that import nothing else of the package."""

import ast
import tomllib
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

# One worker parses the modules.
pytestmark = pytest.mark.xdist_group("rooms")
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tracekit"
# From the lowest room up: a module imports only from its own room and those before it. A room
# within another one has its own line.
ROOMS = [
    "version", "text", "errors", "stages", "causes", "thresholds", "files", "plugins",
    "records", "workloads", "queries", "native", "trace", "database", "units", "ingest",
    "replay.graph", "replay", "evidence", "advice", "verdict", "examine", "verdicts", "compare",
    "lake", "opening", "perfetto", "capture", "experiments", "reporters", "budgets", "frameworks",
    "run", "agents", "schemas", "commands", "pytest_plugin", "__main__",
]  # fmt: skip
# Functions that import a module by its name in a text.
BY_TEXT = ("import_module", "__import__")
# Its contents are loaded on first use.
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
    """The names within the package that a module imports anywhere: to run, for types, or by a
    string that it gives to an importing function (only its beginning, if the rest is computed)."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.Call) and _name_of(node.func).endswith(BY_TEXT):
            found |= {
                each.value.rstrip(".")
                for argument in node.args
                for each in ast.walk(argument)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return {each.removeprefix("tracekit").lstrip(".") for each in found if is_inside(each)}


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_inside(name: str) -> bool:
    return name.partition(".")[0] == "tracekit"


@cache
def graph() -> dict[str, set[str]]:
    """Which modules each module imports."""
    trees = modules()

    def target(name: str) -> str:
        if name in trees or name in ROOMS:
            return name
        return name.rpartition(".")[0] or FRONT

    return {
        name: {each for each in map(target, imports(tree)) if each in trees and each != name}
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
    order = [*ROOMS, FRONT]
    upward = [
        (name, target)
        for name, targets in graph().items()
        for target in targets
        if order.index(room(target)) > order.index(room(name))
    ]
    assert upward == []


def test_no_modules_import_each_other_in_a_circle():
    # Raises CycleError, naming the circle.
    tuple(TopologicalSorter(graph()).static_order())


def test_no_two_classes_have_one_name():
    named = Counter(
        node.name
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, classes in named.items() if classes > 1] == []


@cache
def structs() -> set[str]:
    """The names of the package's structs."""
    classes = [
        (node.name, {getattr(base, "id", "") for base in node.bases})
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    names: set[str] = set()
    while more := {name for name, bases in classes if bases & (names | {"Struct"})} - names:
        names |= more
    return names


def test_tests_build_structs_by_keyword():
    for path in (ROOT / "tests").rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        imported = {
            name.asname or name.name
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            if (node.module or "").removeprefix("tracekit.") in modules()
            for name in node.names
            if name.name in structs()
        }
        calls = [each for each in nodes if isinstance(each, ast.Call) and each.args]
        assert [(path.name, each.lineno) for each in calls if _name_of(each.func) in imported] == []


def test_each_package_and_each_file_of_queries_ships():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    rooms = {".".join(file.parent.relative_to(ROOT).parts) for file in PACKAGE.rglob("__init__.py")}
    assert rooms <= set(settings["packages"])
    queries = ROOT / "queries"
    shipped = {
        file for each in settings["package-data"]["tracekit.queries"] for file in queries.glob(each)
    }
    files = {
        file for file in queries.rglob("*.*") if file.suffix in (".sql", ".csv", ".txt", ".md")
    }
    assert files == shipped
