"""Training, as users write it. Each switch is a change that a user would try first."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from tests.bench.programs.models import Decoder, UNet, convolutional, decoder_sizes, parameters
from tests.bench.programs.registry import Sized, program
from tracekit.experiments.timing import Step


@program(
    3,
    tf32="tensor-cores",
    bf16="mixed-precision",
    fused="fused-optimizer",
    unread="sync-by-line",
)
def transformer_with_gradient_accumulation(
    make: Sized, tf32: bool = False, bf16: bool = False, fused: bool = False, unread: bool = False
) -> Step:
    """A small GPT in fp32: two micro-batches a step, and the loss of each is logged."""
    model = Decoder(decoder_sizes(make)).to(make.device)
    optimizer = torch.optim.AdamW(parameters(model), lr=1e-4, fused=fused or None)
    batches = make.tokens(2, *make.pick((8, 257), (2, 17)), vocabulary=model.sizes.vocabulary)
    logged: list[Any] = []

    def step() -> None:
        logged.clear()
        for batch in batches:
            with make.tf32(tf32), make.bf16(bf16):
                loss = model.loss(batch) / len(batches)
                loss.backward()
            logged.append(loss.detach() if unread else loss.item())
        optimizer.step()
        optimizer.zero_grad()

    return step


class Pictures(Dataset[tuple[Tensor, int]]):
    """Pictures that Python crops, flips and brightens."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.raw = torch.randint(256, (64, 3, size + 8, size + 8), dtype=torch.uint8)

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        top, left = random.randrange(8), random.randrange(8)
        picture = self.raw[index % 64][:, top : top + self.size, left : left + self.size].float()
        if random.random() < 0.5:
            picture = picture.flip(-1)
        picture = (picture * random.uniform(0.8, 1.2)).clamp(0, 255)
        return (picture / 255 - 0.5) / 0.25, index % 10


@program(
    6, workers="dataloader-workers", pinned="pinned-copies", channels_last="channels-last",
    bf16="mixed-precision",
)  # fmt: skip
def cnn_with_a_slow_loader(
    make: Sized,
    workers: bool = False,
    pinned: bool = False,
    channels_last: bool = False,
    bf16: bool = False,
) -> Step:
    """A residual net whose pictures are prepared in the training process."""
    model = convolutional(make)
    form = torch.channels_last if channels_last else torch.contiguous_format
    model = model.to(memory_format=form)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    loader: Iterator[Any] = iter(
        DataLoader(
            Pictures(make.pick(128, 16)),
            make.pick(64, 4),
            num_workers=make.pick(8, 1) if workers else 0,
            pin_memory=pinned and make.is_gpu,
        )
    )

    def step() -> None:
        pictures, labels = next(loader)
        pictures = pictures.to(make.device, non_blocking=pinned, memory_format=form)
        labels = labels.to(make.device, non_blocking=pinned)
        with make.bf16(bf16):
            loss = functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


