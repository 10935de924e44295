"""Every command, query and program in the README runs, in its order."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SHARED_TRACES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_tour_runs_from_top_to_bottom(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    ordered = re.findall(r"^```(sh|python)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert len(ordered) >= 8
    for language, text in ordered:
        command = ["sh", "-ec", text] if language == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, text + done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("query", blocks("sql"))
def test_its_queries_answer(query, shared_database):
    assert shared_database("h100-bert-small.json.gz").sql(query).height > 0


def test_its_console_output_is_real(run):
    trace = SHARED_TRACES / "h100-bert-small.json.gz"
    if not trace.exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    (shown,) = blocks("text")
    printed = run("analyze", str(trace)).stdout.replace(str(trace), trace.name)
    assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()


@pytest.mark.parametrize("block", blocks("console"))
def test_its_tour_shows_what_is_printed(block, run, tmp_path):
    name = "h100-bert-small.json.gz"
    if not (SHARED_TRACES / name).exists():
        pytest.skip(f"no real traces at {SHARED_TRACES}")
    shutil.copy(SHARED_TRACES / name, tmp_path)
    prompt, *shown = block.splitlines()
    done = run(*shlex.split(prompt.removeprefix("$ tracekit ")))
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown


def test_its_vocabulary_exists(shared_database):
    table = README.split("## The SQL vocabulary")[1].split("Three queries")[0]
    names = set(
        re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    )
    _, rows = shared_database("h100-bert-small.json.gz").fetch("SHOW TABLES")
    assert names
    assert names <= {row[0] for row in rows}
