"""Samples of test cases: `make test` runs a part of them; `make test-all`, and a run on a GPU,
runs all."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sized
from typing import TypeVar

import pytest

IS_ON_GPU = os.environ.get("TRACEKIT_TEST_DEVICE", "cpu") != "cpu"
IS_ALL = IS_ON_GPU or os.environ.get("TRACEKIT_TEST_ALL") == "1"
# Descriptions of the cases that this run leaves out.
LEFT_OUT: set[str] = set()

Sampled = TypeVar("Sampled")


def sample(what: str, everything: Sampled, part: Sampled) -> Sampled:
    """`part`, and a line about it at the end of the run; in `make test-all`, `everything`.

    Args:
        what: a description of the cases.
        everything: all cases, or their number.
        part: the cases, or their number, that fit into the time of every push.
    """
    if IS_ALL:
        return everything
    tried, all_ = (len(n) if isinstance(n, Sized) else n for n in (part, everything))
    LEFT_OUT.add(f"{what}: {tried:,} of {all_:,} tried")
    return part


class Sampling:
    """Of the cases that `-k` chose, leaves out thorough ones, and most of sampled tests."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if IS_ALL:
            return
        tests: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            file, _, name = item.location
            tests[f"{file}::{name.partition('[')[0]}"].append(item)
        left_out: set[pytest.Item] = set()
        for test, cases in tests.items():
            if thorough := {each for each in cases if each.get_closest_marker("thorough")}:
                LEFT_OUT.add(f"{test}: {len(thorough)} thorough")
            left_out |= thorough
            mark = cases[0].get_closest_marker("sampled")
            if mark and len(cases) > 1:
                tried = cases[:: mark.args[0]]
                LEFT_OUT.add(f"{test}: {len(tried)} of {len(cases)} tried")
                left_out |= {*cases} - {*tried}
        config.hook.pytest_deselected(items=[each for each in items if each in left_out])
        items[:] = [each for each in items if each not in left_out]
