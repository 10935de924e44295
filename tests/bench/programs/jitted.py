"""A jitted step of JAX: XPlane and trace JSON of one recording, and its time in fp32 and bf16."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.programs import JITTED
from tests.bench.programs.measure import AS_WRITTEN, ROUNDS, Change, Measured

STEPS = 3


def measure(on: str, folder: Path) -> int:
    """Records the step into `folder` and times it with one change; 0, too, where JAX is missing."""
    # JAX would take most of the device's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if on == "cpu":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import jax
    except ImportError as error:
        print(f"- not run: {error}", flush=True)
        return 0
    import torch

    from tracekit.experiments.timing import interleaved

    device = jax.devices()[0]
    if on == "cuda" and device.platform != "gpu":
        print(f"- not run: JAX has no GPU here, only {device.platform}", flush=True)
        return 1
    step, changed = (training(jax, dtype, on != "cpu") for dtype in ("float32", "bfloat16"))
    for _ in range(2):
        step()
    with tempfile.TemporaryDirectory() as made:
        with jax.profiler.trace(made):
            for number in range(STEPS):
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    step()
        for path in Path(made).rglob("*"):
            for ending in (".xplane.pb", ".trace.json.gz"):
                if path.name.endswith(ending):
                    shutil.copyfile(path, folder / f"{JITTED}{ending}")
                    print(f"- {JITTED}{ending}, {path.stat().st_size / 1000:.0f} kB", flush=True)
    # Each step waits for its result, so that the wall clock tells its time.
    by_wall_clock = torch.device("cpu")
    times = interleaved({AS_WRITTEN: step, "bf16": changed}, by_wall_clock, ROUNDS)
    change = Change("mixed-precision", 1, times[AS_WRITTEN], times["bf16"])
    kind = "cpu" if on == "cpu" else device.device_kind
    about = (training.__doc__ or "").splitlines()[0]
    found = Measured(JITTED, about, kind, f"JAX {jax.__version__}", STEPS)
    found.changes["bf16"] = change
    found.write(folder)
    return 0


def training(jax: Any, dtype: str, large: bool) -> Callable[[], object]:
    """A step that trains a small MLP, jitted."""
    width, rows, layers = (2048, 4096, 4) if large else (16, 4, 2)
    keys = jax.random.split(jax.random.key(0), layers + 1)
    weights = [jax.random.normal(key, (width, width)) * width**-0.5 for key in keys[1:]]
    x = jax.random.normal(keys[0], (rows, width))

    def loss(weights: list[Any], x: Any) -> Any:
        for weight in weights:
            x = jax.nn.gelu(x.astype(dtype) @ weight.astype(dtype))
        return (x.astype("float32") ** 2).mean()

    @jax.jit
    def update(weights: list[Any], x: Any) -> tuple[Any, list[Any]]:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return value, [w - 1e-3 * g for w, g in zip(weights, gradients, strict=True)]

    def step() -> object:
        nonlocal weights
        value, weights = update(weights, x)
        return jax.block_until_ready(value)

    return step
