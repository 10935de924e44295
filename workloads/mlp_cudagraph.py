"""The gated MLP, eager, captured as a CUDA graph: five kernels, one launch."""

import torch
from torch import Tensor

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload


def build(shape: Shape) -> Workload:
    """Raises ValueError without a CUDA device: there is no graph to capture."""
    if shape.device.type != "cuda":
        raise ValueError("CUDA graphs need a CUDA device")
    return mlp.workload(shape, "cuda-graph", _captured)


class _captured:
    """Replays the kernels of one call, on the inputs of that call."""

    def __init__(self, module: mlp.Mlp) -> None:
        self.module = module
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.graph is None:
            # https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.module(x)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = self.module(x)
        self.graph.replay()
        return self.out
