"""The C kernel against float64: any shape, blocks, mask and core split, for every width of vector that builds here."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autotune.errors import CompileFailed
from autotune.hardware import Hardware
from autotune.kernels.flash_attention import reference
from autotune.kernels.native import build as building
from autotune.kernels.native.build import Compiler, build
from autotune.kernels.native.library import Launch, Library, narrowed
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import ATTN_MASKS, DTYPES, AttentionProblem
from autotune.strategies.core_split import RULES, complete

Array = NDArray[Any]
WIDTHS = {"native": "native", "AVX2": "x86-64-v3", "generic": "x86-64"}
SANITIZED = (
    ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1") if "SANITIZE" in os.environ else ()
)
"""Of script/sanitize."""


@pytest.fixture(scope="module", params=WIDTHS)
def library(request: pytest.FixtureRequest, compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Library:
    if request.param != "native" and platform.machine() != "x86_64":
        pytest.skip(f"{request.param} is a kind of x86-64")
    with pytest.MonkeyPatch.context() as patch:
        flags = [flag.replace("native", WIDTHS[request.param]) for flag in building.FLAGS]
        patch.setattr(building, "FLAGS", (*flags, *SANITIZED))
        return Library(build(compiler, "", tmp_path_factory.mktemp("cache")))


WINDOWS = st.none() | st.tuples(st.integers(0, 160), st.integers(0, 160))
BLOCK_WINDOWS = st.none() | st.tuples(st.integers(0, 1), st.integers(0, 1))


@st.composite
def cases(draw: st.DrawFn) -> tuple[AttentionProblem, TilingPlan, int]:
    """A problem, a plan with its work, and a seed."""
    shape = [draw(st.integers(1, most)) for most in (2, 3, 300, 300, 256)]
    problem = AttentionProblem.of(
        shape,
        attn_mask=draw(st.sampled_from(ATTN_MASKS)),
        window=draw(WINDOWS),
        block_window=draw(BLOCK_WINDOWS),
        dropout=draw(st.booleans()),
        alibi=draw(st.booleans()),
        dtype=draw(st.sampled_from(DTYPES)),
    )
    Br, Bc = (16 * draw(st.integers(1, 10)) for _ in "rc")
    plan = TilingPlan(Br, Bc, CoreSplit(draw(st.sampled_from(sorted(RULES)))))
    chip = Hardware("any", draw(st.integers(1, 5)), 1000)
    return problem, complete(plan, problem, chip), draw(st.integers(0, 2**32 - 1))


def inputs(problem: AttentionProblem, seed: int, size: float = 1.0) -> dict[str, Array]:
    """Normal numbers; a mask that leaves every row its own key or the last one, which all its windows do too."""
    random = np.random.default_rng(seed)
    batch, heads, nq, n, d = problem.shape
    made: dict[str, Array] = {
        name: (size * random.standard_normal((batch, heads, length, d))).astype(np.float32)
        for name, length in zip("qkv", (nq, n, n))
    }
    if problem.dtype == "bfloat16":
        made = {name: (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for name, array in made.items()}
    own = np.arange(nq), np.minimum(np.arange(nq), n - 1)
    if problem.attn_mask in ("full", "shared"):
        mask = random.random((batch if problem.attn_mask == "full" else 1, nq, n)) < 0.5
        mask[:, *own] = False
        made["attn_mask"] = mask.astype(np.float16)
    if problem.dropout:
        kept = random.random((batch, heads, nq, n)) < 0.8
        kept[:, :, *own] = True
        made["dropout_mask"] = np.where(kept, 1.25, 0.0)
    if problem.alibi:
        made["alibi"] = random.normal(scale=2.0, size=(batch, heads, 1, n))
    return made


def errors(
    library: Library, problem: AttentionProblem, plan: TilingPlan, given_: dict[str, Array]
) -> tuple[float, float]:
    """Relative L2 distance of o, largest distance of lse; -inf where the other is, too."""
    launch = Launch(library, problem, plan, given_)
    launch()
    extras: dict[str, Any] = {name: array for name, array in given_.items() if name not in ("q", "k", "v")}
    o, lse = reference.forward(given_["q"], given_["k"], given_["v"], problem, **extras)
    without_keys = np.isinf(lse)
    assert (np.isneginf(launch.lse) == without_keys).all() and not launch.o[without_keys].any()
    lse_error = np.abs(launch.lse[~without_keys] - lse[~without_keys]).max()
    return float(np.linalg.norm(launch.o - o) / np.linalg.norm(o)), float(lse_error)


@settings(max_examples=100)
@given(case=cases())
def test_any_problem_and_plan(library: Library, case: tuple[AttentionProblem, TilingPlan, int]) -> None:
    problem, plan, seed = case
    o_error, lse_error = errors(library, problem, plan, inputs(problem, seed))
    assert o_error < 1e-5 and lse_error < 1e-5


@pytest.mark.parametrize("size", [1e-3, 4.0, 8.0])
def test_small_and_large_scores(library: Library, size: float) -> None:
    """Scores up to 60: fp32 keeps them to 4e-6, and the exponential makes that a relative error."""
    problem = AttentionProblem.of((1, 2, 100, 130, 64), attn_mask="causal")
    plan = complete(TilingPlan(48, 32), problem, Hardware("any", 2, 1000))
    o_error, lse_error = errors(library, problem, plan, inputs(problem, 7, size))
    assert o_error < 3e-5 and lse_error < 3e-4


def test_a_maximum_that_comes_last_rescales_what_was_summed(library: Library) -> None:
    problem = AttentionProblem.of((1, 1, 16, 64, 8))
    given_ = inputs(problem, 1)
    given_["q"][:], given_["k"][:] = 1.0, np.linspace(-30, 30, 64, dtype=np.float32)[:, None]
    plan = complete(TilingPlan(16, 16), problem, Hardware("any", 1, 1000))
    o_error, lse_error = errors(library, problem, plan, given_)
    assert o_error < 1e-5 and lse_error < 1e-4


def test_a_row_whose_every_key_is_masked_is_the_softmax_of_its_scores(library: Library) -> None:
    """-10000 takes fp32 scores down to steps of 1e-3."""
    problem = AttentionProblem.of((1, 2, 40, 60, 32), attn_mask="shared")
    given_ = inputs(problem, 5)
    given_["attn_mask"][0, ::3] = 1.0
    plan = complete(TilingPlan(32, 16), problem, Hardware("any", 1, 1000))
    o_error, _ = errors(library, problem, plan, given_)
    assert o_error < 1e-3


def test_what_nobody_sees_is_not_read(library: Library) -> None:
    """A window leaves out the first keys and the last: no number there matters."""
    problem = AttentionProblem.of((1, 1, 200, 400, 16), window=(20, 30))
    given_ = inputs(problem, 5)
    plan = complete(TilingPlan(64, 48), problem, Hardware("any", 2, 1000))
    launch = Launch(library, problem, plan, given_)
    launch()
    before = launch.o.copy()
    for name in "kv":
        launch._arrays[name][:, :, 230:] = np.nan
    launch()
    assert np.isfinite(launch.o).all() and (launch.o == before).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_not_hidden(library: Library, bad: float) -> None:
    problem = AttentionProblem.of((1, 1, 40, 40, 24))
    given_ = inputs(problem, 1)
    given_["k"][0, 0, 3, 5] = bad
    launch = Launch(library, problem, complete(TilingPlan(16, 16), problem, Hardware("any", 1, 1000)), given_)
    launch()
    assert np.isnan(launch.o).all(axis=-1).sum() >= np.count_nonzero(given_["q"][0, 0, :, 5] > 0)


def test_nothing_is_written_outside_the_results(library: Library) -> None:
    """The results lie inside larger arrays whose rest must stay as it was."""
    problem = AttentionProblem.of((1, 2, 37, 45, 19))
    plan = complete(TilingPlan(32, 32), problem, Hardware("any", 2, 1000))
    launch = Launch(library, problem, plan, inputs(problem, 3))
    around = np.full(launch.o.size + 64, 5.0, np.float32)
    launch._problem.o = around[32:].ctypes.data
    launch()
    assert (around[:32] == 5.0).all() and (around[-32:] == 5.0).all()
    assert np.isfinite(around).all()


def test_a_launch_says_how_long_it_took(library: Library) -> None:
    problem = AttentionProblem.of((1, 2, 256, 256, 64))
    plan = complete(TilingPlan(64, 64), problem, Hardware("any", 2, 1000))
    found = Launch(library, problem, plan, inputs(problem, 3))()
    assert 0 < found.cpu_us <= found.wall_us * 1.05


def test_more_work_takes_longer(library: Library) -> None:
    problem = AttentionProblem.of((1, 4, 128, 128, 64))
    times = []
    for heads in (1, 4):
        some = replace(problem, heads=heads)
        launch = Launch(library, some, complete(TilingPlan(64, 64), some, Hardware("any", 1, 1000)), inputs(some, 1))
        times.append(min(launch().cpu_us for _ in range(5)))
    assert times[1] > 2 * times[0]


def test_bfloat16_is_rounded_to_the_nearest_even() -> None:
    step = 2.0**-7
    given_ = np.array([1, 1 + 0.4 * step, 1 + step / 2, 1 + 1.5 * step, -1 - 0.6 * step, np.inf, np.nan, 0], np.float32)
    found = (narrowed(given_).astype(np.uint32) << 16).view(np.float32)
    expected = np.array([1, 1, 1, 1 + 2 * step, -1 - step, np.inf, np.nan, 0], np.float32)
    np.testing.assert_array_equal(found, expected)


def test_a_file_that_is_no_library_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "forward.so").write_text("no library")
    with pytest.raises(CompileFailed, match="does not load"):
        Library(tmp_path / "forward.so")
