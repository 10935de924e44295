"""Models of the programs: a decoder with two kinds of cache, a convolutional net, and a U-Net."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.bench.programs.registry import Sized


class Sizes(NamedTuple):
    """The sizes of a decoder."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    longest: int


def decoder_sizes(make: Sized, layers: int = 4, width: int = 768) -> Sizes:
    """A small language model; on a CPU, one with next to nothing to do."""
    return make.pick(Sizes(layers, width, 12, 16_384, 1024), Sizes(2, 32, 2, 64, 64))


class DynamicCache:
    """Keys and values, appended in each pass."""

    def __init__(self, layers: int) -> None:
        self.length = 0
        self.kept: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def begin(self, count: int, device: torch.device) -> Tensor:
        """The positions of the next tokens."""
        rows = torch.arange(self.length, self.length + count, device=device)
        self.length += count
        columns = torch.arange(self.length, device=device)
        self.mask = None if count == 1 else columns <= rows[:, None]
        return rows

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if (before := self.kept[layer]) is not None:
            k, v = (torch.cat(each, dim=2) for each in zip(before, (k, v), strict=True))
        self.kept[layer] = k, v
        return k, v


class StaticCache:
    """Keys and values in buffers for the longest text. The position is on the device."""

    def __init__(self, sizes: Sizes, batch: int, like: Tensor) -> None:
        shape = batch, sizes.heads, sizes.longest, sizes.width // sizes.heads
        self.kept = [(like.new_zeros(shape), like.new_zeros(shape)) for _ in range(sizes.layers)]
        self.position = torch.zeros((), dtype=torch.long, device=like.device)
        self.columns = torch.arange(sizes.longest, device=like.device)

    def begin(self, count: int, device: torch.device) -> Tensor:
        """The positions of the next tokens."""
        self.rows = self.position + torch.arange(count, device=device)
        self.mask: Tensor | None = self.columns <= self.rows[:, None]
        self.position += count
        return self.rows

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        for kept, new in zip(self.kept[layer], (k, v), strict=True):
            kept.index_copy_(2, self.rows, new)
        return self.kept[layer]


Cache = DynamicCache | StaticCache


class Layer(nn.Module):
    """A layer of a decoder, normalized before each half."""

    def __init__(self, sizes: Sizes, number: int) -> None:
        super().__init__()
        self.number, self.heads = number, sizes.heads
        self.norm, self.norm2 = nn.LayerNorm(sizes.width), nn.LayerNorm(sizes.width)
        self.qkv = nn.Linear(sizes.width, 3 * sizes.width)
        self.out = nn.Linear(sizes.width, sizes.width)
        self.up = nn.Linear(sizes.width, 4 * sizes.width)
        self.down = nn.Linear(4 * sizes.width, sizes.width)

    def forward(self, x: Tensor, cache: Cache | None) -> Tensor:
        batch, length, width = x.shape
        packed = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        mask = None
        if cache is not None:
            k, v = cache.extend(self.number, k, v)
            mask = cache.mask
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=cache is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """A language model: (batch, length) tokens to (batch, length, vocabulary) logits."""

    def __init__(self, sizes: Sizes, checkpointed: bool = False) -> None:
        super().__init__()
        self.sizes, self.checkpointed = sizes, checkpointed
        self.embed = nn.Embedding(sizes.vocabulary, sizes.width)
        self.places = nn.Embedding(sizes.longest, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes, number) for number in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        count = tokens.shape[1]
        rows = (
            torch.arange(count, device=tokens.device)
            if cache is None
            else cache.begin(count, tokens.device)
        )
        x = self.embed(tokens) + self.places(rows)
        for layer in self.layers:
            if self.checkpointed:
                x = checkpoint(layer, x, cache, use_reentrant=False)
            else:
                x = layer(x, cache)
        return self.head(self.norm(x))

    def loss(self, tokens: Tensor) -> Tensor:
        """The mean loss of each next token."""
        logits = self(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class Residual(nn.Module):
    """Two convolutions with batch norms, and the input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.norm2(self.conv2(functional.relu(self.norm(self.conv(x))))))


def convolutional(make: Sized, classes: int = 100) -> nn.Module:
    """A small residual net for images of three channels."""
    widths = make.pick((64, 128, 256), (4, 8))
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, stride=2, padding=1)]
    for width, wider in zip(widths, (*widths[1:], widths[-1]), strict=True):
        layers += [Residual(width), Residual(width), nn.Conv2d(width, wider, 1, stride=2)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes)]
    return nn.Sequential(*layers).to(make.device)


class Noised(nn.Module):
    """A convolution that knows the time of diffusion."""

    def __init__(self, channels: int, wider: int, times: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, wider, 3, padding=1), nn.GroupNorm(4, wider)
        self.time = nn.Linear(times, wider)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return functional.silu(self.norm(self.conv(x)) + self.time(time)[:, :, None, None])


class UNet(nn.Module):
    """A U-Net of diffusion: (batch, 3, size, size) and times to the noise that was added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.first, self.down = Noised(3, width, width), Noised(width, 2 * width, width)
        self.middle = Noised(2 * width, 2 * width, width)
        self.attention = nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last, self.out = Noised(2 * width, width, width), nn.Conv2d(width, 3, 1)

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        rates = torch.exp(torch.arange(self.width // 2, device=x.device) * -0.2)
        angles = times[:, None] * rates
        time = torch.cat([angles.sin(), angles.cos()], dim=1)
        first = self.first(x, time)
        low = self.middle(self.down(functional.avg_pool2d(first, 2), time), time)
        rows = low.flatten(2).transpose(1, 2)
        mixed, _ = self.attention(rows, rows, rows, need_weights=False)
        low = low + mixed.transpose(1, 2).reshape(low.shape)
        joined = torch.cat([self.up(low), first], dim=1)
        return self.out(self.last(joined, time))


def parameters(*models: nn.Module) -> list[Any]:
    """The parameters that learn."""
    return [p for model in models for p in model.parameters() if p.requires_grad]
