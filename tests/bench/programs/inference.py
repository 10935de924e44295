"""Inference, as users write it. Each switch is a change that a user would try first."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.bench.programs.models import (
    Cache,
    Decoder,
    DynamicCache,
    StaticCache,
    convolutional,
    decoder_sizes,
)
from tests.bench.programs.registry import Sized, program
from tracekit.experiments.timing import Step

# A token that no text ends in, so that each step generates as many tokens.
_END = -1


def _decoder(make: Sized, layers: int = 4, width: int = 768) -> Decoder:
    model = Decoder(decoder_sizes(make, layers, width)).to(make.device).eval()
    return model.to(make.pick(torch.bfloat16, torch.float32))


@program(
    3, graphed="cuda-graph", unread="sync-by-line", larger=("decode-batch", 8),
    compiled="torch-compile",
)  # fmt: skip
def generate_with_a_static_cache(
    make: Sized,
    graphed: bool = False,
    compiled: bool = False,
    unread: bool = False,
    larger: bool = False,
) -> Step:
    """Greedy decoding of one text with a static cache; each token is read to find the end."""
    model, batch = _decoder(make), 8 if larger else 1
    cache = StaticCache(model.sizes, batch, model.head.weight)
    token = make.tokens(batch, 1, vocabulary=model.sizes.vocabulary)
    run = make.compiled(model) if compiled else model

    @torch.no_grad()
    def decode() -> None:
        token.copy_(run(token, cache)[:, -1].argmax(-1, keepdim=True))

    one = make.graphed(decode) if graphed else decode

    def step() -> None:
        cache.position.zero_()
        for _ in range(make.pick(10, 3)):
            one()
            if not unread and (token == _END).all().item():
                break

    return step


@program(3, static="cuda-graph", unread="sync-by-line", larger=("decode-batch", 8))
def generate_with_a_dynamic_cache(
    make: Sized,
    static: bool = False,
    unread: bool = False,
    larger: bool = False,
) -> Step:
    """Sampling from one text with a cache that grows; each token is read and kept in Python."""
    if static:
        # Only buffers of one size can be captured in a graph.
        return generate_with_a_static_cache(make, graphed=True)
    model, batch = _decoder(make), 8 if larger else 1
    prompt = make.tokens(batch, make.pick(64, 4), vocabulary=model.sizes.vocabulary)
    texts: list[list[int]] = []

    @torch.no_grad()
    def step() -> None:
        cache, tokens = DynamicCache(model.sizes.layers), prompt
        texts.clear()
        for _ in range(make.pick(10, 3)):
            chances = torch.softmax(model(tokens, cache)[:, -1].float() / 0.8, dim=-1)
            tokens = torch.multinomial(chances, 1)
            if not unread:
                texts.append(tokens.flatten().tolist())

    return step


@program(3, graphed="cuda-graph", larger=("decode-batch", 8))
def prefill_and_decodes(make: Sized, graphed: bool = False, larger: bool = False) -> Step:
    """A long prompt in one pass, then tokens, each in a pass of its own."""
    model, batch = _decoder(make, layers=6), 8 if larger else 1
    cache = StaticCache(model.sizes, batch, model.head.weight)
    prompt = make.tokens(batch, make.pick(768, 16), vocabulary=model.sizes.vocabulary)
    token = prompt[:, :1].clone()

    def forward(tokens: Tensor) -> None:
        token.copy_(model(tokens, cache)[:, -1].argmax(-1, keepdim=True))

    def decode() -> None:
        forward(token)

    with torch.no_grad():
        one = make.graphed(decode) if graphed else decode

    @torch.no_grad()
    def step() -> None:
        cache.position.zero_()
        forward(prompt)
        for _ in range(make.pick(8, 3)):
            one()

    return step


@program(6, pinned="pinned-copies", unread="sync-by-line", larger=("larger-batch", 4))
def served_loop_with_cuda_graphs(
    make: Sized, pinned: bool = False, unread: bool = False, larger: bool = False
) -> Step:
    """Requests of random lengths, padded to a few sizes, each with a graph of its own."""
    model, batch = _decoder(make, width=384), make.pick(4, 1) * (4 if larger else 1)
    lengths = make.pick((32, 64, 128), (4, 8))
    served: dict[int, tuple[Tensor, Callable[[], Tensor]]] = {}
    for length in lengths:
        tokens = make.tokens(batch, length, vocabulary=model.sizes.vocabulary)

        @torch.no_grad()
        def answer(tokens: Tensor = tokens) -> Tensor:
            return model(tokens)[:, -1].argmax(-1)

        served[length] = tokens, make.graphed(answer)
    rng = random.Random(0)
    waiting = {
        length: make.pinned(torch.randint(model.sizes.vocabulary, (batch, length)))
        if pinned
        else torch.randint(model.sizes.vocabulary, (batch, length))
        for length in range(1, lengths[-1] + 1)
    }
    answers: list[object] = []

    def step() -> None:
        answers.clear()
        for _ in range(make.pick(16, 3)):
            request = waiting[rng.randrange(1, lengths[-1] + 1)]
            length = next(each for each in lengths if each >= request.shape[1])
            tokens, replay = served[length]
            tokens.zero_()
            tokens[:, : request.shape[1]].copy_(request, non_blocking=pinned)
            found = replay()
            answers.append(found.clone() if unread else found.tolist())

    return step


@program(6, evaluated="eval-mode", folded="folded-norms", channels_last="channels-last",
         bf16="mixed-precision")  # fmt: skip
def cnn_left_in_training_mode(
    make: Sized,
    evaluated: bool = False,
    folded: bool = False,
    channels_last: bool = False,
    bf16: bool = False,
) -> Step:
    """A residual net that predicts without eval() and with gradients."""
    model = convolutional(make).train(not (evaluated or folded))
    if folded:
        from torch.nn.utils.fusion import fuse_conv_bn_eval

        for block in model:
            if hasattr(block, "norm2"):
                block.conv = fuse_conv_bn_eval(block.conv, block.norm)
                block.conv2 = fuse_conv_bn_eval(block.conv2, block.norm2)
                block.norm = block.norm2 = nn.Identity()
    form = torch.channels_last if channels_last else torch.contiguous_format
    model = model.to(memory_format=form)
    pictures = make.random(*make.pick((32, 3, 224, 224), (2, 3, 16, 16))).to(memory_format=form)

    def step() -> Tensor:
        with make.bf16(bf16), torch.set_grad_enabled(not (evaluated or folded)):
            return model(pictures).argmax(-1)

    return step


class ByHand(nn.Module):
    """A layer of an encoder with attention by hand."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = batch, length, self.heads, width // self.heads
        q, k, v = (each(x).view(shape).transpose(1, 2) for each in (self.q, self.k, self.v))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) / shape[-1] ** 0.5
            mixed = torch.softmax(scores, dim=-1) @ v
        x = self.norm(x + self.out(mixed.transpose(1, 2).reshape(x.shape)))
        return self.norm2(x + self.mlp(x))


