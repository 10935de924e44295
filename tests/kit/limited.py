"""A function in a process of its own, with limits on memory and processor time."""

import importlib
import resource
import subprocess
import sys
from pathlib import Path

from tests.kit.processes import ran


def limited(
    function: str, *arguments: object, memory_mb: int, cpu_s: int
) -> subprocess.CompletedProcess[str]:
    """Calls `module:function`; it may take this much memory beyond its imports. The process's
    status is 0 if it returns."""
    limits = [str(memory_mb), str(cpu_s)]
    return ran("python", "-m", "tests.kit.limited", function, *limits, *map(str, arguments))


def _main(function: str, memory_mb: str, cpu_s: str, *arguments: str) -> None:
    module, _, name = function.partition(":")
    called = getattr(importlib.import_module(module), name)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + int(memory_mb) * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
    called(*arguments)


if __name__ == "__main__":
    _main(*sys.argv[1:])
