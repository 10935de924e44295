"""Where test traces come from, and the environment that tests run in."""

import os
from pathlib import Path

# Where kernels are tested: on `cuda` as they are, on `cpu` in Triton's interpreter.
os.environ.setdefault("TRACEKIT_TEST_DEVICE", "cpu")
# The user's cache is not for tests.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / "build" / "cache")
# Before anything imports triton.
os.environ["TRITON_INTERPRET"] = "1" if os.environ["TRACEKIT_TEST_DEVICE"] == "cpu" else "0"

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

import tracekit

# Whether a property holds does not depend on how fast the machine is.
settings.register_profile("tracekit", deadline=None)
settings.load_profile("tracekit")

# `make test-all` tries everything; `make test` a part of what is random or repeats.
IS_ALL = os.environ.get("TRACEKIT_TEST_ALL") == "1"

TEST_DEVICE = os.environ["TRACEKIT_TEST_DEVICE"]
SHARED_TRACES = Path(__file__).parents[2] / "shared" / "traces"


def expected_numbers() -> dict[str, dict[str, int]]:
    """The exact numbers of the shared real traces; empty where they are not at hand."""
    file = SHARED_TRACES / "expected.json"
    return json.loads(file.read_text()) if file.exists() else {}


def shared_trace_names() -> list:
    """Parameters for tests over all shared traces: one skipped test where they are not at hand."""
    return sorted(expected_numbers()) or [
        pytest.param("", marks=pytest.mark.skip(f"no real traces at {SHARED_TRACES}"))
    ]


@pytest.fixture(scope="session")
def shared_database(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], tracekit.Database]]:
    """Opens a shared real trace by its file name; each is loaded once."""
    folder = tmp_path_factory.mktemp("shared")
    opened: dict[str, tracekit.Database] = {}

    def get(name: str) -> tracekit.Database:
        path = SHARED_TRACES / name
        if not path.exists():
            pytest.skip(f"no real traces at {SHARED_TRACES}")
        if name not in opened:
            opened[name] = tracekit.load(path, folder / f"{name}.duckdb")
        return opened[name]

    yield get
    for each in opened.values():
        each.close()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `tracekit ...` as a user would, in an empty directory."""

    def command(
        *arguments: str, stdin: bytes = b"", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        done = subprocess.run(
            [Path(sys.executable).parent / "tracekit", *arguments],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=inherited | environment,
            timeout=300,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return command
