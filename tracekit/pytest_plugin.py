"""A pytest plugin that checks a step of the user's program against a budget.

    @pytest.mark.tracekit(launches=40, synchronizations=0, time=1.2)
    def test_training_step(tracekit_profile):
        tracekit_profile(train_step)

pytest loads it in every run where tracekit is installed, so it imports nothing until used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tracekit.budgets import StepBudget


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tracekit", "budgets for steps of PyTorch programs")
    group.addoption(
        "--tracekit-update",
        action="store_true",
        help="store the figures of profiled steps next to each test's file",
    )
    group.addoption(
        "--tracekit-dir",
        default=".tracekit",
        help="folder for traces and reports of steps that exceed their budgets "
        "[default: %(default)s]",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "tracekit(**budget): limits on a step, for the fixture tracekit_profile: "
        "operators, launches, synchronizations, allocations, copied_bytes, kernels, "
        "kernels_by_class, graph_breaks, host_share, regime, and time as a multiple of the stored "
        "time; without a budget, the stored counts are the limits",
    )


@pytest.fixture
def tracekit_profile(request: pytest.FixtureRequest) -> StepBudget:
    """Profiles a step, and fails the test if it exceeds the budget in the mark `tracekit`."""
    from tracekit.budgets import StepBudget

    mark = request.node.get_closest_marker("tracekit")
    if mark is not None and mark.args:
        pytest.fail(
            "the mark tracekit takes names and values: tracekit(launches=40)", pytrace=False
        )
    return StepBudget(
        test=request.node.nodeid,
        folder=request.node.path.parent,
        leave=Path(request.config.rootpath, request.config.getoption("--tracekit-dir")),
        budget={} if mark is None else mark.kwargs,
        update=request.config.getoption("--tracekit-update"),
    )
