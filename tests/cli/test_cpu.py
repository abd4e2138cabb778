"""The users' day on the CPU: sweep, ask, and what is said where there is no compiler."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import TargetUnavailable
from autotune.kernels.native.build import find_compiler

Run = Callable[..., Any]
SHAPE = "1,2,64,64,16"


@pytest.fixture
def own_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Locks and built kernels of this test alone; skipped without a compiler."""
    try:
        find_compiler()
    except TargetUnavailable as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("own_machine")
def test_sweep_and_ask(run: Run) -> None:
    ran = run("sweep", "--shape", SHAPE, "--device", "cpu", "--trials", "5", "--db", "sqlite:///plans.db", "--json")
    assert ran.code == 0
    [result] = json.loads(ran.out)["results"]
    assert (result["kind"], result["new_trials"], result["trials"]) == ("measured", 5, {"timed": 5})
    asked = run("best", "--shape", SHAPE, "--device", "cpu", "--db", "sqlite:///plans.db", "--json")
    answer = json.loads(asked.out)
    assert (answer["match"], answer["kind"], answer["time_us"]) == ("exact", "measured", result["time_us"])
    assert answer["device"].startswith("cpu-") and answer["provenance"]["target"] == "cpu"
    # Medians of 5 us each; it was by their fastest two thirds that the race was decided.
    assert 1.3 * answer["default_time_us"] >= answer["time_us"] or answer["plan"]["strategy"] == "sparse"


@pytest.mark.usefixtures("own_machine")
def test_a_profile_is_for_emulated_targets(run: Run) -> None:
    ran = run("explain", "--shape", SHAPE, "--device", "cpu", "--profile", "any.json")
    assert ran.code == 2 and "cpu is measured" in ran.err


def test_without_a_compiler_only_the_cpu_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run("sweep", "--shape", SHAPE, "--device", "cpu", "--db", "sqlite:///plans.db")
    assert ran.code == 1 and "no C compiler" in ran.err
    listed = json.loads(run("devices", "--json").out)
    assert "no C compiler" in listed["unavailable"]["cpu"]
    assert "emulated:Ascend910A" in [device["name"] for device in listed["devices"]]
