"""Puts this folder on the path for its helper module, and makes what its tests share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from synthetic import Bench

from autotune.problem import AttentionProblem


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def problem() -> AttentionProblem:
    return AttentionProblem.of((1, 4, 512, 512, 64))
