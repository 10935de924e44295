"""Makes the traces of this folder again: `python -m tests.data.make [FOLDER]`.

`--demo build/gpu/first/NAME/demo.json.gz` makes a GPU's capture the demo's trace.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.kit.atoms import US, Fetch, Launch, Slice, StreamWait, Sync, Work, operator, step
from tests.kit.programs import random_program
from tests.kit.simulated import ranks, write
from tests.kit.simulator import Simulation

HERE = Path(__file__).parent
_SMALL = ("--device", "cpu", "--batch", "2", "--seq", "8", "--dim", "16", "--hidden", "32")
_HOST = re.compile(rb'("host(?:_name)?": )"[^"]*"')
# The folders of a machine that names begin with, up to a package or the repository.
_PLACE = rb'"/(?:root|home|tmp|opt|work|Users)/(?:[^"(/]+/)*'
_LOCAL = re.compile(_PLACE + rb"?(?=(?:examples|tests|torch|tracekit)/)|" + _PLACE)
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
        _packed(folder / name, _HOST.sub(rb'\1"host"', text))


def put_demo(made: Path, folders: Iterable[Path]) -> None:
    """Puts a GPU's demo.json.gz into each folder, without host name and local paths."""
    text = _HOST.sub(rb'\1"host"', gzip.decompress(made.read_bytes()))
    text = _LOCAL.sub(b'"', text)
    for folder in folders:
        _packed(folder / "demo.json.gz", text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--demo"]:
        put_demo(Path(sys.argv[2]), [HERE / "h100", HERE.parents[1] / "tracekit"])
    else:
        target = Path(sys.argv[1]) if sys.argv[1:] else HERE
        write_simulated(target)
        write_captured(target)
