"""Makes the traces of this folder again: `python -m tests.data.make [FOLDER]`."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kit.atoms import (
    US,
    BlockingCopy,
    Fetch,
    HandOver,
    Launch,
    Slice,
    StreamWait,
    Sync,
    Work,
    line,
    operator,
    step,
)
from tests.kit.programs import random_program
from tests.kit.simulated import ranks, write
from tests.kit.simulator import Simulation

HERE = Path(__file__).parent
DEMO = HERE.parents[1] / "tracekit" / "demo.json.gz"
_SMALL = ("--device", "cpu", "--batch", "2", "--seq", "8", "--dim", "16", "--hidden", "32")
_STEPS = ("--warmup", "2", "--active", "3")

# The arguments of `tracekit capture`, by the file that it writes.
CAPTURED = {
    "cpu-mlp-eager.json.gz": ("mlp-eager", *_SMALL, *_STEPS, "--shapes", "--stacks", "--memory"),
    "cpu-train-step.json.gz": ("train-step", *_SMALL, *_STEPS, "--shapes"),
}


def simulated() -> Iterator[tuple[str, Simulation, dict[str, Any]]]:
    """Files to write, each with a run of tests/kit/simulator.py and the trace's metadata."""
    yield "simulated-overhead-bound.json.gz", Simulation(_loop(_VIEW, _mm(9), Work(40 * US))), {}
    yield "simulated-compute-bound.json.gz", Simulation(_loop(_mm(200))), {}
    waiting = _loop(_mm(9), once=Fetch(50 * US, 20_000 * US))
    yield "simulated-input-bound.json.gz", Simulation(waiting), {}
    # 23: a backward pass in another thread. 30: data loading, CUDA graphs, copies
    # and three streams.
    for seed in (23, 30):
        atoms, machine = random_program(seed)
        yield f"simulated-program-{seed}.json.gz", Simulation(atoms, machine, seed=seed), {}
    exchange = [
        StreamWait(US, 7, 20),
        operator("nccl", 3 * US, Launch(4 * US, (("communication", 300 * US),), 20)),
        StreamWait(US, 20, 7),
    ]
    fast, slow = _loop(_mm(50), *exchange), _loop(_mm(50), Work(400 * US), *exchange)
    for rank, simulation in enumerate(ranks([fast, slow])):
        job = {"rank": rank, "world_size": 2, "backend": "nccl"}
        yield f"simulated-2-ranks-rank{rank}.json.gz", simulation, {"distributedInfo": job}


# The demo's batch, and its model's sizes.
_BATCH, _WIDE, _HIDDEN, _BLOCKS = 32 * 128, 256, 1024, 4


def training() -> list[Any]:
    """A loop that trains a small transformer, as many are first written: one worker loads batches,
    which are copied from pageable memory; modules run eagerly; each step reads the loss; and the
    optimizer updates one parameter after another."""
    return [*map(_training_step, range(5)), Sync(2 * US)]


def _training_step(number: int) -> Slice:
    copy = BlockingCopy(40 * US, 80 * US, bytes=_BATCH * _WIDE * 2)
    to_host = "Memcpy DtoH (Device -> Pageable)"
    read = operator("aten::_local_scalar_dense", 2 * US, BlockingCopy(3_000, 2_000, 7, to_host, 4))
    copied = operator("aten::copy_", 4 * US, copy)
    return step(
        number,
        Fetch(60 * US, 1_700 * US),
        line("train.py(41): to_device", operator("aten::to", 4 * US, copied)),
        line("train.py(44): forward", *map(_block, range(_BLOCKS))),
        HandOver(tuple(each for _ in range(_BLOCKS) for each in _backward())),
        line("train.py(58): log_loss", Work(4 * US), operator("aten::item", 2 * US, read)),
        line("train.py(52): step", *[each for _ in range(4 * _BLOCKS) for each in _update()]),
    )


def _block(number: int) -> Slice:
    mixed = [_pointwise(name, _WIDE) for name in ("transpose", "mul", "softmax", "dropout")]
    attention = _module(
        f"Attention_{number}",
        _linear(_WIDE, 3 * _WIDE, 3 * number),
        *mixed,
        _linear(_WIDE, _WIDE, 3 * number + 1),
    )
    mlp = _module(
        f"MLP_{number}",
        _linear(_WIDE, _HIDDEN, 3 * number + 2),
        _pointwise("gelu", _HIDDEN),
        _linear(_HIDDEN, _WIDE, 3 * number + 3),
    )
    first, second = (_module(f"LayerNorm_{2 * number + at}", _norm()) for at in range(2))
    added = _pointwise("add", _WIDE)
    return _module(
        f"Block_{number}", line("model.py(31): forward", first, attention, second, mlp, added)
    )


