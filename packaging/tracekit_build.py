"""setuptools' build backend, which also asks for a C compiler where the system has none.

https://setuptools.pypa.io/en/latest/build_meta.html, "Dynamic build dependencies"
"""

import runpy
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

ZIGLANG = "ziglang==0.17.1"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_compiler()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_editable(config_settings), *_compiler()]


def _compiler() -> list[str]:
    return [] if runpy.run_path("setup.py")["system_compiler"]() else [ZIGLANG]
