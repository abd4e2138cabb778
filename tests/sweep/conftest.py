"""What the tests of the sweep share."""

import pytest

from autotune.problem import AttentionProblem
from tests.sweep.synthetic import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def problem() -> AttentionProblem:
    return AttentionProblem.of((1, 4, 512, 512, 64))