def _backward() -> list[Slice]:
    of = {
        "Addmm": ("mm", _HIDDEN), "Gelu": ("gelu_backward", _HIDDEN),
        "NativeLayerNorm": ("native_layer_norm_backward", _WIDE), "Mul": ("mul", _WIDE),
        "Softmax": ("_softmax_backward_data", _WIDE),
    }  # fmt: skip
    named = "autograd::engine::evaluate_function: {}Backward0"
    return [
        operator(named.format(name), 4 * US, _pointwise(*kernel)) for name, kernel in of.items()
    ]


def _update() -> list[Slice]:
    names = ("mul_", "lerp_", "addcmul_", "sqrt", "addcdiv_")
    return [_pointwise(name, _WIDE * _HIDDEN // _BATCH, 4) for name in names]


def _module(name: str, *atoms: Any) -> Slice:
    return line(f"nn.Module: {name}", Work(8 * US), *atoms)


def _linear(inner: int, outer: int, number: int) -> Slice:
    gemm = Launch(4 * US, (("math", _BATCH * inner * outer // 50_000),))
    shapes = [[outer], [_BATCH, inner], [inner, outer]]
    product = operator("aten::addmm", 6 * US, gemm, after_ns=3 * US, shapes=shapes)
    return _module(f"Linear_{number}", operator("aten::linear", 3 * US, product))


def _norm() -> Slice:
    return _pointwise("native_layer_norm", _WIDE)


def _pointwise(name: str, columns: int, dispatch_us: int = 5) -> Slice:
    """An operator whose kernel reads and writes rows of the batch at the memory's pace."""
    kernel = Launch(4 * US, (("memory-bandwidth", max(2 * US, _BATCH * columns // 400)),))
    return operator(f"aten::{name}", dispatch_us * US, kernel, shapes=[[_BATCH, columns]])


# An operator that only dispatches.
_VIEW = operator("aten::view", 2 * US)


def _mm(us: int) -> Slice:
    """A matrix product whose kernel takes `us` microseconds."""
    return operator("aten::mm", 3 * US, Launch(4 * US, (("math", us * US),)))


def _loop(*each: Any, once: Any = None) -> list[Any]:
    """Three steps that run `each` ten times in a Python function, after `once`."""
    begin = [] if once is None else [once]
    body = Slice("model.py(12): forward", "python_function", (*begin, *each * 10))
    return [*[step(number, body) for number in range(3)], Sync(2 * US)]


def write_simulated(folder: Path) -> list[Path]:
    """Writes the simulated traces, with the same bytes each time."""
    made = []
    for name, simulation, metadata in simulated():
        plain = write(folder / "simulated.json", simulation, traceName="simulated", **metadata)
        made.append(_packed(folder / name, plain.read_bytes()))
        plain.unlink()
    return made


def write_demo(path: Path) -> Path:
    """Writes the trace of `tracekit demo`, with the same bytes each time."""
    plain = write(path.with_suffix(".plain"), Simulation(training()), traceName="simulated")
    made = _packed(path, plain.read_bytes())
    plain.unlink()
    return made


def _packed(path: Path, text: bytes) -> Path:
    """Writes the text to a gzip file without a timestamp."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text)
    return path


def write_captured(folder: Path) -> None:
    """Writes the captured traces, without host name and local paths; their times vary."""
    for name, arguments in CAPTURED.items():
        command = [sys.executable, "-m", "tracekit", "capture", *arguments, "-o", name]
        subprocess.run(command, cwd=folder, check=True)
        text = gzip.decompress((folder / name).read_bytes())
        for place in (str(HERE.parents[1]), tempfile.gettempdir(), sys.prefix, sys.base_prefix):
            text = text.replace(f'"{place}/'.encode(), b'"')
        text = re.sub(rb'("host(?:_name)?": )"[^"]*"', rb'\1"host"', text)
        _packed(folder / name, text)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else HERE
    write_simulated(target)
    write_captured(target)
    write_demo(DEMO)
