"""The gated MLP, eager, captured as a CUDA graph: five kernels, one launch."""

from collections.abc import Callable

from torch import Tensor

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload
from tracekit.workloads.graphs import captured


def build(shape: Shape) -> Workload:
    """Raises ValueError without a CUDA device, which graphs need."""
    if shape.device.type != "cuda":
        raise ValueError("CUDA graphs need a CUDA device")
    return mlp.workload(shape, "cuda-graph", _captured)


class _captured:
    """Replays the kernels of one call, on the inputs of that call."""

    def __init__(self, module: mlp.Mlp) -> None:
        self.module = module
        self.replay: Callable[[], Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.replay is None:
            self.replay = captured(lambda: self.module(x))
        return self.replay()
