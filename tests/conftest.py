"""For every test: one BLAS thread, none of the caller's settings, the same Hypothesis examples in each run."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Last, and for benchmarks/ and spawned processes alone: kernels/, strategies/ and db/ refuse their bare names.
sys.path.append(str(Path(__file__).parents[1]))

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def default_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTOTUNE_* variables of the person who runs the tests must not reach the code under test."""
    for variable in [name for name in os.environ if name.startswith("AUTOTUNE_")]:
        monkeypatch.delenv(variable)
