"""The timing model: hand-counted programs, and remembered turns against walking every turn."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L1, UB
from autotune.kernels.davinci.timing import Walk, estimate
from tests.kernels.davinci.random_programs import built, random_program, vector

ISSUE, START, SYNC, READ, WRITE, OPERATION = 2, 25, 15, 30, 2, 1
"""Cycles of the model, written out here again so that a change shows."""


@pytest.fixture(autouse=True)
def _chip() -> Any:
    before = soc.Current.soc
    soc.use("Ascend910A")
    yield
    soc.Current.soc = before


def test_one_vector_instruction_costs_issue_start_and_its_repeats() -> None:
    tik = Tik()
    a = vector(tik)
    tik.vec_dup(128, a, 1.0, 8, 8)
    assert estimate(built(tik)).cycles == ISSUE + START + 8


def test_independent_vector_instructions_pay_the_start_once() -> None:
    tik = Tik()
    for name in ("a", "b", "c"):
        tik.vec_dup(128, vector(tik, name), 1.0, 8, 8)
    assert estimate(built(tik)).cycles == ISSUE + START + 3 * 8


def test_a_vector_instruction_that_reads_the_last_result_pays_the_start_again() -> None:
    tik = Tik()
    a = vector(tik)
    tik.vec_dup(128, a, 1.0, 8, 8)
    tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    assert estimate(built(tik)).cycles == ISSUE + 2 * (START + 8)


def test_pipes_overlap_where_nothing_binds_them() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    a, b = tik.Tensor("float16", (32768,), UB, "a"), vector(tik, "b")
    tik.data_move(a, gm, 0, 1, 2048, 0, 0)
    tik.vec_dup(128, b, 1.0, 8, 8)
    assert estimate(built(tik, gm)).cycles == ISSUE + 65536 // 32


def test_a_vector_instruction_waits_for_the_move_it_reads() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    a = tik.Tensor("float16", (32768,), UB, "a")
    tik.data_move(a, gm, 0, 1, 2048, 0, 0)
    tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    assert estimate(built(tik, gm)).cycles == ISSUE + 65536 // 32 + SYNC + START + 8


def test_two_buffers_in_turn_let_a_move_run_under_the_vector_unit() -> None:
    def program(thread_num: int) -> Any:
        tik = Tik()
        gm = tik.Tensor("float16", (65536,), GM, "gm")
        with tik.for_range(0, 8, thread_num=thread_num) as i:
            a = tik.Tensor("float16", (8192,), UB, "a")
            tik.data_move(a, gm[i * 8192], 0, 1, 512, 0, 0)
            for _ in range(4):
                tik.vec_exp(128, a, a, 64, 8, 8)
        return built(tik, gm)

    one, two = estimate(program(1)).cycles, estimate(program(2)).cycles
    move, vector = 512, 4 * (START + 4 * 64)
    assert one == pytest.approx(8 * (move + vector + 2 * SYNC), rel=0.02)
    assert two == pytest.approx(8 * vector + move, rel=0.03)


def test_slices_of_one_tensor_are_as_good_as_two_tensors() -> None:
    def program(place: Any) -> Any:
        tik = Tik()
        gm = tik.Tensor("float16", (65536,), GM, "gm")
        ring = tik.Tensor("float16", (16384,), UB, "ring")
        with tik.for_range(0, 8) as i:
            tik.data_move(ring[place(i)], gm[i * 8192], 0, 1, 512, 0, 0)
            for _ in range(4):
                tik.vec_exp(128, ring[place(i)], ring[place(i)], 64, 8, 8)
        tik.vec_exp(128, ring[0], ring[0], 64, 8, 8)
        tik.vec_exp(128, ring[8192], ring[8192], 64, 8, 8)
        return built(tik, gm)

    one, ring = estimate(program(lambda i: 0)).cycles, estimate(program(lambda i: i % 2 * 8192)).cycles
    vector = 4 * (START + 4 * 64)
    assert one - ring == pytest.approx(7 * (512 + 2 * SYNC), rel=0.05)
    assert ring == pytest.approx(8.5 * vector + 512, rel=0.03)


def test_a_scalar_read_of_a_tensor_stops_the_issue_of_everything_behind_it() -> None:
    tik = Tik()
    a, b = vector(tik, "a"), vector(tik, "b")
    tik.vec_dup(128, a, 1.0, 8, 8)
    scalar = tik.Scalar("float16")
    scalar.set_as(a[0])
    tik.vec_dup(128, b, scalar, 8, 8)
    read = ISSUE + START + 8 + SYNC + READ
    assert estimate(built(tik)).cycles == read + ISSUE + START + 8


def test_the_issue_queue_holds_32_instructions() -> None:
    tik = Tik()
    a = tik.Tensor("float16", (65536,), UB, "a")
    with tik.for_range(0, 200):
        tik.vec_dup(128, a, 1.0, 255, 8)
    b = tik.Tensor("float16", (16,), L1, "b")
    gm = tik.Tensor("float16", (16,), GM, "gm")
    tik.data_move(b, gm, 0, 1, 1, 0, 0)
    program = built(tik, gm)
    # The move is issued only when all but the last 32 of the 200 fills have started.
    assert estimate(program).busy["V"] == 200 * 255
    assert estimate(program).cycles == ISSUE + OPERATION + 200 * (255 + START)


def test_cores_in_one_wave_take_as_long_as_the_slowest() -> None:
    def program(blocks: int) -> Any:
        tik = Tik()
        with tik.for_range(0, blocks, block_num=blocks) as core:
            a = vector(tik)
            with tik.for_range(0, core + 1):
                tik.vec_dup(128, a, 1.0, 8, 8)
        return built(tik)

    few = estimate(program(4))
    assert few.cycles == max(few.core_cycles) == few.core_cycles[3]
    many = estimate(program(40))
    assert many.cycles == many.core_cycles[39] + many.core_cycles[7]


def test_an_estimate_takes_every_number_from_its_profile() -> None:
    tik = Tik()
    a, b = vector(tik, "a"), vector(tik, "b")
    tik.vec_exp(128, a, b, 8, 8, 8)
    scalar = tik.Scalar("float16")
    scalar.set_as(a[0])
    tik.vec_dup(128, b, scalar, 8, 8)
    constants = {**DEFAULT.constants, "issue": 3, "vector_start": 40, "sync_latency": 20, "scalar_read": 50}
    other = Profile("other", constants, {"vexp": (6, 2)})
    program = built(tik)
    assert estimate(program, profile=other).cycles == 3 + 40 + 8 * 6 + 20 + 50 + 3 + 40 + 8
    assert estimate(program).cycles == ISSUE + START + 8 * 4 + SYNC + READ + ISSUE + START + 8


@pytest.mark.parametrize("seed", range(80))
def test_remembered_turns_equal_walking_every_turn(seed: int) -> None:
    program = random_program(seed)
    assert estimate(program) == estimate(program, remember=False)


@pytest.mark.parametrize(
    ("turns", "distinct"),
    [((3, 3, 3, 3), 1), ((3, 1, 3, 2), 3), ((0, 1, 0, 1), 2)],
)
def test_cores_that_do_the_same_work_are_walked_once(turns: tuple[int, ...], distinct: int) -> None:
    tik = Tik()
    with tik.for_range(0, 4, block_num=4) as core:
        first, end = tik.Scalar("int32", init_value=0), tik.Scalar("int32", init_value=0)
        for number, own in enumerate(turns):
            with tik.if_scope(core == number):
                first.set_as(10 * number)
                end.set_as(10 * number + own)
        a = vector(tik)
        with tik.for_range(first, end) as position:
            with tik.if_scope(position + 1 < end):
                tik.vec_dup(128, a, 1.0, 2, 8)
            tik.vec_dup(128, a, 1.0, 8, 8)
    program = built(tik)
    cores = Walk(program, True, DEFAULT).cores()
    assert len({id(core) for core in cores}) == distinct
    assert estimate(program) == estimate(program, remember=False)


def test_cores_steered_by_stored_numbers_are_told_apart() -> None:
    tik = Tik()
    table = tik.Tensor("int32", (8,), UB, "table")
    for number in range(4):
        table[number] = number + 1
    with tik.for_range(0, 4, block_num=4) as core:
        end, a = tik.Scalar("int32"), vector(tik)
        end.set_as(table[core])
        with tik.for_range(0, end):
            tik.vec_dup(128, a, 1.0, 8, 8)
    found = estimate(built(tik)).core_cycles
    assert sorted(set(found)) == list(found)
    assert len(found) == 4
