"""The timing model: hand-counted programs, and remembered turns against walking every turn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L1, UB
from autotune.kernels.davinci.timing import estimate

ISSUE, START, SYNC, READ, WRITE, OPERATION = 2, 25, 15, 30, 2, 1
"""Cycles of the model, written out here again so that a change shows."""


@pytest.fixture(autouse=True)
def _chip() -> Any:
    before = soc.Current.soc
    soc.use("Ascend910A")
    yield
    soc.Current.soc = before


def _vector(tik: Tik, name: str = "ub") -> Any:
    return tik.Tensor("float16", (1024,), UB, name)


def _built(tik: Tik, *tensors: Any) -> Any:
    tik.BuildCCE("kernel", [], list(tensors))
    return tik.program


def test_one_vector_instruction_costs_issue_start_and_its_repeats() -> None:
    tik = Tik()
    a = _vector(tik)
    tik.vec_dup(128, a, 1.0, 8, 8)
    assert estimate(_built(tik)).cycles == ISSUE + START + 8


def test_independent_vector_instructions_pay_the_start_once() -> None:
    tik = Tik()
    for name in ("a", "b", "c"):
        tik.vec_dup(128, _vector(tik, name), 1.0, 8, 8)
    assert estimate(_built(tik)).cycles == ISSUE + START + 3 * 8


def test_a_vector_instruction_that_reads_the_last_result_pays_the_start_again() -> None:
    tik = Tik()
    a = _vector(tik)
    tik.vec_dup(128, a, 1.0, 8, 8)
    tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    assert estimate(_built(tik)).cycles == ISSUE + 2 * (START + 8)


def test_pipes_overlap_where_nothing_binds_them() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    a, b = tik.Tensor("float16", (32768,), UB, "a"), _vector(tik, "b")
    tik.data_move(a, gm, 0, 1, 2048, 0, 0)
    tik.vec_dup(128, b, 1.0, 8, 8)
    assert estimate(_built(tik, gm)).cycles == ISSUE + 65536 // 32


def test_a_vector_instruction_waits_for_the_move_it_reads() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    a = tik.Tensor("float16", (32768,), UB, "a")
    tik.data_move(a, gm, 0, 1, 2048, 0, 0)
    tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    assert estimate(_built(tik, gm)).cycles == ISSUE + 65536 // 32 + SYNC + START + 8


def test_two_buffers_in_turn_let_a_move_run_under_the_vector_unit() -> None:
    def program(thread_num: int) -> Any:
        tik = Tik()
        gm = tik.Tensor("float16", (65536,), GM, "gm")
        with tik.for_range(0, 8, thread_num=thread_num) as i:
            a = tik.Tensor("float16", (8192,), UB, "a")
            tik.data_move(a, gm[i * 8192], 0, 1, 512, 0, 0)
            for _ in range(4):
                tik.vec_exp(128, a, a, 64, 8, 8)
        return _built(tik, gm)

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
        return _built(tik, gm)

    one, ring = estimate(program(lambda i: 0)).cycles, estimate(program(lambda i: i % 2 * 8192)).cycles
    vector = 4 * (START + 4 * 64)
    assert one - ring == pytest.approx(7 * (512 + 2 * SYNC), rel=0.05)
    assert ring == pytest.approx(8.5 * vector + 512, rel=0.03)


def test_a_scalar_read_of_a_tensor_stops_the_issue_of_everything_behind_it() -> None:
    tik = Tik()
    a, b = _vector(tik, "a"), _vector(tik, "b")
    tik.vec_dup(128, a, 1.0, 8, 8)
    scalar = tik.Scalar("float16")
    scalar.set_as(a[0])
    tik.vec_dup(128, b, scalar, 8, 8)
    read = ISSUE + START + 8 + SYNC + READ
    assert estimate(_built(tik)).cycles == read + ISSUE + START + 8


def test_the_issue_queue_holds_32_instructions() -> None:
    tik = Tik()
    a = tik.Tensor("float16", (65536,), UB, "a")
    with tik.for_range(0, 200):
        tik.vec_dup(128, a, 1.0, 255, 8)
    b = tik.Tensor("float16", (16,), L1, "b")
    gm = tik.Tensor("float16", (16,), GM, "gm")
    tik.data_move(b, gm, 0, 1, 1, 0, 0)
    program = _built(tik, gm)
    # The move is issued only when all but the last 32 of the 200 fills have started.
    assert estimate(program).busy["V"] == 200 * 255
    assert estimate(program).cycles == ISSUE + OPERATION + 200 * (255 + START)


def test_cores_in_one_wave_take_as_long_as_the_slowest() -> None:
    def program(blocks: int) -> Any:
        tik = Tik()
        with tik.for_range(0, blocks, block_num=blocks) as core:
            a = _vector(tik)
            with tik.for_range(0, core + 1):
                tik.vec_dup(128, a, 1.0, 8, 8)
        return _built(tik)

    few = estimate(program(4))
    assert few.cycles == max(few.core_cycles) == few.core_cycles[3]
    many = estimate(program(40))
    assert many.cycles == many.core_cycles[39] + many.core_cycles[7]


def test_an_estimate_takes_every_number_from_its_profile() -> None:
    tik = Tik()
    a, b = _vector(tik, "a"), _vector(tik, "b")
    tik.vec_exp(128, a, b, 8, 8, 8)
    scalar = tik.Scalar("float16")
    scalar.set_as(a[0])
    tik.vec_dup(128, b, scalar, 8, 8)
    constants = {**DEFAULT.constants, "issue": 3, "vector_start": 40, "sync_latency": 20, "scalar_read": 50}
    other = Profile("other", constants, {"vexp": (6, 2)})
    program = _built(tik)
    assert estimate(program, profile=other).cycles == 3 + 40 + 8 * 6 + 20 + 50 + 3 + 40 + 8
    assert estimate(program).cycles == ISSUE + START + 8 * 4 + SYNC + READ + ISSUE + START + 8


def _random_block(tik: Tik, draw: random.Random, tensors: list[Any], depth: int, index: Any) -> None:
    for _ in range(draw.randint(1, 5)):
        kind = draw.randrange(10)
        a, b = draw.choice(tensors), draw.choice(tensors)
        repeats = draw.randint(1, 8)
        if kind == 0 and depth < 3:
            with tik.for_range(0, draw.randint(1, 40), thread_num=draw.choice((1, 1, 2))) as inner:
                own = [*tensors, _vector(tik, "own")]
                _random_block(tik, draw, own, depth + 1, inner)
        elif kind == 1 and depth:
            with tik.if_scope(index < draw.randint(0, 10)):
                _random_block(tik, draw, tensors, depth + 1, index)
            with tik.else_scope():
                tik.vec_dup(128, a, 1.0, repeats, 8)
        elif kind == 2:
            scalar = tik.Scalar("float16")
            scalar.set_as(a[draw.randrange(64)])
            tik.vec_dup(128, b, scalar, repeats, 8)
        elif kind == 3:
            tik.data_move(tensors[0], a, 0, 1, draw.randint(1, 64), 0, 0)
        elif kind == 4:
            tik.data_move(tensors[1], tensors[0], 0, draw.randint(1, 4), 8, 0, 0)
        elif kind == 5 and depth:
            count = tik.Scalar("int32", init_value=index % 3)
            with tik.for_range(0, count + 1):
                tik.vec_muls(128, a, a, 0.5, repeats, 8, 8)
        elif kind == 6:
            with tik.for_range(0, draw.randint(2, 130)) as row:
                scalar = tik.Scalar("float16")
                scalar.set_as(a[row])
                tik.h_duplicate(b[16:32], scalar)
        elif kind == 7 and depth:
            tik.vec_muls(128, a[index % 2 * 512], b[draw.choice((0, 256, 512))], 0.5, draw.randint(1, 4), 8, 8)
        elif kind == 8:
            tik.vec_dup(128, a[draw.choice((0, 256, 512))], 1.0, draw.randint(1, 4), 8)
        else:
            tik.vec_add(128, a, a, b, repeats, 8, 8, 8)


@pytest.mark.parametrize("seed", range(80))
def test_remembered_turns_equal_walking_every_turn(seed: int) -> None:
    draw = random.Random(seed)
    tik = Tik()
    cores = draw.choice((1, 3, 5))
    gm = tik.Tensor("float16", (4096,), GM, "gm")
    table = tik.Tensor("int32", (64,), UB, "table")
    for i in range(8):
        table[i] = draw.randint(1, 4)

    def body(core: Any) -> None:
        turns = tik.Scalar("int32")
        turns.set_as(table[core])
        tensors = [_vector(tik, f"t{i}") for i in range(4)]
        with tik.for_range(0, turns) as outer:
            tik.data_move(tensors[2], gm, 0, 1, 64, 0, 0)
            _random_block(tik, draw, tensors, 1, outer)
            tik.data_move(gm, tensors[2], 0, 1, 64, 0, 0)

    if cores > 1:
        with tik.for_range(0, cores, block_num=cores) as core:
            body(core)
    else:
        body(0)
    program = _built(tik, gm)
    assert estimate(program) == estimate(program, remember=False)
