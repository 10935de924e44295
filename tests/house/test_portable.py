"""The library is compiled for every system that setup.py names; only this one can run it."""

import os
import platform
import re
import runpy
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import tracekit
from tests.kit.sampling import sample
from tracekit.native.library import FUNCTIONS

pytest.importorskip("ziglang", reason="the compiler, ziglang, is not installed (group: dev)")

SETUP = runpy.run_path(str(Path(__file__).parents[2] / "setup.py"), run_name="setup")
PLATFORMS = SETUP["PLATFORMS"]
FLAGS = [*SETUP["FLAGS"], "-Werror"]
# Linking takes seconds: it makes a part of the compiler's runtime for each target, and of Windows a
# C runtime, which takes a minute.
LINKED = sample(
    "systems that the library is linked for", [*PLATFORMS], ["linux-x86_64", "macosx-arm64"]
)
# One system for each kind of headers.
COMPILED = sample(
    "systems that the library is compiled for",
    [*PLATFORMS],
    ["linux-x86_64", "musllinux-x86_64", "macosx-arm64", "win-amd64"],
)
# https://github.com/apple-oss-distributions/xnu/blob/main/EXTERNAL_HEADERS/mach-o/loader.h
LC_CODE_SIGNATURE, LC_BUILD_VERSION = 0x1D, 0x32
# System headers include different names, and ours must not clash with any of them.
HEADERS = {
    "win": ["windows.h", "io.h", "process.h", "rpcndr.h"],
    "posix": [
        *("fcntl.h", "math.h", "poll.h", "pthread.h", "search.h", "signal.h", "stdio.h"),
        *("strings.h", "time.h", "unistd.h", "wchar.h", "sys/mman.h", "sys/resource.h"),
        *("sys/select.h", "sys/socket.h", "sys/stat.h", "sys/time.h", "sys/uio.h", "sys/wait.h"),
    ],
}


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """The compiler's folder, one for all processes that run these tests."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "zig"


def exported(library: bytes) -> set[str]:
    """Our functions in the symbol table of a stripped library."""
    return {name.decode() for name in re.findall(rb"\b_?tracekit_([a-z_]+)\0", library)}


def linked(name: str, cache: Path, folder: Path) -> bytes:
    """The library for a system."""
    made = folder / "libtracekit.so"
    arguments = [*FLAGS, *SETUP["LINK_FLAGS"], *SETUP["SOURCES"], "-o", str(made)]
    SETUP["run_zig"](PLATFORMS[name].target, arguments, cache)
    return made.read_bytes()


def load_commands(library: bytes) -> dict[int, tuple[int, ...]]:
    """The load commands of a Mach-O file: the first two numbers of each, by its kind."""
    commands, place = {}, 32
    for _ in range(struct.unpack_from("<I", library, 16)[0]):
        command, size, *numbers = struct.unpack_from("<IIII", library, place)
        commands[command] = tuple(numbers)
        place += size
    return commands


# The install has linked it for this system.
@pytest.mark.thorough
@pytest.mark.parametrize("name", LINKED)
def test_a_library_exports_the_functions_that_python_calls_and_runs_on_its_wheels_platform(
    name, cache, tmp_path
):
    library, tag = linked(name, cache, tmp_path), PLATFORMS[name].tag
    assert exported(library) == set(FUNCTIONS)
    wanted = tuple(map(int, re.findall(r"\d+", tag)[:2]))
    if tag.startswith("macosx"):
        commands = load_commands(library)
        oldest = commands[LC_BUILD_VERSION][1]
        assert (oldest >> 16, oldest >> 8 & 0xFF) == wanted
        # Machines with Apple's processors load only signed files.
        assert LC_CODE_SIGNATURE in commands or not tag.endswith("arm64")
    elif tag.startswith("manylinux"):
        needed = re.findall(rb"GLIBC_(\d+)\.(\d+)", library)
        assert max((int(major), int(minor)) for major, minor in needed) <= wanted
    elif tag.startswith("musllinux"):
        assert b"GLIBC_" not in library


@pytest.mark.thorough
@pytest.mark.parametrize("name", COMPILED)
def test_names_clash_with_no_system_header(name, cache, tmp_path):
    is_windows = name.startswith("win-")
    headers = HEADERS["win" if is_windows else "posix"]
    included = [word for header in headers for word in ("-include", header)]
    objects = b""
    for source in SETUP["SOURCES"]:
        made = tmp_path / "made.o"
        everything = ["-D_GNU_SOURCE", "-D_DARWIN_C_SOURCE", *included]
        arguments = [*FLAGS, *everything, "-c", source, "-o", str(made)]
        SETUP["run_zig"](PLATFORMS[name].target, arguments, cache)
        objects += made.read_bytes()
    if is_windows:
        # Objects tell the linker of Windows what to export.
        told = re.findall(rb"[-/]export:tracekit_([a-z_]+)", objects, re.IGNORECASE)
        assert {word.decode() for word in told} == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "found"),
    [
        ("linux-x86_64", "x86_64", "glibc", "linux-x86_64"),
        ("linux-aarch64", "aarch64", "", "musllinux-aarch64"),
        ("macosx-10.13-universal2", "x86_64", "", "macosx-x86_64"),
        ("macosx-10.13-universal2", "arm64", "", "macosx-arm64"),
        ("macosx-14.0-arm64", "arm64", "", "macosx-arm64"),
        ("win-amd64", "AMD64", "", "win-amd64"),
        ("win-arm64", "ARM64", "", "win-arm64"),
        ("linux-riscv64", "riscv64", "glibc", None),
    ],
)
def test_the_library_is_compiled_for_the_system_that_installs_it(
    system, machine, libc, found, monkeypatch
):
    monkeypatch.setattr(sysconfig, "get_platform", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, ""))
    assert SETUP["this_platform"]() == (PLATFORMS[found] if found else None)


def test_a_wheel_can_be_made_for_each_system_and_no_other(monkeypatch):
    for name, found in PLATFORMS.items():
        monkeypatch.setenv("TRACEKIT_PLATFORM", name)
        assert SETUP["this_platform"]() == found
    monkeypatch.setenv("TRACEKIT_PLATFORM", "plan9")
    with pytest.raises(KeyError):
        SETUP["this_platform"]()


def test_a_release_checks_its_tag_and_builds_with_make(tmp_path, monkeypatch):
    yaml = pytest.importorskip("yaml")
    root = Path(__file__).parents[2]
    jobs = yaml.safe_load((root / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    scripts = {each["name"]: each["run"] for each in jobs["build"]["steps"] if "name" in each}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for tag, status in ((f"v{tracekit.__version__}", 0), ("v99.0.0", 1)):
        environment = os.environ | {"GITHUB_REF_NAME": tag, "PATH": path}
        script = ["bash", "-e", "-c", scripts["the tag is the version"]]
        assert subprocess.run(script, cwd=root, env=environment).returncode == status
    made = re.search(r"make (\w+)", scripts["build"])[1]
    assert f"\n{made}: " in (root / "Makefile").read_text()
    (tried,) = [each["run"] for each in jobs["try"]["steps"] if each.get("name") == "try"]
    trace = re.search(r"GITHUB_WORKSPACE/(\S+?)\"", tried)[1]
    assert (root / trace).exists()


def test_workflows_run_actions_by_their_commit_and_publish_from_an_environment():
    root = Path(__file__).parents[2]
    workflows = [*(root / ".github").rglob("*.y*ml"), root / "examples" / "github-actions.yml"]
    used = re.findall(r"uses: (.*)", "\n".join(each.read_text() for each in workflows))
    assert used
    assert [each for each in used if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", each)] == []
    yaml = pytest.importorskip("yaml")
    for workflow in workflows:
        for name, job in yaml.safe_load(workflow.read_text())["jobs"].items():
            may_publish = "id-token" in job.get("permissions", {})
            assert may_publish <= ("environment" in job), (workflow, name)
