"""Compiles tracekit/native into a library that Python loads by ctypes.

The compiler is what the variable CC names, else the system's. Where there is none, and for the
wheels of other systems, it is ziglang's: it has the headers of every system, so its output does not
depend on where it runs. One build works for every Python version, and needs no Python headers.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
SOURCES = [f"tracekit/native/src/{name}.c" for name in ("events", "nesting", "replay")]
# The numbers that the C code shares with Python and SQL.
CODES = ROOT / "tracekit/native/walk_codes.py"
FLAGS = ["-std=c11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra"]
FLAGS += run_path(str(CODES))["definitions"]()
LINK_FLAGS = ["-shared", "-s"]
# Without it, zig compiles for the processor that it runs on.
ZIG_FLAGS = ["-mcpu=baseline"]
# Zig's default.
SYSTEM_FLAGS = ["-fPIC"]
# A relative path in Markdown, of a picture and of a link.
PICTURE, LINKED = re.compile(r"(!\[[^]]*\]\()([^):#]+)"), re.compile(r"(\]\()([^):#]+)")


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


def system_compiler() -> list[str] | None:
    """The command that CC names, else that of a C compiler of this system that works; None if
    there is none, or if TRACEKIT_PLATFORM asks for a wheel of any system."""
    if os.environ.get("TRACEKIT_PLATFORM"):
        return None
    if chosen := os.environ.get("CC"):
        return shlex.split(chosen)
    return next(([each] for each in ("cc", "gcc", "clang") if _works(each)), None)


def _works(compiler: str) -> bool:
    """Whether it compiles a program that includes a header: macOS has a `cc` that only offers to
    install one, and others lack the C library's headers."""
    if shutil.which(compiler) is None:
        return False
    program = b"#include <stdint.h>\n#include <string.h>\nint32_t one(void) { return 1; }\n"
    with TemporaryDirectory() as folder:
        command = [compiler, "-std=c11", "-fPIC", "-shared", "-x", "c", "-", "-o", f"{folder}/one"]
        done = subprocess.run(command, input=program, capture_output=True)
    return done.returncode == 0


def run_zig(target: str | None, arguments: list[str], cache: str | Path) -> None:
    """Runs ziglang's C compiler in the repository's root, with its cache in the folder `cache`.

    Raises:
        subprocess.CalledProcessError: when the compiler fails.
    """
    compiler = [sys.executable, "-m", "ziglang", "cc", *(["-target", target] if target else [])]
    subprocess.run(
        [*compiler, *ZIG_FLAGS, *arguments],
        check=True,
        cwd=ROOT,
        env=os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)},
    )


class Compile(build_ext):
    def build_extension(self, ext: Extension) -> None:
        compiler, found = system_compiler(), this_platform()
        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        # For Windows, the linker writes more files beside the library.
        with TemporaryDirectory() as cache, TemporaryDirectory() as folder:
            made = Path(folder, output.name)
            arguments = [*FLAGS, *LINK_FLAGS, *ext.sources, "-o", str(made)]
            if compiler:
                # Those who build packages for others add theirs.
                more = [os.environ.get(name, "") for name in ("CFLAGS", "LDFLAGS")]
                command = [*compiler, *SYSTEM_FLAGS, *shlex.split(" ".join(more)), *arguments]
                subprocess.run(command, check=True, cwd=ROOT)
            else:
                run_zig(found and found.target, arguments, cache)
            shutil.copy(made, output)
            if "TRACEKIT_PLATFORM" not in os.environ:
                _place(made, ROOT / "tracekit/native" / output.name)

    def get_ext_filename(self, fullname: str) -> str:
        """The same name on every system: given a full path, Windows loads a library of any suffix.

        https://learn.microsoft.com/windows/win32/api/libloaderapi/nf-libloaderapi-loadlibraryexw
        """
        return "/".join(fullname.split(".")) + ".so"


def _place(made: Path, target: Path) -> None:
    """Puts the library into the checkout, too: Python that starts there imports the checkout's
    folder instead of the installed package. Programs that use an older library keep theirs."""
    beside = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copy(made, beside)
    beside.replace(target)


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        # What the system's compiler links runs on systems such as this one.
        is_own = self.plat_name_supplied or system_compiler()
        found = None if is_own else this_platform()
        return ("py3", "none", found.tag if found else super().get_tag()[2])


def index_page() -> str:
    """README.md for the package index: its pictures and links are absolute."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    source, text = project["urls"]["Source"], (ROOT / "README.md").read_text("utf-8")
    return LINKED.sub(rf"\1{source}/blob/main/\2", PICTURE.sub(rf"\1{source}/raw/main/\2", text))


if __name__ == "__main__":
    setup(
        long_description=index_page(),
        long_description_content_type="text/markdown",
        ext_modules=[
            Extension(
                "tracekit.native.libtracekit",
                sources=SOURCES,
                depends=[str(CODES), *sorted(map(str, Path("tracekit/native/src").glob("*.h")))],
            )
        ],
        cmdclass={"build_ext": Compile, "bdist_wheel": Wheel},
    )
