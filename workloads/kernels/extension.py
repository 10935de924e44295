"""The operator `tracekit::gated_mlp` of mlp.cpp and mlp.cu, compiled when first needed.

Compiled files stay in PyTorch's extension cache (TORCH_EXTENSIONS_DIR, or ~/.cache), one folder per
PyTorch: https://docs.pytorch.org/docs/stable/cpp_extension.html#torch.utils.cpp_extension.load
"""

from __future__ import annotations

import functools
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import torch
from filelock import FileLock

# A build takes a minute.
_LONGEST_WAIT_S = 900


def why_not(device: torch.device) -> str | None:
    """None once the operator is loaded for `device`, or one line that says why it cannot be.

    The first call in a process loads the operator, and compiles it unless the cache has it.
    """
    if device.type not in ("cpu", "cuda"):
        return f"the C++ operator has no kernel for {device.type}"
    try:
        extension = _cpp_extension()
    except ImportError as error:
        return f"PyTorch cannot compile extensions here ({_line(error)})"
    nvcc = _nvcc(extension) if torch.cuda.is_available() else None
    if device.type == "cuda" and not nvcc:
        return "there is no CUDA compiler (nvcc)"
    if nvcc:
        home = toolkit(nvcc)
        if not any(
            any(home.glob(f"{each}/libcudart*")) for each in ("lib64", "lib", "targets/*/lib")
        ):
            return f"the CUDA toolkit in {home} has no libcudart: set CUDA_HOME"
        extension.CUDA_HOME = str(home)
    return _loaded(bool(nvcc))


def toolkit(nvcc: str) -> Path:
    """The folder of the CUDA toolkit, as its compiler names it: `nvcc` may be a wrapper in another
    folder, where PyTorch would not find the libraries."""
    command = [nvcc, "--dryrun", "-x", "cu", os.devnull]
    dry_run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^#\$ TOP=(.+)$", dry_run.stderr, re.MULTILINE)
    return Path(found[1] if found else Path(nvcc).parents[1]).resolve()


@functools.cache
def _loaded(with_cuda: bool) -> str | None:
    """Loads the operator, with or without its CUDA kernel; returns why it cannot, or None."""
    extension = _cpp_extension()
    compiler = extension.get_cxx_compiler()
    folder = Path(
        os.environ.get("TORCH_EXTENSIONS_DIR") or extension.get_default_build_root(),
        "tracekit",
        f"py{sys.version_info.major}{sys.version_info.minor}-torch{torch.__version__}",
    )
    here = Path(__file__).parent
    with _scripts_on_path():
        if not shutil.which(shlex.split(compiler)[0]):
            return f"there is no C++ compiler ({compiler})"
        if not shutil.which("ninja"):
            return "ninja is not installed (pip install ninja)"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / "build.lock", timeout=_LONGEST_WAIT_S):
                # PyTorch would wait forever for a build that was killed.
                (folder / "lock").unlink(missing_ok=True)
                extension.load(
                    "tracekit_mlp",
                    [str(here / name) for name in ("mlp.cpp", "mlp.cu")[: 1 + with_cuda]],
                    extra_cflags=["-O2"],
                    build_directory=str(folder),
                    is_python_module=False,
                )
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            return f"the C++ operator does not build ({_line(error)})"
    _give_shapes()
    return None


def _give_shapes() -> None:
    """Tells torch.compile the results' shapes."""
    torch.library.register_fake("tracekit::gated_mlp", _shaped)
    torch.library.register_fake(
        "tracekit::act_mul",
        lambda packed, _: packed.new_empty(packed.shape[0], packed.shape[1] // 2),
    )


def _shaped(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, _: str) -> torch.Tensor:
    """The shape of `gated_mlp`'s result, without values: the dispatcher calls this if an input has
    none."""
    if not x.device == gate_up.device == down.device:
        raise ValueError(
            f"gated_mlp needs x and the weights on one device, not {x.device}, {gate_up.device} "
            f"and {down.device}"
        )
    return x.new_empty(x.shape)


def _cpp_extension() -> ModuleType:
    # On a machine with a CUDA compiler but without a GPU, this import logs a warning.
    logger = logging.getLogger("torch.utils.cpp_extension")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        from torch.utils import cpp_extension
    finally:
        logger.setLevel(level)
    return cpp_extension


def _nvcc(extension: ModuleType) -> str | None:
    home = extension.CUDA_HOME
    return shutil.which("nvcc", path=str(Path(home, "bin"))) if home else None


@contextmanager
def _scripts_on_path() -> Iterator[None]:
    """Adds the folder of pip's scripts, where ninja is, to the PATH."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = f"{sysconfig.get_path('scripts')}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _line(error: Exception) -> str:
    """The first line of a compiler's output that names an error, or else its first line."""
    lines = str(error).splitlines() or [type(error).__name__]
    named = (line for line in lines if re.search(r"\berror: ", line))
    return next(named, lines[0]).strip()[:200]
