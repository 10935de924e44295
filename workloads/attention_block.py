"""A transformer block, eager: layer norms, attention by one fused call, and the gated MLP.

https://arxiv.org/abs/1706.03762, normalized before each half as in https://arxiv.org/abs/2002.04745.
"""

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend

from tracekit.workloads import mlp
from tracekit.workloads.base import Shape, Workload

_HEAD = 64


class Block:
    """(batch, seq, dim) to the same; heads of 64 features, or one if 64 does not divide dim."""

    def __init__(self, shape: Shape) -> None:
        self.mlp = mlp.Mlp(shape)
        dim = shape.dim
        self.heads = dim // _HEAD if dim % _HEAD == 0 else 1
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


def build(shape: Shape) -> Workload:
    block = Block(shape)
    x = shape.random(shape.batch, shape.seq, shape.dim, seed=0)
    return Workload(
        torch.no_grad()(lambda: block(x)),
        torch.no_grad()(lambda: block.in_float32(x)),
        f"eager, {block.backend(x)}",
    )
