"""Four folders are one package (docs/decisions/0001); what has to stay cheap, old-fashioned or executable is."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
LINKED = ("kernels", "strategies", "db")
PYTHON_3_8 = (
    "autotune/client.py",
    "autotune/errors.py",
    "autotune/hardware.py",
    "autotune/outcome.py",
    "autotune/plan.py",
    "autotune/problem.py",
    "strategies",
)

MODULES_OF = """
import importlib, json, sys
before = set(sys.modules)
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def python(*arguments: str, folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", LINKED)
def test_a_folder_is_linked_into_the_package(name: str) -> None:
    assert os.readlink(ROOT / "autotune" / name) == f"../{name}"


@pytest.mark.parametrize("name", LINKED)
def test_a_folder_refuses_its_bare_name(name: str) -> None:
    result = python("-c", f"import {name}")
    assert result.returncode == 1
    assert f"import this package as autotune.{name}" in result.stderr


@pytest.mark.parametrize("module", ["autotune", "autotune.client", "autotune.strategies", "autotune.settings"])
def test_loads_the_standard_library_alone(module: str) -> None:
    loaded = json.loads(python("-c", MODULES_OF, module).stdout)
    assert module in loaded
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"autotune"}


def test_the_client_loads_nothing_of_ours() -> None:
    loaded = json.loads(python("-c", MODULES_OF, "autotune.client").stdout)
    assert [name for name in loaded if name.startswith("autotune")] == ["autotune", "autotune.client"]


def test_what_a_kernel_build_imports_runs_on_python_3_8() -> None:
    vermin = [str(Path(sys.executable).with_name("vermin")), "--quiet", "--violations", "--target=3.8-", *PYTHON_3_8]
    result = subprocess.run(vermin, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("path", [".ci/run", "script/test", "script/demo", "script/sanitize"])
def test_a_script_is_executable_and_bash_can_read_it(path: str) -> None:
    assert os.access(ROOT / path, os.X_OK)
    assert subprocess.run(["bash", "-n", ROOT / path], check=False).returncode == 0


def test_the_wheel_holds_the_linked_folders_under_the_one_name(tmp_path: Path) -> None:
    for folder in ("autotune", *LINKED):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tmp_path)
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('.'))"
    wheel = python("-c", build, folder=tmp_path).stdout.splitlines()[-1]
    held = set(ZipFile(tmp_path / wheel).namelist())
    expected = {
        str(path.relative_to(ROOT))
        for folder in ("", *LINKED)
        for path in (ROOT / "autotune" / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "autotune/db/migrations/versions/v0001_first_tables.py" in expected
    assert {name for name in held if ".dist-info/" not in name} == expected
