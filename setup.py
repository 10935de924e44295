"""Compiles tracekit/native: a library that Python loads by ctypes, with the compiler of ziglang.

So neither a C compiler nor Python's headers need be installed, and one build does for every Python.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FLAGS = ["-std=c11", "-O3", "-mcpu=baseline", "-Wall", "-Wextra", "-shared"]


class Compile(build_ext):
    def build_extension(self, ext: Extension) -> None:
        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        compiler = [sys.executable, "-m", "ziglang", "cc"]
        with TemporaryDirectory() as cache:
            # What it keeps for later is put nowhere in the user's folders.
            folders = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
            subprocess.run(
                [*compiler, *FLAGS, *ext.sources, "-o", str(output)],
                check=True,
                env=os.environ | folders,
            )

    def get_ext_filename(self, fullname: str) -> str:
        return "/".join(fullname.split(".")) + ".so"


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    ext_modules=[
        Extension(
            "tracekit.native.libtracekit",
            sources=["tracekit/native/events.c", "tracekit/native/nesting.c"],
            depends=sorted(map(str, Path("tracekit/native").glob("*.h"))),
        )
    ],
    cmdclass={"build_ext": Compile, "bdist_wheel": Wheel},
)
