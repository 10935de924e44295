"""C programs of the tests, compiled with sanitizers that end them at the first error."""

import shutil
import subprocess
from pathlib import Path
from runpy import run_path

import pytest

_CODES = Path(__file__).parents[2] / "tracekit/native/walk_codes.py"
_FLAGS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiled(name: str, folder: Path) -> Path:
    """Compiles `name`.c of this folder into another folder; skips the test if no compiler has
    sanitizers."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler with a sanitizer is installed")
    program = folder / name
    command = [compiler, *_FLAGS, "-x", "c", "-", "-o", str(program)]
    if subprocess.run(command, input=b"int main(void) { return 0; }", check=False).returncode:
        pytest.skip("the C compiler has no sanitizer")
    source = Path(__file__).with_name(f"{name}.c")
    codes = run_path(str(_CODES))["definitions"]()
    subprocess.run([compiler, *_FLAGS, *codes, str(source), "-o", str(program)], check=True)
    return program
