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

_LIBRARY = torch.library.Library("tracekit", "FRAGMENT")


def operator(
    schema: str, fake: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the operator of this schema, and returns the operator.

    `fake` gives the shapes of the results without computing them. The operator has no gradients of
    its own: the caller wraps it in an autograd function where gradients are needed.
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


def adjacent(x: Tensor) -> Tensor:
    """`x` with adjacent columns; copied only if they are not adjacent."""
    return x if x.stride(-1) == 1 else x.contiguous()
