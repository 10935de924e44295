"""Compiles tracekit/native with ziglang's C compiler, into a library that Python loads by ctypes.

So no C compiler and no Python headers have to be installed, and one build works for every Python
version. The compiler has the headers of every system, so its output does not depend on where it
runs.
"""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = [f"tracekit/native/src/{name}.c" for name in ("events", "nesting", "replay")]
# The numbers that the C code shares with Python and SQL.
CODES = Path(__file__).parent / "tracekit/native/walk_codes.py"
FLAGS = ["-std=c11", "-O3", "-mcpu=baseline", "-fvisibility=hidden", "-Wall", "-Wextra"]
FLAGS += run_path(str(CODES))["definitions"]()
LINK_FLAGS = ["-shared", "-s"]


class Platform(NamedTuple):
    target: str  # as the compiler names it
    tag: str  # as wheels name it


# Platforms by system and machine. Both names of a platform include the oldest system version that
# the library runs on.
# https://packaging.python.org/en/latest/specifications/platform-compatibility-tags
PLATFORMS = {
    "linux-x86_64": Platform("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    "linux-aarch64": Platform("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "musllinux-x86_64": Platform("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "musllinux-aarch64": Platform("aarch64-linux-musl", "musllinux_1_2_aarch64"),
    "macosx-x86_64": Platform("x86_64-macos.11.0", "macosx_11_0_x86_64"),
    "macosx-arm64": Platform("aarch64-macos.11.0", "macosx_11_0_arm64"),
    "win-amd64": Platform("x86_64-windows-gnu", "win_amd64"),
    "win-arm64": Platform("aarch64-windows-gnu", "win_arm64"),
}


def this_platform() -> Platform | None:
    """The platform to compile for. With None, the compiler targets the system it runs on, and the
    wheel is only for this system.

    The variable TRACEKIT_PLATFORM names another one of PLATFORMS, as `make wheels` does. A
    universal2 Python on macOS gets the library for the machine that it runs on.
    """
    if chosen := os.environ.get("TRACEKIT_PLATFORM"):
        return PLATFORMS[chosen]
    system, *_, machine = sysconfig.get_platform().split("-")
    if machine == "universal2":
        machine = platform.machine()
    if system == "linux" and platform.libc_ver()[0] != "glibc":
        system = "musllinux"
    return PLATFORMS.get(f"{system}-{machine}")


def run_compiler(target: str | None, arguments: list[str], cache: str | Path) -> None:
    """Runs the C compiler in the repository's root, with its cache in the folder `cache`.

    Raises:
        subprocess.CalledProcessError: when the compiler fails.
    """
    compiler = [sys.executable, "-m", "ziglang", "cc", *(["-target", target] if target else [])]
    subprocess.run(
        [*compiler, *arguments],
        check=True,
        cwd=Path(__file__).parent,
        env=os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)},
    )


class Compile(build_ext):
    def build_extension(self, ext: Extension) -> None:
        found = this_platform()
        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        # For Windows, the linker writes more files beside the library.
        with TemporaryDirectory() as cache, TemporaryDirectory() as folder:
            made = Path(folder, output.name)
            arguments = [*FLAGS, *LINK_FLAGS, *ext.sources, "-o", str(made)]
            run_compiler(found and found.target, arguments, cache)
            shutil.copy(made, output)

    def get_ext_filename(self, fullname: str) -> str:
        """The same name on every system: given a full path, Windows loads a library of any suffix.

        https://learn.microsoft.com/windows/win32/api/libloaderapi/nf-libloaderapi-loadlibraryexw
        """
        return "/".join(fullname.split(".")) + ".so"


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        found = None if self.plat_name_supplied else this_platform()
        return ("py3", "none", found.tag if found else super().get_tag()[2])


if __name__ == "__main__":
    setup(
        ext_modules=[
            Extension(
                "tracekit.native.libtracekit",
                sources=SOURCES,
                depends=[str(CODES), *sorted(map(str, Path("tracekit/native/src").glob("*.h")))],
            )
        ],
        cmdclass={"build_ext": Compile, "bdist_wheel": Wheel},
    )
