"""A small language model is trained, one batch a step: a trace of it has lines and modules.

tracekit capture examples.transformer:step --stacks -o transformer.json.gz
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
WORDS, WIDTH, HEADS, LAYERS, BATCH, LENGTH = 1000, 128, 4, 2, 8, 64


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attend(self.before(hidden))
        return hidden + self.feed(self.between(hidden))

    def attend(self, hidden: Tensor) -> Tensor:
        heads = self.qkv(hidden).unflatten(-1, (3, HEADS, -1)).transpose(1, 3)
        q, k, v = heads.unbind(2)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embedding(tokens)))


model = Model().to(DEVICE, DTYPE)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses: list[float] = []


def batch() -> Tensor:
    """Tokens as a loader would give them, on the CPU."""
    return torch.randint(0, WORDS, (BATCH, LENGTH + 1))


def step() -> None:
    """One forward, backward and update."""
    tokens = batch().to(DEVICE)
    logits = model(tokens[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
