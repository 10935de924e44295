"""Causal attention by hand, and by each backend of PyTorch's own function.

The sizes are those of a published walkthrough (8 x 1024 positions, 16 heads of 64 features,
bfloat16): https://huggingface.co/blog/torch-attention-profile
"""

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tracekit.workloads.base import Shape, Workload

HEAD = 64


def naive(shape: Shape) -> Workload:
    """Two products, a scale, a mask and a softmax, each into memory of its own."""
    return _by_hand(shape, "naive", Tensor.masked_fill)


def inplace(shape: Shape) -> Workload:
    """The same, with the mask written into the scores."""
    return _by_hand(shape, "in place", Tensor.masked_fill_)


def _by_hand(shape: Shape, variant: str, masked: Callable[..., Tensor]) -> Workload:
    q, k, v = _inputs(shape)
    mask = _mask(shape)
    step = torch.no_grad()(lambda: _attention(q, k, v, mask, masked))
    return Workload(step, partial(_reference, q, k, v, mask), variant)


def sdpa(shape: Shape, backend: SDPBackend) -> Workload:
    """scaled_dot_product_attention with this backend alone.

    Raises:
        ValueError: when the backend does not compute these sizes on this device.
    """
    q, k, v = _inputs(shape)

    @torch.no_grad()
    def step() -> Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=True)

    name = backend.name.lower().removesuffix("_attention")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            step()
        except RuntimeError as error:
            reasons = [str(each.message) for each in said] or [str(error)]
            raise ValueError(f"no {name} attention here: {reasons[-1].splitlines()[0]}") from error
    return Workload(step, partial(_reference, q, k, v, _mask(shape)), f"sdpa {name}")


sdpa_math = partial(sdpa, backend=SDPBackend.MATH)
sdpa_efficient = partial(sdpa, backend=SDPBackend.EFFICIENT_ATTENTION)
sdpa_flash = partial(sdpa, backend=SDPBackend.FLASH_ATTENTION)
sdpa_cudnn = partial(sdpa, backend=SDPBackend.CUDNN_ATTENTION)


def _inputs(shape: Shape) -> list[Tensor]:
    if shape.dim % HEAD:
        raise ValueError(f"dim must be a multiple of {HEAD}, the features of a head")
    sizes = shape.batch, shape.dim // HEAD, shape.seq, HEAD
    return [shape.random(*sizes, seed=seed) for seed in range(3)]


def _mask(shape: Shape) -> Tensor:
    """True where a position would see a later one."""
    ones = torch.ones(shape.seq, shape.seq, dtype=torch.bool, device=shape.device)
    return ones.triu(1)


def _attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, masked: Callable[..., Tensor]
) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * HEAD**-0.5
    return torch.softmax(masked(scores, mask, float("-inf")), dim=-1) @ v


@torch.no_grad()
def _reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return _attention(q.float(), k.float(), v.float(), mask, Tensor.masked_fill)
