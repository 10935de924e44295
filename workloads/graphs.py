"""Captures calls as CUDA graphs:
https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """`call` as a CUDA graph, with one launch.

    The returned function replays the kernels of one call on that call's tensors, and returns its
    result. It does not repeat the call's host work. If the capture fails, the current stream and
    all gradients are those from before: a capture computes nothing.

    Raises:
        RuntimeError: when the call cannot be captured.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    stream, before = torch.cuda.current_stream(), _gradients()
    try:
        with torch.cuda.graph(graph):
            out = call()
    except BaseException:
        # torch.cuda.graph leaves its own stream only when the capture ends well.
        torch.cuda.set_stream(stream)
        for tensor, gradient in before:
            tensor.grad = gradient
        raise

    def replay() -> Any:
        graph.replay()
        return out

    return replay


def _gradients() -> list[tuple[Tensor, Tensor | None]]:
    """Every parameter in this process, and its gradient."""
    tensors = [each for each in gc.get_objects() if issubclass(type(each), Tensor)]
    return [(each, each.grad) for each in tensors if each.is_leaf and each.requires_grad]
