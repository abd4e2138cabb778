"""Flags in flight: hand-counted programs, and our kernels against the events that a chip has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.flags import EVENTS, flags_in_flight
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, UB
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete
from tests.kernels.davinci.random_programs import built, vector


@pytest.fixture(autouse=True)
def _chip() -> Iterator[None]:
    before = soc.Current.soc
    soc.use("Ascend910A")
    yield
    soc.Current.soc = before


def loaded(tik: Tik, count: int) -> tuple[Any, list[Any]]:
    """So many moves, each into a tensor of its own."""
    gm = tik.Tensor("float16", (1024,), GM, "gm")
    tensors = [vector(tik, f"t{i}") for i in range(count)]
    for tensor in tensors:
        tik.data_move(tensor, gm, 0, 1, 64, 0, 0)
    return gm, tensors


def add_one(tik: Tik, tensor: Any) -> None:
    tik.vec_adds(128, tensor, tensor, 1.0, 8, 8, 8)


def test_moves_that_are_used_in_order_each_have_a_flag() -> None:
    tik = Tik()
    gm, tensors = loaded(tik, 9)
    for tensor in tensors:
        add_one(tik, tensor)
    assert flags_in_flight(built(tik, gm)) == {"MTE2->V": 9}


def test_who_waits_for_the_last_move_knows_the_others_done() -> None:
    tik = Tik()
    gm, tensors = loaded(tik, 9)
    for tensor in reversed(tensors):
        add_one(tik, tensor)
    assert flags_in_flight(built(tik, gm)) == {"MTE2->V": 1}


def test_a_flag_ends_where_it_is_waited_for() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (1024,), GM, "gm")
    for i in range(9):
        tensor = vector(tik, f"t{i}")
        tik.data_move(tensor, gm, 0, 1, 64, 0, 0)
        add_one(tik, tensor)
    assert flags_in_flight(built(tik, gm)) == {"MTE2->V": 1}


def test_what_another_queue_has_waited_for_needs_no_flag() -> None:
    tik = Tik()
    gm, [source, result] = loaded(tik, 2)
    tik.vec_adds(128, result, source, 1.0, 8, 8, 8)
    for tensor in (result, source):
        tik.data_move(gm, tensor, 0, 1, 64, 0, 0)
    # MTE3 reads what MTE2 wrote too, but it has waited for V, which waited for MTE2.
    assert flags_in_flight(built(tik, gm)) == {"MTE2->V": 1, "V->MTE3": 1}


def test_the_scalar_unit_hands_on_what_it_has_waited_for() -> None:
    tik = Tik()
    gm, [tensor] = loaded(tik, 1)
    scalar = tik.Scalar("float16")
    scalar.set_as(tensor[3])
    add_one(tik, tensor)
    # V is issued after S has read, so it needs no flag of MTE2's or of S's.
    assert flags_in_flight(built(tik, gm)) == {"MTE2->S": 1}


def test_a_read_is_waited_for_by_who_overwrites_it() -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    with tik.for_range(0, 8, thread_num=2) as turn:
        tensor = tik.Tensor("float16", (1024,), UB, "tensor")
        tik.data_move(tensor, gm[turn * 1024], 0, 1, 64, 0, 0)
        add_one(tik, tensor)
    # A move may overtake the use of the other copy: it waits for V of two turns ago.
    assert flags_in_flight(built(tik, gm)) == {"MTE2->V": 1, "V->MTE2": 2}


def test_only_so_many_instructions_are_followed() -> None:
    tik = Tik()
    gm, tensors = loaded(tik, 9)
    for tensor in tensors:
        add_one(tik, tensor)
    assert flags_in_flight(built(tik, gm), most_instructions=9) == {}
    assert flags_in_flight(built(tik, gm), most_instructions=12) == {"MTE2->V": 3}


@pytest.mark.parametrize("op", ["flash_attention", "flash_attention_grad"])
@pytest.mark.parametrize("blocks", [(128, 128), (64, 256)])
@pytest.mark.parametrize("double_buffer", [False, True])
def test_our_kernels_stay_within_the_events_of_a_chip(op: str, blocks: tuple[int, int], double_buffer: bool) -> None:
    problem, target = AttentionProblem.of((1, 2, 1024, 1024, 64), op=op), EmulatedTarget("Ascend910A")
    plan = complete(TilingPlan(*blocks, CoreSplit("even"), double_buffer), problem, target.hardware)
    found = flags_in_flight(target.compile(problem, plan).program)
    assert 1 <= max(found.values()) <= EVENTS
