"""Sample values: one problem on one device, with what a sweep would record of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.outcome import EMULATED, BestPlan, Timed, Timing, Trial
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem


@pytest.fixture
def problem() -> AttentionProblem:
    return AttentionProblem.of((2, 16, 1024, 1024, 64), attn_mask="causal", window=(511, 0))


@pytest.fixture
def plan() -> TilingPlan:
    return TilingPlan(128, 256, CoreSplit("balanced", 32), double_buffer=True, strategy="lattice")


@pytest.fixture
def timing() -> Timing:
    return Timing(182.4, EMULATED, "model-1", cycles=182400, samples=(182.4, 182.5), spread_us=0.1)


@pytest.fixture
def trial(problem: AttentionProblem, plan: TilingPlan, timing: Timing) -> Trial:
    outcome = Timed(timing, error=1.25e-4, compile_s=0.5, verify_s=0.25, time_s=0.125)
    return Trial(problem, "Ascend910A", "emulated:Ascend910A", "f1", plan, outcome, "sweep-1", "2026-12-01T02:13:44Z")


@pytest.fixture
def best(problem: AttentionProblem, plan: TilingPlan, timing: Timing) -> BestPlan:
    return BestPlan(
        problem,
        "Ascend910A",
        "emulated:Ascend910A",
        "f1",
        plan,
        timing,
        error=1.25e-4,
        default_time_us=249.9,
        trials=60,
        sweep="sweep-1",
        measured_at="2026-12-01T02:13:44Z",
    )


@pytest.fixture
def at_time() -> Callable[..., BestPlan]:
    """A best plan like the given one, timed at other microseconds."""

    def change(best: BestPlan, time_us: float, **changes: Any) -> BestPlan:
        return replace(best, timing=replace(best.timing, time_us=time_us), **changes)

    return change


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'plans.db'}"
