"""What is published: the name in texts, the source distribution, the wheel and conda's recipe."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tracekit
from tracekit.version import DISTRIBUTION

ROOT = Path(__file__).parents[2]
# The folders of which the package consists.
FOLDERS = ("queries", "skills", "tracekit", "workloads")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def tracked() -> list[Path]:
    """The files of the repository; without git, this has to be skipped."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a checkout of the repository: git lists no files")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / each for each in listed.stdout.split("\0") if each and (ROOT / each).is_file()]


def test_every_text_that_names_an_extra_names_our_distribution():
    assert PROJECT["name"] == DISTRIBUTION
    other = re.compile(
        rb"(?<!torch-)(?<!\w)tracekit\[|pip install '?tracekit\b|pypi.org/project/tracekit"
    )
    wrong = [
        f"{path.relative_to(ROOT)}: {line.decode(errors='replace').strip()}"
        for path in tracked()
        if path != Path(__file__) and b"\0" not in (text := path.read_bytes())[:4096]
        for line in text.splitlines()
        if other.search(line)
    ]
    assert wrong == []


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The source distribution of the checkout, and the wheel that is built of it without a network
    by the system's compiler."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc: nothing is compiled")
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("out")
    for path in tracked():
        if path.relative_to(ROOT).parts[0] != "tests":
            copy = checkout / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    build = f"from setuptools import build_meta; print(build_meta.build_sdist({str(out)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=checkout, check=True, capture_output=True)
    (source,) = out.glob("*.tar.gz")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "-w", str(out),
         "--no-build-isolation", "--disable-pip-version-check", str(source)],
        check=True, env=os.environ | {"CC": "gcc"},
    )  # fmt: skip
    (wheel,) = out.glob("*.whl")
    return source, wheel


@pytest.mark.thorough
def test_python_in_a_checkout_that_was_installed_uses_its_library(tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("no gcc: nothing is compiled")
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "elsewhere"]
    subprocess.run(build, cwd=tmp_path, check=True, env=os.environ | {"CC": "gcc"})
    program = "from tracekit.native.library import library; print(library()._name)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / "tracekit/native/libtracekit.so")


@pytest.mark.thorough
def test_both_distributions_hold_the_licenses_the_skill_and_all_sql(built):
    source, wheel = built
    version = f"torch_tracekit-{tracekit.__version__}"
    with tarfile.open(source) as opened:
        in_source = {name.removeprefix(f"{version}/") for name in opened.getnames()}
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = set(opened.namelist())
        page = opened.read(f"{version}.dist-info/METADATA").decode()
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in tracked()
        if path.relative_to(ROOT).parts[0] in FOLDERS
        and path.suffix in (".sql", ".csv", ".py", ".toml", ".cu", ".cpp", ".md")
        and path.name != "README.md"
    }
    assert len(wanted) > 300 and "skills/tracekit/SKILL.md" in wanted
    assert wanted | {"LICENSE", "NOTICE", "setup.py", "packaging/tracekit_build.py"} <= in_source
    assert {
        re.sub(r"^(queries|skills|workloads)/", r"tracekit/\1/", each) for each in wanted
    } <= in_wheel
    assert {f"{version}.dist-info/licenses/{each}" for each in ("LICENSE", "NOTICE")} <= in_wheel
    assert "tracekit/native/libtracekit.so" in in_wheel
    assert not [each for each in in_source | in_wheel if each.startswith(("tests/", "build/"))]
    # On the index, a relative link leads nowhere.
    assert re.findall(r"\]\((?!https://)[^)]*\)", page.partition("\n\n")[2]) == []


@pytest.mark.thorough
def test_a_wheel_of_the_systems_compiler_says_so_and_one_of_ziglang_runs_anywhere(built):
    assert "manylinux" not in built[1].name
    for program in (["gcc", "-O2"], ["clang"]):
        told = "import runpy; print(runpy.run_path('setup.py')['system_compiler']())"
        done = subprocess.run(
            [sys.executable, "-c", told],
            cwd=ROOT, env=os.environ | {"CC": " ".join(program)}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout.strip() == str(program)


def test_the_registry_of_agents_servers_is_told_what_is_published():
    """https://github.com/modelcontextprotocol/registry: the README has to name the server."""
    server = json.loads((ROOT / "server.json").read_text())
    (package,) = server["packages"]
    assert server["version"] == package["version"] == tracekit.__version__
    assert server["repository"]["url"] == PROJECT["urls"]["Source"]
    assert package["identifier"] == DISTRIBUTION
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text()
    assert len(server["description"]) <= 100
    assert [each["value"] for each in package["packageArguments"][:1]] == ["mcp"]


# Names of the index, as conda-forge has them.
CONDA = {"duckdb": "python-duckdb", "isal": "python-isal"}


def test_condas_recipe_asks_for_what_the_project_does():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    wanted = {"python " + PROJECT["requires-python"]}
    for each in PROJECT["dependencies"]:
        name, bounds = re.fullmatch(r"([\w.-]+)([^;]*).*", each).groups()
        wanted.add(f"{CONDA.get(name, name)} {bounds}")
    run = recipe["requirements"]["run"]
    assert {each["then"] if isinstance(each, dict) else each for each in run} == wanted
    assert recipe["context"]["version"] == tracekit.__version__
    assert recipe["package"]["name"] == DISTRIBUTION
    assert recipe["about"]["homepage"] == PROJECT["urls"]["Source"]


def test_condas_recipe_builds_the_source_distribution(built, tmp_path):
    if shutil.which("rattler-build") is None:
        pytest.skip("conda's builder, rattler-build, is not installed")
    command = ["rattler-build", "build", "-r", str(ROOT / "packaging/conda")]
    done = subprocess.run(
        [*command, "--output-dir", str(tmp_path)],
        env=os.environ | {"SOURCE": str(built[0])}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
