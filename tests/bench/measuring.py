"""What benchmarks share: the cost of a process, lines of tables, and the device."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parents[2]
# The Makefile installs other tools here, each into a folder of its name.
PEERS = ROOT / "build" / "peers"


@dataclass(frozen=True)
class Cost:
    """What a process took, start-up and imports included, and what it printed; None: it failed."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    said: str | None


def measured(*arguments: object, program: str = sys.executable) -> Cost:
    """Runs a program, by default this Python, with these arguments, in the repository's root."""
    began = time.monotonic()
    command = [program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
    wall_s, cpu_s = time.monotonic() - began, usage.ru_utime + usage.ru_stime
    return Cost(wall_s, cpu_s, usage.ru_maxrss / 1024, None if status else said)


def line(*cells: object) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def head(columns: Iterable[str]) -> tuple[str, str]:
    """The first two lines of a Markdown table."""
    names = [*columns]
    return line(*names), line(*["---"] * len(names))


def device_of(given: argparse.Namespace, parser: argparse.ArgumentParser) -> torch.device:
    """The device that `--device` names; ends the program if it is missing."""
    import torch

    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no CUDA device; --device cpu runs on the CPU")
    return torch.device(given.device)
