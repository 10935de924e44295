"""CONTRIBUTING.md names files, commands and Python names that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
# Placeholders for any name.
_ANY = re.compile(r"\b(TOPIC|NAME|VENDOR)\b")


def test_each_file_and_folder_that_it_names_is_there():
    named = set(re.findall(r"`((?:queries|tracekit|tests|docs|workloads)[\w/.]*)`", TEXT))
    assert len(named) > 15
    assert {each for each in named if not list(ROOT.glob(_ANY.sub("*", each)))} == set()


def test_each_command_that_it_shows_names_things_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", TEXT, re.MULTILINE))
    assert {one or other for one, other in shown} <= targets
    files = re.findall(r"pytest -n 0 ((?:tests/[\w/.]+ ?)+)", TEXT)
    assert files and all((ROOT / each).exists() for line in files for each in line.split())


def test_each_list_of_rules_that_it_names_is_in_its_file():
    for name, file in re.findall(r"`([A-Z_]+)` in `([\w/.]+\.py)`", TEXT):
        assert re.search(rf"^{name}\b", (ROOT / file).read_text(), re.MULTILINE), (name, file)
