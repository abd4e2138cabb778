"""Which rung answers, and with what; figures worked out by hand."""

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autotune.db.store import Store
from autotune.errors import PlanRejected
from autotune.outcome import MEASURED, BestPlan
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.service.device import Device
from autotune.service.ladder import RUNGS, Answer, answer, distance


def answered(problem: AttentionProblem, device: Device, store: Store, **options: Any) -> Answer:
    """The answer; there has to be one."""
    found = answer(problem, device, store, **options)
    assert found is not None
    return found


def source_of(found: Answer) -> BestPlan:
    assert found.source is not None
    return found.source


def test_an_exact_match_is_what_was_stored(best: BestPlan, device: Device, store: Store) -> None:
    store.publish(replace(best, timing=replace(best.timing, stays_best=0.9)))
    found = answered(best.problem, device, store)
    assert found.to_json() == {
        "problem": {
            "op": "flash_attention",
            "shape": [2, 16, 1024, 1024, 64],
            "dtype": "float16",
            "attn_mask": "none",
            "dropout": False,
            "alibi": False,
            "window": None,
            "block_window": None,
            "high_precision": False,
        },
        "device": "Ascend910A",
        "plan": {
            "Br": 128,
            "last_Br": 128,
            "Bc": 256,
            "last_Bc": 256,
            "Tr": 8,
            "Tc": 4,
            "core_split": {"rule": "balanced", "block_num": 32},
            "double_buffer": False,
            "slice_rows": 0,
            "exp": "float32",
            "strategy": "lattice",
        },
        "time_us": 200.0,
        "kind": "emulated",
        "clock": "model-1",
        "stays_best": 0.9,
        "default_time_us": 250.0,
        "speedup_over_default": 1.25,
        "match": "exact",
        "distance": 0.0,
        "matched_shape": [2, 16, 1024, 1024, 64],
        "matched_time_us": 200.0,
        "stale": False,
        "provenance": {
            "target": "emulated:Ascend910A",
            "fingerprint": "f1",
            "trials": 60,
            "sweep": "sweep-1",
            "measured_at": "2026-12-01T02:13:44Z",
        },
        "revision": 1,
    }


def test_the_nearest_plan_is_worked_out_for_the_problem_asked_about(
    best: BestPlan, device: Device, store: Store
) -> None:
    store.publish(best)
    body = answered(best.problem.with_shape((1, 6, 1000, 300, 64)), device, store).to_json()
    assert body["match"] == "nearest"
    assert body["distance"] == pytest.approx(
        math.sqrt(math.log2(32 / 6) ** 2 + math.log2(1024 / 1000) ** 2 + math.log2(1024 / 300) ** 2)
    )
    assert body["plan"] == {
        "Br": 128,
        "last_Br": 1000 - 7 * 128,
        "Bc": 256,
        "last_Bc": 300 - 256,
        "Tr": 8,
        "Tc": 2,
        "core_split": {"rule": "balanced", "block_num": 32},  # 6 heads of 8 row blocks: more than the cores
        "double_buffer": False,
        "slice_rows": 0,
        "exp": "float32",
        "strategy": "lattice",
    }


def test_a_borrowed_plan_uses_no_more_cores_than_there_are_row_blocks(
    best: BestPlan, device: Device, store: Store
) -> None:
    store.publish(best)
    plan = answered(best.problem.with_shape((1, 5, 512, 1024, 64)), device, store).plan
    assert plan.core_split == CoreSplit("balanced", 20)  # 5 heads of 4 row blocks


def test_a_borrowed_time_is_never_the_problems_own(best: BestPlan, device: Device, store: Store) -> None:
    store.publish(best)
    body = answered(best.problem.with_shape((2, 16, 2048, 1024, 64)), device, store).to_json()
    assert (body["match"], body["distance"]) == ("nearest", 1.0)
    assert [body[name] for name in ("time_us", "default_time_us", "speedup_over_default")] == [None, None, None]
    assert (body["matched_shape"], body["matched_time_us"]) == ([2, 16, 1024, 1024, 64], 200.0)
    assert (body["kind"], body["clock"], body["revision"]) == ("emulated", "model-1", 1)


