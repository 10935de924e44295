"""Calls as CUDA graphs: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs"""

from collections.abc import Callable
from typing import Any

import torch


def captured(call: Callable[[], Any]) -> Callable[[], Any]:
    """`call` with one launch: replays its kernels on the tensors of one call, whose result it
    returns. What the call does on the host is not done again.

    Raises:
        RuntimeError: for a call that cannot be captured.
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
