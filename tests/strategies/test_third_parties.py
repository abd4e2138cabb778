"""Entry points of installed packages: found, named by their distribution, and harmless when broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.strategies import third_parties
from autotune.strategies.registry import StrategyInfo, TilingStrategy, listing, load

STRATEGY = '''
from autotune.strategies.registry import TilingPara, TilingStrategy

class Golden(TilingStrategy):
    """Blocks of golden proportion."""

    @classmethod
    def strategy_name(cls):
        return "golden"

    def tiling(self):
        return TilingPara(80, 80, 128, 128, self.Nq // 80, self.N // 128)
'''


@pytest.fixture(autouse=True)
def a_registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr(TilingStrategy, "_strategies", dict(TilingStrategy._strategies))
    monkeypatch.setattr(third_parties, "_distributions", {})


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, entry: str, module: str = "", code: str = "") -> None:
    """What a package installer leaves behind for a distribution called golden-tiling."""
    info = folder / "golden_tiling-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: golden-tiling\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[autotune.strategies]\n{entry}\n")
    if module:
        (folder / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(("module", "attribute"), [("golden_by_module", ""), ("golden_by_class", ":Golden")])
def test_a_strategy_is_registered_and_named_by_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, attribute: str
) -> None:
    install(tmp_path, monkeypatch, f"golden = {module}{attribute}", module, STRATEGY)
    assert third_parties.load() == ()
    assert StrategyInfo("golden", "golden-tiling", "proposal", "Blocks of golden proportion.") in listing()


@pytest.mark.parametrize(
    ("module", "code", "said"),
    [
        ("golden_missing", None, "ModuleNotFoundError: No module named 'golden_missing'"),
        ("golden_raises", "raise OSError('no licence')", "OSError: no licence"),
        ("golden_syntax", "def", "SyntaxError: "),
        ("golden_taken", STRATEGY.replace('"golden"', '"sparse"'), "InvalidInput: strategy name 'sparse' of "),
    ],
)
def test_one_that_cannot_be_imported_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: str | None, said: str
) -> None:
    install(tmp_path, monkeypatch, f"golden = {module}", module if code else "", code or "")
    (warning,) = third_parties.load()
    assert warning.startswith(f"strategy 'golden' of golden-tiling cannot be imported: {said}")


def test_a_distribution_found_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "one", monkeypatch, "golden = golden_nowhere")
    install(tmp_path / "two", monkeypatch, "golden = golden_nowhere")
    assert len(third_parties.load()) == 1
