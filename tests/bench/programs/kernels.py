"""Kernels, as users write and time them. Each switch is a change that a user would try first."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tests.bench.programs.registry import Sized, program
from tracekit.experiments.timing import Step


@program(3, fused="fused-norms", graphed="cuda-graph", compiled="torch-compile")
def benchmark_loop_with_one_sync(
    make: Sized, fused: bool = False, graphed: bool = False, compiled: bool = False
) -> Step:
    """A hundred runs of a norm written by hand, and one wait at the end."""
    dtype = make.pick(torch.bfloat16, torch.float32)
    x = make.random(*make.pick((2048, 4096), (4, 16)), dtype=dtype)
    weight = make.random(x.shape[1], dtype=dtype)

    def norm(x: Tensor) -> Tensor:
        if fused:
            return functional.rms_norm(x, weight.shape, weight, 1e-6)
        wide = x.float()
        return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(dtype)

    run = make.compiled(norm) if compiled else norm

    @torch.no_grad()
    def once() -> Tensor:
        return run(x)

    timed = make.graphed(once) if graphed else once

    def step() -> None:
        for _ in range(make.pick(100, 5)):
            timed()
        if make.is_gpu:
            torch.cuda.synchronize()

    return step


def _turned(points: Tensor, turns: Tensor) -> Tensor:
    """Points (count, 3), turned by quaternions (count, 4)."""
    w, x, y, z = (turns / turns.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
        torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
        torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
    ]
    return (torch.stack(rows, -2) @ points[..., None])[..., 0]


@program(3, graphed="cuda-graph", compiled="torch-compile", larger=("larger-batch", 16))
def many_small_kernels(
    make: Sized, graphed: bool = False, compiled: bool = False, larger: bool = False
) -> Step:
    """A library of geometry: bodies are turned and moved by many small operators."""
    count = make.pick(512, 8) * (16 if larger else 1)
    points, turns = make.random(count, 3), make.random(count, 4)
    speeds = make.random(count, 3)

    def moved(points: Tensor) -> Tensor:
        for _ in range(make.pick(10, 2)):
            there = _turned(points, turns)
            away = torch.cross(there, speeds, dim=-1) * 0.01
            near = torch.where(there.norm(dim=-1, keepdim=True) > 2.0, there * 0.5, there)
            points = near + away.clamp(-1.0, 1.0)
        return points

    run = make.compiled(moved) if compiled else moved

    @torch.no_grad()
    def step() -> Tensor:
        return run(points)

    return make.graphed(step) if graphed else step
