"""Registers the kernels' functions with PyTorch's dispatcher, as operators `tracekit::NAME`.

A trace then has the operator's name and the shapes of its inputs, from which its FLOPs follow, and
torch.compile takes the operator as it is. `torch.library.custom_op` would do the same, but costs 50
us a call in Python where this costs 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_LIBRARY = torch.library.Library("tracekit", "FRAGMENT")


def operator(
    schema: str, fake: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the operator of this schema, and returns the operator.

    `fake` gives the shapes of the results without computing them. The operator has no gradients of
    its own: see `with_gradients`.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = _LIBRARY.define(schema)
        _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"tracekit::{name}", fake, lib=_LIBRARY)
        found: Callable[..., Any] = getattr(torch.ops.tracekit, name).default
        return found

    return register


def needs_gradients(*tensors: Tensor) -> bool:
    """Whether autograd records what happens to any of the tensors."""
    return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)


def with_gradients(
    fused: Callable[..., Any], plain: Callable[..., Tensor], *inputs: Tensor, **named: Any
) -> Tensor:
    """The answer of an operator. Its gradients are those of `plain`, which computes the same by
    PyTorch's operators; it runs in the backward pass, so nothing but the inputs is kept."""
    if needs_gradients(*inputs):
        return _Recomputed.apply(fused, plain, named, *inputs)  # type: ignore[no-any-return, no-untyped-call]
    return fused(*inputs, **named)  # type: ignore[no-any-return]


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fused: Any, plain: Any, named: dict[str, Any], *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        ctx.plain, ctx.named = plain, named
        return fused(*inputs, **named)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors]
        with torch.enable_grad():
            out = ctx.plain(*inputs, **ctx.named)
        return (None, None, None, *torch.autograd.grad(out, inputs, grad))


def adjacent(x: Tensor) -> Tensor:
    """`x` with adjacent columns; copied only if they are not adjacent."""
    return x if x.stride(-1) == 1 else x.contiguous()
