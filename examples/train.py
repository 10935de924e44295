"""A training step to profile: tracekit capture examples.train:step, or examples/train.py."""

import torch

model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(256, 8)
)
optimizer = torch.optim.AdamW(model.parameters())
inputs, labels = torch.randn(32, 64), torch.randint(0, 8, (32,))


def step() -> None:
    """One forward, backward and update."""
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    for _ in range(5):
        step()