def test_a_borrowed_plan_is_cut_to_the_padded_lengths(
    best: BestPlan, device: Device, store: Store, at_shape: Callable[..., BestPlan]
) -> None:
    store.publish(at_shape(best, 2, 16, 128, 128, 64, plan=TilingPlan(128, 128, CoreSplit("even", 32))))
    plan = answered(best.problem.with_shape((2, 16, 40, 100, 64)), device, store).plan
    assert (plan.Br, plan.Bc) == (48, 112)
    assert plan.core_split.block_num == 32  # 32 heads of one row block


def test_the_nearest_of_several_answers(
    best: BestPlan, device: Device, store: Store, at_shape: Callable[..., BestPlan]
) -> None:
    shapes = [(2, 16, 4096, 1024, 64), (2, 16, 512, 1024, 64), (2, 16, 1024, 8192, 64)]
    for shape in shapes:
        store.publish(at_shape(best, *shape))
    found = answered(best.problem, device, store)
    assert source_of(found).problem.shape == shapes[1]
    assert found.distance == 1.0


def test_at_one_distance_a_measured_plan_comes_first(
    best: BestPlan, device: Device, store: Store, at_shape: Callable[..., BestPlan]
) -> None:
    store.publish(at_shape(best, 2, 16, 512, 1024, 64))
    measured = replace(best.timing, kind=MEASURED, time_us=900.0)
    store.publish(at_shape(best, 2, 16, 2048, 1024, 64, target="cann:0", timing=measured))
    assert source_of(answered(best.problem, device, store)).target == "cann:0"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 32, 1024, 1024, 64), 0.0),
        ((2, 16, 2048, 1024, 64), 1.0),
        ((2, 16, 4096, 4096, 64), math.sqrt(8)),
        ((1, 4, 1024, 1024, 64), 3.0),
        ((1, 4, 1024, 2048, 64), math.sqrt(10)),
    ],
)
def test_distance_counts_doublings_and_has_a_limit(
    best: BestPlan, device: Device, store: Store, shape: tuple[int, int, int, int, int], expected: float
) -> None:
    store.publish(best)
    problem = best.problem.with_shape(shape)
    assert distance(problem, best.problem) == pytest.approx(expected)
    assert distance(best.problem, problem) == pytest.approx(expected)
    assert answered(problem, device, store).match == ("nearest" if expected <= 3.0 else "default")


@pytest.mark.parametrize(("head_dim", "match"), [(64, "nearest"), (50, "nearest"), (48, "default"), (65, "default")])
def test_a_neighbour_has_as_many_tiles_in_its_heads(
    best: BestPlan, device: Device, store: Store, head_dim: int, match: str
) -> None:
    store.publish(best)
    assert answered(best.problem.with_shape((2, 16, 2048, 1024, head_dim)), device, store).match == match


@pytest.mark.parametrize(
    "change",
    [
        {"attn_mask": "causal"},
        {"dropout": True},
        {"alibi": True},
        {"window": (511, 0)},
        {"block_window": (7, 0)},
        {"high_precision": True},
        {"op": "flash_attention_grad"},
        {"dtype": "bfloat16"},
    ],
)
def test_another_kind_of_problem_is_no_neighbour(
    best: BestPlan, device: Device, store: Store, change: dict[str, Any]
) -> None:
    store.publish(best)
    assert answered(replace(best.problem, **change), device, store).match == "default"


