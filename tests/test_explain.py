"""Explaining a plan: its JSON, the default's plan, maps of blocks, and what is refused."""

from __future__ import annotations

import json

import pytest

from autotune import explain as explaining
from autotune.errors import PlanError, PlanRejected, TargetUnavailable
from autotune.kernels.davinci.costs import Profile
from autotune.kernels.flash_attention import plans
from autotune.kernels.targets.base import TimingBudget
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

PROBLEM = AttentionProblem.of((1, 2, 256, 256, 64))
PLAN = TilingPlan(64, 128, CoreSplit("even"))


@pytest.fixture(scope="module")
def target() -> EmulatedTarget:
    return EmulatedTarget("Ascend910A")


def test_json_has_stable_names_and_shares_that_add_up(target: EmulatedTarget) -> None:
    value = json.loads(json.dumps(explaining.explain(target, PROBLEM, PLAN).to_json()))
    assert {name: value["plan"][name] for name in ("Br", "Bc", "Tr", "Tc")} == {"Br": 64, "Bc": 128, "Tr": 4, "Tc": 2}
    assert (value["device"], value["kind"]) == ("emulated:Ascend910A", "emulated")
    assert list(value["pipes"]) == ["V", "M", "MTE1", "MTE2", "MTE3", "S"]
    for share in value["pipes"].values():
        assert share["busy"] + share["stalled"] + share["idle"] == value["cycles"]
        assert share["busy_share"] == pytest.approx(share["busy"] / value["cycles"])
    assert 0 < value["roofline"]["reached"] <= 1
    assert value["roofline"]["cycles"] == max(value["roofline"]["full_rate"].values())
    cycles = [stall["cycles"] for stall in value["stalls"]]
    assert cycles == sorted(cycles, reverse=True)


def test_stalls_name_a_line_of_the_kernel(target: EmulatedTarget) -> None:
    for stall in explaining.explain(target, PROBLEM, PLAN).to_json()["stalls"]:
        folder_and_file, number = stall["line"].split(":")
        assert folder_and_file.startswith("flash_attention/")
        assert int(number) > 0
        assert stall["source"]


def test_bytes_are_those_of_the_problem(target: EmulatedTarget) -> None:
    moved = explaining.explain(target, PROBLEM, PLAN).found.moved_by_all
    matrix, query_blocks = 2 * 256 * 64 * 2, 4  # bytes of Q, of K and of V
    assert moved["GM->L1"] == (2 * query_blocks + 1) * matrix
    assert "GM->UB" not in moved


def test_a_plan_that_does_not_fit_is_wrong_input_with_its_numbers(target: EmulatedTarget) -> None:
    problem = AttentionProblem.of((1, 1, 2048, 2048, 64))
    with pytest.raises(PlanError, match=r"UB needs \d+ bytes"):
        explaining.explain(target, problem, TilingPlan(512, 512))


def test_a_target_that_measures_cannot_explain(target: EmulatedTarget) -> None:
    class Measuring:
        name, hardware, fingerprint = "cann:0", target.hardware, "f"

        def compile(self, problem: AttentionProblem, plan: TilingPlan) -> object:
            return object()

    with pytest.raises(TargetUnavailable, match="cann:0 measures"):
        explaining.explain(Measuring(), PROBLEM, PLAN)  # type: ignore[arg-type]


def test_the_default_plan_is_that_of_sparse(target: EmulatedTarget) -> None:
    plan = explaining.default_plan(AttentionProblem.of((1, 2, 512, 512, 64)), target)
    assert (plan.Br, plan.Bc, plan.strategy) == (128, 128, "sparse")


def test_a_map_has_every_block_and_says_why_some_have_no_time(target: EmulatedTarget) -> None:
    def check(problem: AttentionProblem, plan: TilingPlan) -> None:
        if plan.Br * plan.Bc > 32 * 32:
            raise PlanRejected("too large for this test")
        plans.check(problem, plan, target.hardware)

    problem = AttentionProblem.of((1, 2, 48, 32, 64))
    cells = list(explaining.time_map(target, problem, PLAN, check))
    assert [(cell.Br, cell.Bc, cell.reason) for cell in cells] == [
        (16, 16, ""), (16, 32, ""), (32, 16, ""), (32, 32, ""), (48, 16, ""), (48, 32, "too large for this test"),
    ]  # fmt: skip
    assert [cell.time_us is None for cell in cells] == [False] * 5 + [True]
    one = explaining.explain(target, problem, TilingPlan(32, 16, CoreSplit("even")))
    assert cells[2].time_us == one.found.estimate.time_us
    fastest = explaining.fastest(cells, PLAN)
    assert len(fastest) == 5
    assert (fastest[0].Br, fastest[0].Bc) == min((cell.time_us or 1e9, cell.Br, cell.Bc) for cell in cells)[1:]


def test_the_fastest_plan_says_how_often_it_stays_the_fastest(target: EmulatedTarget) -> None:
    problem = AttentionProblem.of((1, 1, 64, 32, 16))
    several = [TilingPlan(Br, Bc) for Br, Bc in ((16, 16), (64, 32), (32, 32), (64, 32))]
    found = explaining.stability(target, problem, several)
    assert len(found.plans) == 3
    times = [explaining.explain(target, problem, plan).found.estimate.cycles for plan in found.plans]
    assert times == sorted(times)
    value = found.to_json()
    assert value["plans"][0] == found.plans[0].to_json()
    assert value["share"] == found.found.kept / value["draws"]
    alone = explaining.stability(target, problem, several[:1])
    assert (alone.found.share, alone.found.worst_loss, alone.found.deciding) == (1.0, 0.0, ())


def test_a_target_with_a_profile_is_explained_with_its_numbers(target: EmulatedTarget) -> None:
    slow = EmulatedTarget("Ascend910A", profile=Profile("slow", {"vector_start": 200}))
    assert slow.fingerprint != target.fingerprint
    usual, found = (explaining.explain(chip, PROBLEM, PLAN).found for chip in (target, slow))
    assert found.cycles > usual.cycles
    plan = complete(PLAN, PROBLEM, slow.hardware)
    assert slow.compile(PROBLEM, plan).time(TimingBudget()).time_us == found.estimate.time_us


@pytest.mark.parametrize(("most", "expected"), [(80, [16, 32, 48, 64, 80, 96]), (400, list(range(32, 417, 32)))])
def test_the_sides_of_a_map_end_one_step_beyond_what_is_legal(most: int, expected: list[int]) -> None:
    def check(problem: AttentionProblem, plan: TilingPlan) -> None:
        if plan.Br > most:
            raise PlanRejected("too large")

    problem = AttentionProblem.of((1, 1, 512, 48, 64))
    assert explaining.blocks(problem, PLAN, check) == (expected, [16, 32, 48])
