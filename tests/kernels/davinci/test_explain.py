"""Where the time goes: hand-counted programs, and remembered turns against walking every turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.explain import Explanation, explain
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB
from autotune.kernels.davinci.tally import DRAIN, READ, RESTART
from autotune.kernels.davinci.timing import estimate
from tests.kernels.davinci.random_programs import built, random_program, vector

ISSUE, START, SYNC, READ_CYCLES = 2, 25, 15, 30
"""Cycles of the model, written out here again so that a change shows."""


@pytest.fixture(autouse=True)
def _chip() -> Iterator[None]:
    before = soc.Current.soc
    soc.use("Ascend910A")
    yield
    soc.Current.soc = before


def stalls(found: Explanation) -> dict[tuple[str, str], tuple[int, int]]:
    """(pipe, cause) to (cycles, times), of every line together."""
    total: dict[tuple[str, str], tuple[int, int]] = {}
    for stall in found.stalls:
        cycles, times = total.get((stall.pipe, stall.cause), (0, 0))
        total[stall.pipe, stall.cause] = (cycles + stall.cycles, times + stall.times)
    return total


def test_a_vector_instruction_waits_for_the_move_it_reads() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    a = tik.Tensor("float16", (32768,), UB, "a")
    tik.data_move(a, gm, 0, 1, 2048, 0, 0)
    tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    found = explain(built(tik, gm))
    move = 65536 // 32
    # Both are issued at once: the vector unit is there from cycle 4, and the move ends at cycle 2 + 2048.
    assert stalls(found) == {("V", "waits for MTE2"): (move + SYNC - ISSUE, 1), ("V", RESTART): (START, 1)}
    assert found.moved == {"GM->UB": 65536}
    assert (found.shares["V"].busy, found.shares["MTE2"].busy) == (8, move)
    assert found.full_rate == {"V": 8, "M": 0, "MTE1": 0, "MTE2": move, "MTE3": 0}
    assert found.bound == ("MTE2", move)
    assert found.stalls[0].where[0] == __file__


def test_a_scalar_read_stops_the_issue_until_its_writer_is_done() -> None:
    tik = Tik()
    a = vector(tik, "a")
    tik.vec_dup(128, a, 1.0, 8, 8)
    with tik.for_range(0, 100):
        scalar = tik.Scalar("float16")
        scalar.set_as(a[0])
    found = stalls(explain(built(tik)))
    assert found["S", READ] == (100 * READ_CYCLES, 100)
    # The first of them comes one cycle, that of the loop's turn, after the issue of the fill.
    assert found["S", "waits for V"] == (START + 8 + SYNC - 1, 1)


def test_a_dependent_vector_instruction_drains_the_pipe() -> None:
    tik = Tik()
    a = vector(tik, "a")
    with tik.for_range(0, 50):
        tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    found = explain(built(tik))
    assert stalls(found)["V", DRAIN] == (49 * START, 49)
    assert found.shares["V"].busy == 50 * 8


def test_a_full_queue_stops_the_issue() -> None:
    tik = Tik()
    a = tik.Tensor("float16", (65536,), UB, "a")
    with tik.for_range(0, 200):
        tik.vec_dup(128, a, 1.0, 255, 8)
    found = stalls(explain(built(tik)))
    cycles, times = found["S", "queue of V is full"]
    assert times == 200 - 33  # one runs, 32 stand in the queue
    assert cycles == pytest.approx(times * (255 + START), rel=0.05)


def test_bytes_and_work_at_full_rate_by_route() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    left, right = tik.Tensor("float16", (16384,), L1, "left"), tik.Tensor("float16", (16384,), L1, "right")
    in_a, in_b = tik.Tensor("float16", (16384,), L0A, "a"), tik.Tensor("float16", (16384,), L0B, "b")
    product, out = tik.Tensor("float32", (16384,), L0C, "product"), tik.Tensor("float32", (16384,), UB, "out")
    result = tik.Tensor("float32", (16384,), GM, "result")
    tik.data_move(left, gm, 0, 1, 1024, 0, 0)
    tik.data_move(right, gm, 0, 64, 16, 0, 0)
    tik.load2dv1(in_a, left, 0, 64, 1, 0, False)
    tik.load2dv1(in_b, right, 0, 64, 1, 0, False)
    tik.mmad(product, in_a, in_b, 128, 128, 128, 0)
    tik.tensor_mov(out, product, "m", 1, 64, 0, 0)
    tik.data_move(result, out, 0, 1, 2048, 0, 0)
    found = explain(built(tik, result, gm))
    assert found.moved == {
        "GM->L1": 65536, "L0C->UB": 65536, "L1->L0A": 32768, "L1->L0B": 32768, "UB->GM": 65536,
    }  # fmt: skip
    assert found.full_rate == {
        "V": 65536 // 256, "M": 8 * 8 * 8, "MTE1": 32768 // 512 + 32768 // 256, "MTE2": 65536 // 32,
        "MTE3": 65536 // 64,
    }  # fmt: skip


def test_the_slowest_core_is_told_and_all_are_summed() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    with tik.for_range(0, 4, block_num=4) as core:
        a = vector(tik)
        with tik.for_range(0, core + 1):
            tik.data_move(a, gm, 0, 1, 64, 0, 0)
    found = explain(built(tik, gm))
    assert found.core == 3
    assert found.moved == {"GM->UB": 4 * 2048}
    assert found.moved_by_all == {"GM->UB": (1 + 2 + 3 + 4) * 2048}
    assert found.balance == pytest.approx(2.5 / 4, rel=0.02)


def test_a_kernel_that_does_nothing_is_explained() -> None:
    found = explain(built(Tik()))
    assert (found.cycles, found.stalls, found.balance) == (0, (), 0.0)


@pytest.mark.parametrize("seed", range(60))
def test_remembered_turns_are_explained_as_if_every_turn_were_walked(seed: int) -> None:
    program = random_program(seed)
    found = explain(program)
    assert found == explain(program, remember=False)
    assert found.estimate == estimate(program)
    for share in found.shares.values():
        assert min(share.busy, share.stalled, share.idle) >= 0
        assert share.busy + share.stalled + share.idle == found.cycles
    assert found.bound[1] <= found.cycles


def test_one_line_is_one_stall_however_often_it_waits() -> None:
    tik = Tik()
    a: Any = vector(tik, "a")
    with tik.for_range(0, 1000):
        tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    found = explain(built(tik))
    assert len({(stall.pipe, stall.cause) for stall in found.stalls}) == len(found.stalls)
    assert len({stall.where for stall in found.stalls}) == 1
