"""The contracts on imports at the end of pyproject.toml hold, bite, and leave no third party out."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

OFFENCES = {
    "autotune: layers": ("strategies/sparse.py", "autotune.kernels.davinci.soc"),
    "kernels: layers": ("kernels/davinci/soc.py", "autotune.kernels.targets.base"),
    "davinci knows nothing of attention": ("kernels/davinci/half.py", "autotune.problem"),
    "sweep is handed its target and its store": ("sweep.py", "autotune.db.store"),
    "optuna belongs to search": ("strategies/lattice.py", "optuna"),
    "SQL belongs to db": ("service/app.py", "sqlalchemy"),
    "HTTP belongs to service and the server that runs it": ("db/store.py", "pydantic"),
    "metrics belong to service": ("service/ladder.py", "prometheus_client"),
    "templates belong to the pages": ("service/app.py", "jinja2"),
    "the terminal and the server's loop belong to cli": ("service/ladder.py", "rich"),
    "YAML is read in one place": ("cli/options.py", "yaml"),
    "matplotlib draws one picture": ("cli/explain.py", "matplotlib.figure"),
    "numpy stays where arrays are": ("client.py", "numpy"),
    "TIK belongs to our kernels": ("service/device.py", "tbe.tik"),
}
"""Per contract, an import that breaks it."""


def lint_imports(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_contract_is_kept() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package, to be spoilt."""
    shutil.copytree(ROOT / "autotune", tmp_path / "autotune", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_bites(copy: Path) -> None:
    assert {contract["name"] for contract in CONTRACTS} == set(OFFENCES)
    for path, module in OFFENCES.values():
        with (copy / "autotune" / path).open("a") as source:
            source.write(f"\nimport {module}\n")
    report = " ".join(lint_imports(copy).stdout.split())
    assert [name for name in OFFENCES if f"{name} BROKEN" not in report] == []


def test_a_new_module_needs_a_place_in_the_layers(copy: Path) -> None:
    (copy / "autotune" / "novelty.py").touch()
    assert "novelty" in lint_imports(copy).stdout


def test_every_third_party_belongs_to_somebody() -> None:
    graph = grimp.build_graph("autotune", include_external_packages=True, cache_dir=None)
    imported = {name.partition(".")[0] for name in graph.modules} - {"autotune"} - sys.stdlib_module_names
    owned = {name for contract in CONTRACTS for name in contract.get("protected_modules", [])}
    assert imported == owned