def _encoder(make: Sized, layers: int, width: int, heads: int, fused: bool) -> nn.Module:
    width, heads = make.pick((width, heads), (32, 2))
    each = (ByHand(width, heads, fused) for _ in range(make.pick(layers, 2)))
    return nn.Sequential(*each).to(make.device).eval()


@program(6, fused="fused-attention", tf32="tensor-cores", bf16="mixed-precision",
         compiled="torch-compile")  # fmt: skip
def attention_in_fp32(
    make: Sized,
    fused: bool = False,
    tf32: bool = False,
    bf16: bool = False,
    compiled: bool = False,
) -> Step:
    """An encoder with attention by hand, in fp32."""
    model = _encoder(make, 6, 768, 12, fused)
    x = make.random(*make.pick((8, 1024, 768), (2, 8, 32)))
    run = make.compiled(model) if compiled else model

    @torch.no_grad()
    def step() -> Tensor:
        with make.tf32(tf32), make.bf16(bf16):
            return run(x).mean(1)

    return step


def _pieces(text: str, known: dict[str, int]) -> list[int]:
    """The longest known pieces of each word, one after another."""
    found = []
    for word in text.lower().split():
        begin = 0
        while begin < len(word):
            end = len(word)
            while end > begin + 1 and word[begin:end] not in known:
                end -= 1
            found.append(known.get(word[begin:end], 0))
            begin = end
    return found


@program(5, batched="batch-items", tokenized="python-lines")
def embedding_with_a_tokenizer(make: Sized, batched: bool = False, tokenized: bool = False) -> Step:
    """Texts are split into pieces in Python and embedded one by one; each result goes to a list."""
    model = _encoder(make, 3, 384, 6, fused=True)
    width, length, count = make.pick((384, 128, 8), (32, 8, 3))
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    known = {
        "".join(rng.choices(letters, k=rng.randint(1, 3))): number for number in range(1, 4000)
    }
    texts = [
        " ".join("".join(rng.choices(letters, k=rng.randint(3, 12))) for _ in range(length))
        for _ in range(count)
    ]
    table = nn.Embedding(4000, width).to(make.device)
    ready = [_pieces(text, known)[:length] for text in texts]

    @torch.no_grad()
    def embedded(rows: list[list[int]]) -> list[list[float]]:
        return model(table(torch.tensor(rows, device=make.device))).mean(1).tolist()

    def step() -> list[list[float]]:
        rows = ready if tokenized else [_pieces(text, known)[:length] for text in texts]
        return embedded(rows) if batched else [embedded([row])[0] for row in rows]

    return step


@program(3, graphed="cuda-graph", unread="sync-by-line")
def speculative_decoding(make: Sized, graphed: bool = False, unread: bool = False) -> Step:
    """A small model drafts four tokens, a large one checks them; the number that hold is read."""
    target, draft = _decoder(make, layers=5), _decoder(make, layers=2)
    caches = [StaticCache(each.sizes, 1, each.head.weight) for each in (target, draft)]
    drafts = make.tokens(1, 5, vocabulary=target.sizes.vocabulary)

    @torch.no_grad()
    def drafted() -> None:
        for number in range(4):
            found = draft(drafts[:, number : number + 1], caches[1])
            drafts[:, number + 1] = found[:, -1].argmax(-1)

    @torch.no_grad()
    def checked() -> Tensor:
        found = target(drafts, caches[0]).argmax(-1)
        held = (found[:, :-1] == drafts[:, 1:]).long().cumprod(1).sum()
        drafts[:, :1] = found[:, -1:]
        return held

    propose, verify = (make.graphed(f) if graphed else f for f in (drafted, checked))

    def rewind(cache: Cache, rejected: int | Tensor) -> None:
        assert isinstance(cache, StaticCache)
        cache.position -= rejected

    def step() -> None:
        for cache in caches:
            cache.position.zero_()
        for _ in range(make.pick(4, 2)):
            propose()
            held = verify()
            # Without the read, the device keeps the count.
            rejected = 4 - held if unread else 4 - int(held.item())
            for cache in caches:
                rewind(cache, rejected)

    return step
