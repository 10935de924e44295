"""Records one program, and times it with each of its changes without the profiler."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch
from msgspec import structs

import tracekit
from tests.bench.pairs import record
from tests.bench.programs.registry import Program, Sized, all_programs
from tracekit.errors import TracekitError, first_line
from tracekit.experiments.timing import Rounds, Step, interleaved

# What each recording of a program records, by the ending of its name; shapes unless they are off.
RECORDINGS: dict[str, dict[str, bool]] = {
    "plain": {"shapes": False},
    "shapes": {},
    "memory": {"memory": True},
    "stacks": {"stacks": True},
}
# A recording of the same program without `step()`.
UNMARKED = "unmarked"
WARMUP, ROUNDS = 10, 9
# Recordings that only tell what recording costs have fewer steps.
_OF_COST, _FEW = ("plain", "memory"), 2
AS_WRITTEN = "as written"


@dataclass
class Change:
    """A change that was tried: nanoseconds per step in each round, without the profiler, as written
    and changed, and with how many times as many samples; or why it could not run."""

    remedy: str
    samples: int
    before: Rounds | None = None
    after: Rounds | None = None
    failed: str = ""


@dataclass
class Measured:
    """What one program gave: its recordings that failed, with the reasons, and its changes."""

    name: str
    about: str
    device: str
    software: str
    steps: int
    failed: dict[str, str] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Measured:
        """From the file that `write` wrote."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        for name, each in kept["changes"].items():
            for when in ("before", "after"):
                if each[when]:
                    each[when] = Rounds(**each[when])
            kept["changes"][name] = Change(**each)
        return cls(**kept)

    def write(self, folder: Path) -> None:
        kept = asdict(self)
        for each in kept["changes"].values():
            for when in ("before", "after"):
                if each[when]:
                    each[when] = structs.asdict(each[when])
        (folder / f"{self.name}.json").write_text(json.dumps(kept), encoding="utf-8")


def measure(name: str, device: torch.device, folder: Path) -> int:
    """Records a program into `folder` and times its changes; continues an interrupted run. Nothing
    is analyzed. Returns 1 if the program cannot run, or not be recorded."""
    program, make = all_programs()[name], Sized(device)
    path = folder / f"{name}.json"
    found = Measured.read(path) if path.exists() else _begun(program, device)
    began = time.monotonic()

    def note(what: str) -> None:
        nonlocal began
        found.seconds[what] = round(time.monotonic() - began, 2)
        found.write(folder)
        print(f"- {what}: {found.seconds[what]:.1f} s", flush=True)
        began = time.monotonic()

    try:
        step = program.build(make)
        for _ in range(3):
            step()
    except Exception as error:
        found.failed[AS_WRITTEN] = why(error)
        note(f"cannot run: {found.failed[AS_WRITTEN]}")
        return 1
    note("first steps")
    for kind, run in recordings(step, program.steps, folder / name).items():
        if not run:
            continue
        try:
            run()
            found.failed.pop(kind, None)
        except Exception as error:
            found.failed[kind] = why(error)
        note(f"recorded, {kind}" + (f": {found.failed[kind]}" if kind in found.failed else ""))
    for switch, change in program.changes.items():
        known = found.changes.get(switch)
        if known and known.after:
            continue
        tried = found.changes[switch] = Change(change.remedy, change.samples, failed="cut off")
        found.write(folder)
        try:
            changed = program.build(make, switch)
            times = interleaved({AS_WRITTEN: step, switch: changed}, device, ROUNDS)
            tried.before, tried.after, tried.failed = times[AS_WRITTEN], times[switch], ""
        except Exception as error:
            tried.failed = why(error)
        changed = None
        gc.collect()
        note(f"changed, {switch}" + (f": {tried.failed}" if tried.failed else ""))
    return int(bool(found.failed))


def recordings(step: Step, steps: int, base: Path) -> dict[str, Callable[[], None] | None]:
    """What makes each recording; None: an earlier run made it."""
    found: dict[str, Callable[[], None] | None] = {}
    for kind, options in RECORDINGS.items():
        path = recording(base, kind)
        count = min(steps, _FEW) if kind in _OF_COST else steps
        found[kind] = partial(record, step, path, count, WARMUP, **options)
    found[UNMARKED] = partial(_unmarked, step, recording(base, UNMARKED), steps)
    return {kind: None if recording(base, kind).exists() else run for kind, run in found.items()}


def recording(base: Path, kind: str) -> Path:
    """The file of a program's recording."""
    return base.with_name(f"{base.name}-{kind}.json.gz")


def _unmarked(step: Step, path: Path, steps: int) -> None:
    step()
    with tracekit.profile(path):
        for _ in range(steps):
            step()


def _begun(program: Program, device: torch.device) -> Measured:
    where = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    return Measured(program.name, program.about, where, f"torch {torch.__version__}", program.steps)


def why(error: Exception) -> str:
    return str(error) if isinstance(error, TracekitError) else first_line(error)
