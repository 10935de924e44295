"""Attention scores, one head at a time and all at once: examples/diagnosis.md compares the two."""

import torch

HEADS, TOKENS, FEATURES = 32, 16, 32
q, k = torch.randn(2, HEADS, TOKENS, FEATURES)


def loop() -> torch.Tensor:
    """One product per head, as a first version often does."""
    return torch.stack([q[head] @ k[head].T for head in range(HEADS)])


def batched() -> torch.Tensor:
    """The same scores with one product."""
    return q @ k.transpose(1, 2)