@program(
    6, fused="fused-optimizer", unread="sync-by-line", larger=("larger-batch", 4),
    compiled="torch-compile",
)  # fmt: skip
def gan_with_two_optimizers(
    make: Sized,
    fused: bool = False,
    unread: bool = False,
    compiled: bool = False,
    larger: bool = False,
) -> Step:
    """A small GAN: each step trains the discriminator, then the generator, and logs both losses."""
    width, batch = make.pick((64, 32), (4, 2))
    generator = nn.Sequential(
        nn.ConvTranspose2d(64, 4 * width, 4), nn.BatchNorm2d(4 * width), nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
    ).to(make.device)  # fmt: skip
    discriminator = nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, 2, 1), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.BatchNorm2d(4 * width), nn.LeakyReLU(0.2),
        nn.Conv2d(4 * width, 1, 4), nn.Flatten(0),
    ).to(make.device)  # fmt: skip
    optimizers = [
        torch.optim.Adam(parameters(each), lr=2e-4, betas=(0.5, 0.999), fused=fused or None)
        for each in (generator, discriminator)
    ]
    batch *= 4 if larger else 1
    real, ones = make.random(batch, 3, 32, 32), torch.ones(batch, device=make.device)
    generate, judge = generator, discriminator
    if compiled:
        generate, judge = make.compiled(generator), make.compiled(discriminator)
    against = functional.binary_cross_entropy_with_logits
    logged: list[Any] = []

    def step() -> None:
        of_generator, of_discriminator = optimizers
        logged.clear()
        fake = generate(torch.randn(batch, 64, 1, 1, device=make.device))
        of_discriminator.zero_grad()
        loss = against(judge(real), ones) + against(judge(fake.detach()), 1 - ones)
        loss.backward()
        of_discriminator.step()
        logged.append(loss.detach() if unread else loss.item())
        of_generator.zero_grad()
        loss = against(judge(fake), ones)
        loss.backward()
        of_generator.step()
        logged.append(loss.detach() if unread else loss.item())

    return step


class Recurrent(nn.Module):
    """A cell that reads a text token by token."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embed, self.cell = nn.Embedding(vocabulary, width), nn.LSTMCell(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        h = c = x.new_zeros(len(x), self.width)
        outputs = []
        for number in range(x.shape[1]):
            h, c = self.cell(x[:, number], (h, c))
            outputs.append(h)
        return self.head(torch.stack(outputs, dim=1))


@program(3, compiled="torch-compile", graphed="cuda-graph", larger=("larger-batch", 8))
def recurrent_net(
    make: Sized, compiled: bool = False, graphed: bool = False, larger: bool = False
) -> Step:
    """A language model of LSTM cells, in a loop over the text."""
    vocabulary, width, length = make.pick((8192, 512, 32), (32, 8, 6))
    model = Recurrent(vocabulary, width).to(make.device)
    if compiled:
        model.cell.compile(backend=make.backend)
    optimizer = torch.optim.Adam(parameters(model), lr=1e-3, capturable=graphed and make.is_gpu)
    tokens = make.tokens(16 * (8 if larger else 1), length + 1, vocabulary=vocabulary)

    def step() -> None:
        optimizer.zero_grad(set_to_none=not graphed)
        logits = model(tokens[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

    return make.graphed(step) if graphed else step


@program(
    6, on_device="create-on-device", bf16="mixed-precision", channels_last="channels-last",
    compiled="torch-compile",
)  # fmt: skip
def diffusion_unet(
    make: Sized,
    on_device: bool = False,
    bf16: bool = False,
    channels_last: bool = False,
    compiled: bool = False,
) -> Step:
    """A U-Net that learns to remove noise; the noise and the times are drawn on the CPU."""
    width, size, batch = make.pick((64, 64, 16), (8, 8, 2))
    form = torch.channels_last if channels_last else torch.contiguous_format
    model = UNet(width).to(make.device, memory_format=form)
    run = make.compiled(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    pictures = make.random(batch, 3, size, size).to(memory_format=form)
    source = make.device if on_device else torch.device("cpu")

    def step() -> None:
        noise = torch.randn(pictures.shape, device=source).to(make.device)
        times = torch.randint(1000, (batch,), device=source).to(make.device).float()
        strength = (times / 1000)[:, None, None, None]
        with make.bf16(bf16):
            found = run(pictures * (1 - strength) + noise * strength, times)
            loss = functional.mse_loss(found.float(), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


class Adapted(nn.Module):
    """A frozen linear layer with an adapter of low rank: https://arxiv.org/abs/2106.09685."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.a = nn.Linear(frozen.in_features, rank, bias=False)
        self.b = nn.Linear(rank, frozen.out_features, bias=False)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + 2.0 * self.b(self.a(self.dropout(x)))


