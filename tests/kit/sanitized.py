"""C programs of the tests, compiled with sanitizers that end them at the first error."""

import shutil
import subprocess
from pathlib import Path

import pytest

_FLAGS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiled(name: str, folder: Path) -> Path:
    """Compiles `name`.c of this folder into another folder; skips the test if no compiler has
    sanitizers."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler with a sanitizer is installed")
    program = folder / name
    source = Path(__file__).with_name(f"{name}.c")
    built = subprocess.run([compiler, *_FLAGS, str(source), "-o", str(program)], check=False)
    if built.returncode:
        pytest.skip("the C compiler has no sanitizer")
    return program
