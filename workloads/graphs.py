"""Captures calls as CUDA graphs:
https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

from collections.abc import Callable
from typing import Any

import torch


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """`call` as a CUDA graph, with one launch.

    The returned function replays the kernels of one call on that call's tensors, and returns its
    result. It does not repeat the call's host work.

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
    with torch.cuda.graph(graph):
        out = call()

    def replay() -> Any:
        graph.replay()
        return out

    return replay
