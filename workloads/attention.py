"""Causal attention by hand, and by each backend of PyTorch's own function; and a transformer block.

The sizes of attention are those of a published walkthrough (8 x 1024 positions, 16 heads of 64
features, bfloat16): https://huggingface.co/blog/torch-attention-profile
"""

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tracekit.workloads import mlp
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
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

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
    """True for positions that come later."""
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


class Block:
    """A transformer block, eager: layer norms, attention by one fused call, and the gated MLP.

    (batch, seq, dim) to the same; heads of 64 features, or one if 64 does not divide dim.
    https://arxiv.org/abs/1706.03762, normalized before each half as in
    https://arxiv.org/abs/2002.04745.
    """

    def __init__(self, shape: Shape) -> None:
        self.mlp = mlp.Mlp(shape)
        dim = shape.dim
        self.heads = dim // HEAD if dim % HEAD == 0 else 1
        self.qkv = shape.random(3 * dim, dim, seed=11, scale=dim**-0.5)
        self.out = shape.random(dim, dim, seed=12, scale=dim**-0.5)

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward(x, self.qkv, self.out, self.mlp)

    def in_float32(self, x: Tensor) -> Tensor:
        """The same answer, every step computed in float32."""
        return self._forward(x.float(), self.qkv.float(), self.out.float(), self.mlp.in_float32)

    def _forward(self, x: Tensor, qkv: Tensor, out: Tensor, inner: object) -> Tensor:
        batch, seq, dim = x.shape
        q, k, v = self._heads(x, qkv)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + functional.linear(mixed.transpose(1, 2).reshape(batch, seq, dim), out)
        return x + inner(functional.layer_norm(x, (dim,)))  # type: ignore[no-any-return, operator]

    def _heads(self, x: Tensor, qkv: Tensor) -> tuple[Tensor, ...]:
        batch, seq, dim = x.shape
        packed = functional.linear(functional.layer_norm(x, (dim,)), qkv)
        return packed.view(batch, seq, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)

    @torch.no_grad()
    def backend(self, x: Tensor) -> str:
        """The backend of attention that PyTorch chooses, such as `flash attention` or `math`."""
        chosen = torch._fused_sdp_choice(*self._heads(x, self.qkv), is_causal=True)
        return SDPBackend(chosen).name.lower().replace("_", " ")


def block(shape: Shape) -> Workload:
    """The block, with the backend of attention that it gets in its variant."""
    made = Block(shape)
    x = shape.random(shape.batch, shape.seq, shape.dim, seed=0)
    return Workload(
        torch.no_grad()(lambda: made(x)),
        torch.no_grad()(lambda: made.in_float32(x)),
        f"eager, {made.backend(x)}",
    )
