"""``autotune.attention``: right, with the plan that is stored, and clear about where that is from."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autotune
from autotune import attend
from autotune.client import TuningWarning
from autotune.db.store import Store
from autotune.errors import ProblemError, TargetUnavailable
from autotune.kernels.targets.cpu import CpuKernel, CpuTarget
from autotune.outcome import MEASURED, BestPlan, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem

Array = NDArray[Any]
SHAPE = (2, 3, 70, 90, 24)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> CpuTarget:
    try:
        return CpuTarget(tmp_path_factory.mktemp("cache"))
    except TargetUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def fresh(target: CpuTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing looked up before, no database in the present folder, one build for all tests."""
    attend._kernel.cache_clear()
    monkeypatch.setattr(attend, "_target", lambda: target)
    monkeypatch.chdir(tmp_path)
    yield
    attend._kernel.cache_clear()


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[TilingPlan]:
    """The plans of the kernels that ran."""
    ran: list[TilingPlan] = []
    exactly = CpuKernel.exactly

    def spied(self: CpuKernel, inputs: Any) -> Any:
        ran.append(self.plan)
        return exactly(self, inputs)

    monkeypatch.setattr(CpuKernel, "exactly", spied)
    return ran


def arrays(dtype: Any = np.float32) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(3)
    batch, heads, nq, n, d = SHAPE
    q, k, v = (random.standard_normal((batch, heads, length, d)).astype(dtype) for length in (nq, n, n))
    return q, k, v


def plain(q: Array, k: Array, v: Array, hidden: Array) -> Array:
    """Attention in float64; hidden: 1 where a query does not see a key."""
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k.astype(np.float64)) / np.sqrt(q.shape[-1])
    p = np.exp(scores - 1e4 * hidden)
    return np.asarray(np.einsum("bhqk,bhkd->bhqd", p / p.sum(-1, keepdims=True), v.astype(np.float64)))


@pytest.mark.parametrize("case", ["none", "causal", "full", "shared"])
@pytest.mark.filterwarnings("ignore::autotune.client.TuningWarning")
def test_it_is_attention(case: str) -> None:
    q, k, v = arrays()
    batch, _, nq, n, _ = SHAPE
    mask = np.random.default_rng(0).random((batch if case == "full" else 1, nq, n)) < 0.4
    mask[..., 0] = False
    hidden = {"none": np.zeros((nq, n)), "causal": np.triu(np.ones((nq, n)), 1)}.get(case, mask[:, None])
    given = {"none": {}, "causal": {"causal": True}}.get(case, {"attn_mask": mask})
    o = autotune.attention(q, k, v, **given)
    exact = plain(q, k, v, hidden)
    assert o.dtype == np.float32 and o.shape == q.shape
    assert np.linalg.norm(o - exact) < 1e-5 * np.linalg.norm(exact)


@pytest.mark.filterwarnings("ignore::autotune.client.TuningWarning")
def test_a_window_in_tokens() -> None:
    q, k, v = arrays()
    row, key = np.arange(SHAPE[2])[:, None], np.arange(SHAPE[3])
    exact = plain(q, k, v, (key < row - 9) | (key > row + 4))
    assert np.linalg.norm(autotune.attention(q, k, v, window=(9, 4)) - exact) < 1e-5 * np.linalg.norm(exact)


@pytest.mark.filterwarnings("ignore::autotune.client.TuningWarning")
def test_half_in_half_out() -> None:
    q, k, v = arrays(np.float16)
    o = autotune.attention(q, k, v)
    exact = plain(q, k, v, np.zeros(1))
    assert o.dtype == np.float16
    assert np.linalg.norm(o - exact) < 2**-12 * np.linalg.norm(exact)


def test_a_stored_plan_reaches_the_kernel(
    target: CpuTarget, plans: list[TilingPlan], caplog: pytest.LogCaptureFixture
) -> None:
    plan = TilingPlan(48, 80, CoreSplit("even", target.hardware.cores))
    best = BestPlan(
        AttentionProblem.of(SHAPE), target.hardware.name, target.name, target.fingerprint, plan,
        Timing(9.0, MEASURED, "test"), 1e-7, None, 1, "s", "2026-12-01T00:00:00Z",
    )  # fmt: skip
    store = Store.open("sqlite:///plans.db")
    store.publish(best)
    store.close()
    with caplog.at_level(logging.INFO), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            autotune.attention(*arrays(), db="sqlite:///plans.db")
    assert plans == [plan, plan]
    assert [record.message for record in caplog.records if record.name == attend.__name__] == [
        f"blocks of 48 x 80 from the rung exact of sqlite:///plans.db for {best.problem.key} on {target.hardware.name}"
    ]
    with pytest.warns(TuningWarning, match="blocks of 48 x 80 from the rung nearest"):
        autotune.attention(*(array[:1] for array in arrays()), db="sqlite:///plans.db")


def test_without_a_database_the_default_is_said_once(plans: list[TilingPlan]) -> None:
    with pytest.warns(TuningWarning, match="blocks of 80 x 96 from the rung default .*there is no database") as said:
        autotune.attention(*arrays())
        autotune.attention(*arrays())
    assert len(said) == 1 and said[0].filename == __file__
    assert [(plan.Br, plan.Bc) for plan in plans] == [(80, 96)] * 2


@pytest.mark.filterwarnings("ignore::autotune.client.TuningWarning")
def test_a_service_that_is_away_costs_the_plan_alone(plans: list[TilingPlan]) -> None:
    o = autotune.attention(*arrays(), url="http://127.0.0.1:9")
    assert np.isfinite(o).all() and (plans[0].Br, plans[0].Bc) == (80, 96)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": np.zeros((3, 4), np.float32)}, r"q is float32 of shape \(3, 4\); it must be"),
        ({"k": np.zeros((*SHAPE[:2], 90, 24))}, "k is float64"),
        ({"k": np.zeros((2, 1, 90, 24), np.float32)}, r"k \(2, 1, 90, 24\) and v \(2, 3, 90, 24\) must both be"),
        ({"v": np.zeros((2, 3, 91, 24), np.float32)}, "must both be"),
        ({"attn_mask": np.zeros((70, 90))}, r"attn_mask has shape \(70, 90\); it must be \(2, 70, 90\), or"),
        ({"attn_mask": np.zeros((1, 70, 90)), "causal": True}, "exclude each other"),
        ({name: np.zeros((2, 3, 8, 300), np.float32) for name in "qkv"}, "head dimension is at most 256"),
    ],
)
def test_what_is_no_attention_problem(change: dict[str, Any], message: str) -> None:
    given = {**dict(zip("qkv", arrays())), **change}
    with pytest.raises(ProblemError, match=message):
        autotune.attention(**given)


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(attend, "_target", lambda: CpuTarget(tmp_path))
    with pytest.raises(TargetUnavailable, match="no C compiler"):
        autotune.attention(*arrays())


def test_the_package_loads_it_when_it_is_asked_for() -> None:
    program = (
        "import sys, autotune; assert 'numpy' not in sys.modules; autotune.attention; assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        autotune.nothing  # noqa: B018
