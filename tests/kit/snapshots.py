"""Memory snapshots like those of torch.cuda.memory._snapshot, by a small caching allocator.

Shared objects, and the order of keys, are as torch/csrc/cuda/Module.cpp writes them: each frame is
one dict, each stack one list, and actions without a stack share an empty list.
"""

from __future__ import annotations

import pickle
from collections import deque
from pathlib import Path
from typing import Any

_SMALL, _SMALL_SEGMENT, _LARGE_SEGMENT = 1 << 20, 2 << 20, 20 << 20
_EMPTY: list[dict[str, Any]] = []
_LIBRARY = "/usr/lib/python3/site-packages/torch/nn/modules/linear.py"


class Allocator:
    """One device's allocator, with the actions that a recording keeps: the last `entries`."""

    def __init__(self, entries: int = 10**9) -> None:
        self.now_us = 1_760_000_000_000_000
        self.segments: list[dict[str, Any]] = []
        self.actions: deque[dict[str, Any]] = deque(maxlen=entries)
        self.annotations: list[dict[str, Any]] = []
        self._frames: dict[tuple[str, int, str], dict[str, Any]] = {}

    def stack(self, *lines: tuple[str, int, str]) -> list[dict[str, Any]]:
        """A stack, given from the innermost frame on, with a frame of PyTorch inside it."""
        names = ("filename", "line", "name")
        return [
            self._frames.setdefault(each, dict(zip(names, each, strict=True)))
            for each in ((_LIBRARY, 134, "forward"), *lines)
        ]

    def frames(self, *lines: tuple[str, int, str]) -> list[dict[str, Any]]:
        """A stack of exactly these frames, given from the innermost on."""
        return self.stack(*lines)[1:]

    def alloc(self, size: int, stack: list[dict[str, Any]] = _EMPTY) -> int:
        """Allocates; returns the address."""
        rounded = -(-size // 512) * 512
        kind = "small" if rounded <= _SMALL else "large"
        fitting = (
            (segment["blocks"], place)
            for segment in self.segments
            for place, each in enumerate(segment["blocks"])
            if segment["segment_type"] == kind
            and each["state"] == "inactive"
            and each["size"] >= rounded
        )
        blocks, place = next(fitting, None) or (self._segment(kind, rounded, stack), 0)
        address, rest = blocks[place]["address"], blocks[place]["size"] - rounded
        blocks[place] = _block(address, rounded, size, "active_allocated", stack)
        if rest:
            blocks.insert(place + 1, _block(address + rounded, rest))
        self._act("alloc", address, size, stack)
        return int(address)

    def free(self, address: int, stack: list[dict[str, Any]] = _EMPTY) -> None:
        for segment in self.segments:
            for place, each in enumerate(segment["blocks"]):
                if each["address"] == address:
                    for action in ("free_requested", "free_completed"):
                        self._act(action, address, each["requested_size"], stack)
                    segment["blocks"][place] = _block(address, each["size"])
                    return
        raise KeyError(address)

    def out_of_memory(self, size: int, stack: list[dict[str, Any]]) -> None:
        self._act("oom", 1 << 20, size, stack)

    def annotate(self, name: str, stage: str) -> None:
        self.now_us += 1
        self.annotations.append({"name": name, "stage": stage, "device": 0, "time_us": self.now_us})

    def _segment(self, kind: str, size: int, stack: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Adds a segment; returns its blocks."""
        least = _SMALL_SEGMENT if kind == "small" else _LARGE_SEGMENT
        total = max(least, -(-size // _SMALL_SEGMENT) * _SMALL_SEGMENT)
        address = 0x7F0000000000 + len(self.segments) * (1 << 32)
        blocks = [_block(address, total)]
        self.segments.append(
            {
                "device": 0, "address": address, "total_size": total, "allocated_size": 0,
                "active_size": 0, "requested_size": 0, "stream": 0, "segment_type": kind,
                "segment_pool_id": (0, 0), "is_expandable": False, "frames": stack,
                "blocks": blocks,
            }
        )  # fmt: skip
        self._act("segment_alloc", address, total, stack)
        return blocks

    def _act(self, action: str, address: int, size: int, stack: list[dict[str, Any]]) -> None:
        self.now_us += 10
        self.actions.append(
            {
                "action": action, "device_free" if action == "oom" else "addr": address,
                "size": size, "stream": 0, "time_us": self.now_us, "compile_context": "N/A",
                "user_metadata": "", "pool_id": (0, 0), "frames": stack,
            }
        )  # fmt: skip

    @property
    def allocated(self) -> int:
        """The requested bytes of memory in use now."""
        blocks = [block for segment in self.segments for block in segment["blocks"]]
        return sum(each["requested_size"] for each in blocks if each["state"] != "inactive")


def _block(
    address: int, size: int, requested: int = 0, state: str = "inactive", stack: Any = _EMPTY
) -> dict[str, Any]:
    return {
        "address": address, "size": size, "requested_size": requested, "state": state,
        "frames": stack,
    }  # fmt: skip


def snapshot(allocator: Allocator) -> dict[str, Any]:
    """A snapshot in the form of torch.cuda.memory._snapshot."""
    for segment in allocator.segments:
        active = [each for each in segment["blocks"] if each["state"] == "active_allocated"]
        size = sum(each["size"] for each in active)
        requested = sum(each["requested_size"] for each in active)
        segment |= {"allocated_size": size, "active_size": size, "requested_size": requested}
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False", "max_split_size": -1,
        "garbage_collection_threshold": 0.0, "expandable_segments": False,
        "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {str(2**n): 0 for n in range(16)},
    }  # fmt: skip
    return {
        "segments": allocator.segments,
        "device_traces": [list(allocator.actions)],
        "allocator_settings": settings,
        "external_annotations": allocator.annotations,
    }


def trained(steps: int = 3, entries: int = 10**9, leak: int = 0) -> Allocator:
    """An allocator after some training steps: weights stay, activations go; each step leaks
    `leak` bytes."""
    found, main = Allocator(entries=entries), ("/app/train.py", 7, "main")
    init = found.stack(("/app/model.py", 10, "__init__"), ("/app/train.py", 5, "main"))
    for _ in range(4):
        found.alloc(3 << 20, init)
    for _ in range(steps):
        found.annotate("step", "START")
        forward = [
            found.stack(("/app/model.py", line, "forward"), ("/app/train.py", 30, "step"), main)
            for line in (20, 21, 22)
        ]
        held = [found.alloc((n << 20) + 100, each) for n, each in enumerate(forward, 1)]
        if leak:
            found.alloc(leak, found.stack(("/app/train.py", 33, "log"), main))
        for address in reversed(held):
            found.free(address, forward[0])
        found.annotate("step", "END")
    return found


# Frames of PyTorch, as its snapshots name them.
_TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
_CALL = (f"{_TORCH}/nn/modules/module.py", 1751, "_wrapped_call_impl")
_ENGINE = ("??", 0, "torch::autograd::Engine::evaluate_function(torch::autograd::Node*)")
UNWIND = (
    ("??", 0, "torch::unwind::unwind()"),
    ("??", 0, "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**)"),
)
MAIN = ("/app/train.py", 60, "main")


def operator(name: str) -> tuple[str, int, str]:
    """A frame of C++ of an operator of ATen."""
    return ("??", 0, f"at::_ops::{name}::call(at::Tensor const&)")


def mlp(
    layers: int = 4,
    width: int = 1 << 20,
    hidden: int = 3 << 20,
    steps: int = 3,
    kept: int = 0,
    until: str = "",
    frees: int = 0,
    has_stacks: bool = True,
    native: bool = True,
    extra_layers: int = 0,
    tells_frees: bool = True,
    entries: int = 10**9,
) -> Allocator:
    """Training of an MLP with Adam: `layers` parameters of `width` bytes, an activation of `hidden`
    bytes for each, gradients, and two states for each from the first step on.

    Args:
        kept: bytes that each step keeps of its forward.
        until: `forward`, `backward` or `optimizer`: the last step ends in it.
        frees: how many steps later what a step keeps is freed; 0: never.
        native: whether stacks have frames of C++; without these, backward has none.
        extra_layers: how many layers more the last step has.
        tells_frees: whether frees have stacks.
    """
    made = Allocator(entries)
    optimizer, module = f"{_TORCH}/optim/adam.py", f"{_TORCH}/nn/modules"

    def stack(*lines: tuple[str, int, str]) -> list[dict[str, Any]]:
        shown = lines if native else [each for each in lines if each[0] != "??"]
        if not has_stacks or not shown:
            return _EMPTY
        return made.frames(*(UNWIND if native else ()), *shown)

    linear = (f"{module}/linear.py", 125, "forward")
    model = ("/app/model.py", 22, "forward")
    step = ("/app/train.py", 30, "step")
    moved = stack((f"{module}/module.py", 1355, "_apply"), ("/app/train.py", 5, "build"), MAIN)
    forward = stack(operator("addmm"), linear, _CALL, model, _CALL, step, MAIN)
    backward = stack(
        operator("mm"), ("??", 0, "torch::autograd::generated::AddmmBackward0::apply()"), _ENGINE
    )
    states = stack(
        operator("zeros_like"), (optimizer, 180, "_init_group"), (optimizer, 236, "step"),
        ("/app/train.py", 32, "step"), MAIN,
    )  # fmt: skip
    foreach = stack(
        operator("_foreach_sqrt"), (optimizer, 600, "_multi_tensor_adam"), (optimizer, 250, "step"),
        ("/app/train.py", 32, "step"), MAIN,
    )  # fmt: skip
    cleared = stack((f"{_TORCH}/optim/optimizer.py", 960, "zero_grad"), step, MAIN)
    log = stack(operator("clone"), ("/app/train.py", 33, "log"), MAIN)
    for _ in range(layers):
        made.alloc(width, moved)
    logged = []
    for number in range(steps):
        last = until if number == steps - 1 else ""
        more = extra_layers if number == steps - 1 else 0
        held = [made.alloc(hidden, forward) for _ in range(layers + more)]
        if last == "forward":
            break
        gradients = []
        for address in reversed(held):
            passed = made.alloc(hidden, backward)
            gradients.append(made.alloc(width, backward))
            made.free(address, backward if tells_frees else _EMPTY)
            made.free(passed, backward if tells_frees else _EMPTY)
            if last == "backward":
                return made
        if not number:
            for _ in range(2 * layers):
                made.alloc(width, states)
        scratch = [made.alloc(width, foreach) for _ in range(layers)]
        if last == "optimizer":
            break
        for address in scratch:
            made.free(address, foreach)
        if kept:
            logged.append(made.alloc(kept, log))
            if frees and len(logged) > frees:
                made.free(logged.pop(0), log)
        for address in gradients:
            made.free(address, cleared if tells_frees else _EMPTY)
    return made


def write(path: Path, allocator: Allocator, protocol: int = 4) -> Path:
    """Writes a snapshot as `_dump_snapshot` does."""
    with path.open("wb") as file:
        pickle.dump(snapshot(allocator), file, protocol)
    return path
