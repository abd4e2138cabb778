"""Every benchmark has the same options, and a missed bar is its exit code."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from benchmarks import bars

SCRIPTS = sorted(
    path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("*.py") if "def main(" in path.read_text()
)


def test_there_are_scripts() -> None:
    assert "trial" in SCRIPTS and "bars" not in SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_takes_quick_and_json(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        importlib.import_module(f"benchmarks.{script}").main()
    told = capsys.readouterr().out
    assert "--quick" in told and "--json" in told


@pytest.mark.parametrize("value, code", [(1.0, 0), (2.0, 0), (2.1, 1)])
def test_a_missed_bar_is_the_exit_code(value: float, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    report = {"bars": {"one": bars.at_most(value, 2.0), "other": bars.at_least(3.0, 3.0)}}
    assert bars.finish(report, True, str) == code
    assert json.loads(capsys.readouterr().out) == report
    assert bars.finish(report, False, lambda found: "\n".join(bars.lines(found))) == code
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("MISSED" if code else "ok") and second == "other: 3 (bar 3.0) ok"
