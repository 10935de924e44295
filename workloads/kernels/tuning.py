"""Chooses among tiles and kernels by timing them on the device, once per size."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import torch
import triton
from triton.testing import do_bench

# Triton decides when a kernel is defined.
INTERPRETED = bool(triton.knobs.runtime.interpret)
_Name = TypeVar("_Name", bound=Hashable)


def device_us(calls: Mapping[_Name, Callable[[], object]]) -> dict[_Name, float]:
    """Median microseconds per call, with the L2 cache cleared before each.

    Leaves out a call that needs more shared memory or registers than the device has.
    """
    times = {}
    for name, call in calls.items():
        try:
            times[name] = do_bench(call, warmup=5, rep=30, return_mode="median") * 1e3
        except triton.OutOfResources:
            continue
    return times


def fastest(calls: Mapping[_Name, Callable[[], object]]) -> _Name:
    """The name of the fastest call on the device; the last one, which must run on every device, in
    Triton's interpreter, whose times say nothing."""
    names = list(calls)
    if INTERPRETED or len(names) == 1:
        return names[-1]
    times = device_us(calls)
    return min(times, key=times.__getitem__)


@functools.cache
def processors(device: torch.device) -> int:
    """The number of the device's multiprocessors; 2 in the interpreter."""
    if device.type == "cpu":
        return 2
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