@program(3, kept="kept-activations", fused="fused-optimizer", larger=("larger-batch", 4))
def lora_fine_tuning(
    make: Sized, kept: bool = False, fused: bool = False, larger: bool = False
) -> Step:
    """Adapters for a frozen model in bf16, with gradient checkpointing."""
    model = Decoder(decoder_sizes(make), checkpointed=not kept).requires_grad_(False)
    for layer in model.layers:
        layer.qkv, layer.out = Adapted(layer.qkv, 8), Adapted(layer.out, 8)
    model = model.to(make.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(parameters(model), lr=1e-4, fused=fused or None)
    sizes = make.pick((4, 257), (2, 17))
    count = sizes[0] * (4 if larger else 1)
    tokens = make.tokens(count, sizes[1], vocabulary=model.sizes.vocabulary)

    def step() -> None:
        model.loss(tokens).backward()
        torch.nn.utils.clip_grad_norm_(parameters(model), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


@program(3, bf16="mixed-precision", fused="fused-optimizer", larger=("larger-batch", 4))
def fsdp_on_one_rank(
    make: Sized, bf16: bool = False, fused: bool = False, larger: bool = False
) -> Step:
    """A sharded model on one rank, as a script for many ranks is tried first."""
    from torch import distributed
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if not distributed.is_initialized():
        for each in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(each, "lo")
        store = distributed.FileStore(f"{tempfile.mkdtemp()}/ranks", 1)
        backend = "nccl" if make.is_gpu else "gloo"
        distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    model = Decoder(decoder_sizes(make)).to(make.device)
    mesh = distributed.init_device_mesh(make.device.type, (1,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if bf16 else MixedPrecisionPolicy()
    for each in (*model.layers, model):
        fully_shard(each, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(parameters(model), lr=1e-4, fused=fused or None)
    count, length = make.pick((8, 257), (2, 17))
    count *= 4 if larger else 1
    tokens = make.tokens(count, length, vocabulary=model.sizes.vocabulary)

    def step() -> None:
        # The sharded model is called as a whole: only that gathers its shards.
        logits = model(tokens[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class Clipped(nn.Module):
    """Layers that look at their values, in Python."""

    def __init__(self, count: int, width: int, whole: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))
        self.whole = whole

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.gelu(layer(x)) + x
            if self.whole:
                x = x * (10.0 / x.norm().clamp(min=10.0))
            elif (norm := x.norm().item()) > 10.0:
                x = x * (10.0 / norm)
        return x


@program(6, whole="graph-breaks", larger=("larger-batch", 8))
def compiled_with_graph_breaks(make: Sized, whole: bool = False, larger: bool = False) -> Step:
    """A compiled model that reads a value in each layer, which breaks its graph."""
    width, layers, rows = make.pick((512, 6, 256), (16, 2, 4))
    model = Clipped(layers, width, whole).to(make.device)
    run = make.compiled(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = make.random(rows * (8 if larger else 1), width)

    def step() -> None:
        run(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@program(4, unscaled="sync-by-line", fused="fused-optimizer", compiled="torch-compile")
def mixed_precision_with_a_scaler(
    make: Sized, unscaled: bool = False, fused: bool = False, compiled: bool = False
) -> Step:
    """A transformer in fp16 with a gradient scaler, which reads whether gradients overflowed."""
    model = Decoder(decoder_sizes(make, width=384)).to(make.device)
    optimizer = torch.optim.AdamW(parameters(model), lr=1e-4, fused=fused or None)
    scaler = torch.amp.GradScaler(make.device.type, enabled=not unscaled)
    loss_of = make.compiled(model.loss) if compiled else model.loss
    tokens = make.tokens(*make.pick((8, 129), (2, 9)), vocabulary=model.sizes.vocabulary)
    dtype = torch.bfloat16 if unscaled else torch.float16

    def step() -> None:
        with torch.autocast(make.device.type, dtype):
            loss = loss_of(tokens)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step
