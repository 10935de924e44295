"""The tests that `make gpu-check` runs: how many it selects, and which have passed already.

    python -m tests.bench.gpu_tests sanitize cuda -k silu

As a plugin of pytest (`-p tests.bench.gpu_tests`), it never skips a test for good: it notes the
tests that pass in the file GPU_CHECK_PASSED, and leaves them out of later runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.bench.gpu_check import EXTENSION, KERNELS, ROOT

GLU, GATE_UP = "test_glu_is_exact_to_the_dtype_in_any_shape", "test_products_hold_for_any_size"
EACH, TILES = "test_every_activation_is_computed", "test_every_tile_of_the_search"
OPERATOR = "test_the_operator_agrees_with_eager"
DTYPES = {"float32", "float16", "bfloat16"}
# The fewest cases per test with which a selection says anything about the kernels.
LEAST = {
    "tests": {GLU: 21, GATE_UP: 60, EACH: 12, TILES: 18, OPERATOR: 12},
    "sanitize": {EACH: 3, TILES: 6, OPERATOR: 3},
}


def collected(device: str, choice: list[str]) -> list[str]:
    """The cases that pytest selects on `device`, which need not be here."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", KERNELS, EXTENSION, *choice],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TRACEKIT_TEST_DEVICE": device},
    )
    listed = done.stdout.partition("\n\n")[0].splitlines()
    return [line for line in listed if line.startswith("tests/") and "::" in line]


def dtypes(cases: list[str]) -> set[str]:
    """The dtypes that cases name."""
    return {found for each in cases for found in re.findall(r"torch\.(\w*float\d+)", each)}


def tiles(cases: list[str]) -> set[str]:
    """The tiles of the search that cases name."""
    return {each.partition("[")[2].rpartition("-torch")[0] for each in cases if TILES in each}


def too_few(part: str, cases: list[str]) -> list[str]:
    """The gaps of a selection, as sentences."""
    counts = Counter(name for each in cases for name in LEAST[part] if name in each)
    lacking = [
        f"{name}: {counts[name]} cases, not {least}"
        for name, least in LEAST[part].items()
        if counts[name] < least
    ]
    triton = [each for each in cases if KERNELS in each]
    if missing := DTYPES - dtypes(triton):
        lacking.append(f"no Triton case in {', '.join(sorted(missing))}")
    return lacking


def main() -> int:
    """Returns 1 if too few tests are selected on a GPU."""
    part, device, *choice = sys.argv[1:]
    cases = collected(device, choice)
    print(f"{len(cases)} tests, {len(tiles(cases))} tiles; {', '.join(sorted(dtypes(cases)))}")
    lacking = too_few(part, cases) if device != "cpu" else []
    print(*lacking, sep="\n", end="\n" if lacking else "")
    return int(bool(lacking) or not cases)


def _passed() -> Path | None:
    named = os.environ.get("GPU_CHECK_PASSED")
    return Path(named) if named else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    path = _passed()
    if path and path.exists():
        before = set(path.read_text(encoding="utf-8").splitlines())
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid in before])
        items[:] = [each for each in items if each.nodeid not in before]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = _passed()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if path and report.when == "call" and report.passed and not is_worker:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """All tests that are left out have passed."""
    if _passed() and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not session.testsfailed:
        before = _passed()
        if before and before.exists():
            session.exitstatus = pytest.ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
