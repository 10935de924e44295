"""Every command, query and program in the README and the pages beside it runs, in order; what
CONTRIBUTING.md names is there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import tracekit
from tests.conftest import OWN_TRACES, SHARED_TRACES
from tracekit.database.facts import facts

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / name).read_text()
    for name in (
        "README.md",
        "docs/tutorial/tour.md",
        "docs/howto/profile.md",
        "examples/walkthrough.md",
        "queries/README.md",
        "workloads/README.md",
    )
}
QUERIES = PAGES["queries/README.md"]
SIMULATED = "simulated-overhead-bound.json.gz"
COMPUTE_BOUND = "simulated-compute-bound.json.gz"
# A trace with rows for queries whose first line has this word in parentheses.
ASKED = {
    "modules": "h100-bert-small.json.gz",
    "allocations": "h100-bert-small.json.gz",
    "a server": "mi300x-vllm-decode.json.gz",
    "collectives": "a100-nccl.json.gz",
}


def blocks(language: str) -> list[str]:
    text = "\n".join(PAGES.values())
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def tour(page: str) -> list[tuple[str, str]]:
    """The commands and programs of a page, with their language."""
    return re.findall(r"^```(sh|python)\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)


def commands(language: str, text: str) -> list[list[str]]:
    """A block's commands with their arguments: a program, or lines; a shell runs those that need
    one."""
    if language == "python":
        return [[sys.executable, "-c", text]]
    return [
        shlex.split(line)
        if line.startswith("tracekit ") and not set(line) & set("|&<>*")
        else ["sh", "-ec", line]
        for line in text.splitlines()
    ]


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["README.md", "docs/tutorial/tour.md", "docs/howto/profile.md", "workloads/README.md"]
)
def test_the_tour_runs_from_top_to_bottom(page, run, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    blocks = tour(page)
    assert len(blocks) >= 2
    for command in (each for language, text in blocks for each in commands(language, text)):
        if command[0] == "tracekit":
            done = run(*command[1:])
        else:
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
        assert done.returncode == 0, (command, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("query", blocks("sql"))
def test_its_queries_answer(query, shared_database):
    trace = next((name for word, name in ASKED.items() if f"({word}" in query), SIMULATED)
    if "(two runs" in query:
        with tracekit.load([OWN_TRACES / SIMULATED, OWN_TRACES / COMPUTE_BOUND]) as run:
            assert run.sql(query).height > 0
        return
    assert shared_database(trace).sql(query).height > 0


def require_shown(shown: str, output: str) -> None:
    """Compares what a page shows with the output; with ACCEPT=1, the page gets the output."""
    printed = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
    for page in (ROOT / name for name in PAGES if os.environ.get("ACCEPT")):
        page.write_text(page.read_text().replace(shown, printed))
    assert printed == shown or os.environ.get("ACCEPT"), "ACCEPT=1 puts the output into the page"


def test_its_first_screen_shows_what_is_printed(run):
    trace = SHARED_TRACES / "h100-bert-small.json.gz"
    if not trace.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    (shown,) = blocks("text")
    require_shown(shown, run("analyze", str(trace)).stdout.replace(str(trace), trace.name))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("block", blocks("console"))
def test_its_tour_shows_what_is_printed(block, run, tmp_path):
    name = "h100-bert-small.json.gz"
    if not (SHARED_TRACES / name).exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    shutil.copy(SHARED_TRACES / name, tmp_path)
    prompt, _, shown = block.partition("\n")
    require_shown(shown, run(*shlex.split(prompt.removeprefix("$ tracekit "))).stdout)


def test_its_vocabulary_is_that_of_a_database(shared_database):
    table = QUERIES.split("## The SQL vocabulary")[1].split("A **fact** is a table")[0]
    names = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    _, rows = shared_database("simulated-overhead-bound.json.gz").fetch("SHOW TABLES")
    assert len(names) == len(set(names))
    # Of other facts, the header says what a row is.
    assert {row[0] for row in rows} - facts().keys() <= set(names) <= {row[0] for row in rows}


def definitions() -> list[tuple[list[str], list[str], str]]:
    """The table of numbers: words that are printed, patterns of JSON keys, and a file."""
    table = QUERIES.split("### Where each number is defined")[1].split("Three queries")[0]
    rows = re.findall(r"^\| (.*?) \| (`.*?) \| (\S+) \|$", table, re.MULTILINE)
    return [
        (*(re.findall(r"`(.*?)`", cell) for cell in (said, keys)), file)
        for said, keys, file in rows
    ]


def numbers(value: object, path: str = "") -> set[str]:
    """The paths of a JSON value's numbers, those of windows and devices as of the main one."""
    if isinstance(value, dict):
        return {each for key, part in value.items() for each in numbers(part, f"{path}.{key}")}
    if isinstance(value, list):
        return {each for part in value for each in numbers(part, path)}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    kept = re.sub(
        r"^(steps\.|windows\.|judged\.|verdict\.(?=window))?(causal\.)?", "", path.removeprefix(".")
    )
    return {re.sub(r"^devices\.", "gpu.", kept)} if is_number else set()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["h100-bert-small", "v100-ns-resolution", "cpu-only", "pair-rank0"]
)
def test_each_number_that_is_printed_is_defined_in_one_file(name, shared_verdict, capsys):
    from tracekit.reporters import console

    analysis = shared_verdict(f"{name}.json.gz")
    table = definitions()
    for number in numbers(analysis.as_dict()):
        found = {file for _, keys, file in table if any(fnmatch(number, key) for key in keys)}
        assert len(found) == 1, (
            f"queries/README.md, numbers: {number} is defined in {found or 'no row'}"
        )
        assert (ROOT / found.pop()).is_file()
    console.render(analysis)
    printed = capsys.readouterr().out
    said = {word for words, *_ in table for word in words}
    parts = re.split(r"\nWhere the time went .*\n", printed)[-1].split("\n\n")[0]
    labels = {re.split(r"  +", line)[0] for line in parts.splitlines()}
    labels |= {
        heading
        for line in printed.splitlines()
        if re.match(r"window +length|share +total|range +length", line)
        for heading in re.split(r"  +", line.strip())
    } - {"window", "range", "kernel", "verdict"}
    labels = {label for label in labels if not re.match("waits(, most)? in ", label)}
    assert labels & {"compute", "communication"}
    assert labels - said == set(), "printed, and in no row of queries/README.md"


# -- CONTRIBUTING.md -------------------------------------------------------------------------------

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
# Placeholders for any name.
_ANY = re.compile(r"\b(TOPIC|NAME|VENDOR)\b")


def test_each_file_and_folder_that_it_names_is_there():
    named = set(re.findall(r"`((?:queries|tracekit|tests|docs|workloads)[\w/.]*)`", CONTRIBUTING))
    assert len(named) > 15
    assert {each for each in named if not list(ROOT.glob(_ANY.sub("*", each)))} == set()


def test_each_command_that_it_shows_names_things_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", CONTRIBUTING, re.MULTILINE))
    assert {one or other for one, other in shown} <= targets
    files = re.findall(r"pytest -n 0 ((?:tests/[\w/.]+ ?)+)", CONTRIBUTING)
    assert files and all((ROOT / each).exists() for line in files for each in line.split())


def test_each_list_of_rules_that_it_names_is_in_its_file():
    for name, file in re.findall(r"`([A-Z_]+)` in `([\w/.]+\.py)`", CONTRIBUTING):
        assert re.search(rf"^{name}\b", (ROOT / file).read_text(), re.MULTILINE), (name, file)