def test_the_default_is_the_sparse_plan_without_a_time(best: BestPlan, device: Device, store: Store) -> None:
    body = answered(AttentionProblem.of((1, 3, 300, 200, 80)), device, store).to_json()
    assert body["match"] == "default"
    plan = body["plan"]
    assert (plan["strategy"], plan["Br"], plan["Bc"]) == ("sparse", 128, 128)
    assert (plan["last_Br"], plan["last_Bc"], plan["Tr"], plan["Tc"]) == (300 - 256, 200 - 128, 3, 2)
    assert plan["core_split"]["block_num"] == 9
    unknown = {
        name: value for name, value in body.items() if name not in ("problem", "device", "plan", "match", "stale")
    }
    assert set(unknown.values()) == {None}
    assert body["stale"] is False


def test_an_illegal_plan_is_never_served(
    best: BestPlan, device: Device, store: Store, at_shape: Callable[..., BestPlan]
) -> None:
    too_big = TilingPlan(512, 512, CoreSplit("even", 32))  # 4 * 512 * 512 bytes of 256 KiB
    store.publish(replace(best, plan=too_big))
    store.publish(at_shape(best, 2, 16, 1024, 2048, 64, plan=too_big))
    assert answered(best.problem, device, store).match == "default"
    store.publish(at_shape(best, 2, 16, 4096, 1024, 64))
    found = answered(best.problem, device, store)
    assert (found.match, found.distance) == ("nearest", 2.0)  # not the illegal one at distance 1


def test_the_split_of_an_extension_that_is_missing_here(
    best: BestPlan, device: Device, store: Store, at_shape: Callable[..., BestPlan]
) -> None:
    store.publish(at_shape(best, 2, 16, 512, 1024, 64, plan=TilingPlan(64, 64, CoreSplit("theirs", 4))))
    assert answered(best.problem, device, store).match == "default"


def test_no_legal_plan_at_all(best: BestPlan, device: Device, store: Store) -> None:
    def nothing(problem: AttentionProblem, plan: TilingPlan) -> None:
        raise PlanRejected("nothing fits")

    store.publish(best)
    assert answer(best.problem, replace(device, check=nothing), store) is None


def test_rungs_can_be_forbidden(best: BestPlan, device: Device, store: Store) -> None:
    store.publish(best)
    other = best.problem.with_shape((2, 16, 2048, 1024, 64))

    def matches(problem: AttentionProblem, *allow: str) -> str | None:
        found = answer(problem, device, store, allow)
        return found.match if found else None

    assert matches(best.problem, "default", "exact") == "exact"  # the order is the ladder's
    assert matches(best.problem, "default") == "default"
    assert matches(best.problem, "nearest", "default") == "default"  # a problem is not its own neighbour
    assert matches(other, "exact") is None
    assert matches(other, "exact", "default") == "default"
    assert matches(other, *RUNGS) == "nearest"


def test_a_target_narrows_to_its_kind(best: BestPlan, device: Device, store: Store) -> None:
    timing = replace(best.timing, kind=MEASURED, time_us=900.0)
    store.publish(best)
    store.publish(replace(best, target="cann:0", timing=timing))
    assert source_of(answered(best.problem, device, store)).target == "cann:0"
    assert (
        source_of(answered(best.problem, device, store, target="emulated:Ascend910A")).target == "emulated:Ascend910A"
    )


def test_a_stale_result_still_answers_and_says_so(best: BestPlan, device: Device, store: Store) -> None:
    store.publish(replace(best, fingerprint="f0"))
    found = answered(best.problem, device, store)
    assert (found.match, found.stale) == ("exact", True)
    near = answered(best.problem.with_shape((2, 16, 2048, 1024, 64)), device, store)
    assert (near.match, near.stale) == ("nearest", True)


def test_a_result_of_a_target_that_is_not_here_is_not_called_stale(
    best: BestPlan, device: Device, store: Store
) -> None:
    store.publish(replace(best, target="cann:0", fingerprint="cann-8.5"))
    assert answered(best.problem, device, store).stale is False


def test_it_imports_no_web_framework_and_no_search() -> None:
    code = (
        "import sys, autotune.service.ladder as _; print(sorted({'fastapi', 'optuna', 'pydantic'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
