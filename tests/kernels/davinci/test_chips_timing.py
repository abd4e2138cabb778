"""What chips and conditions change in an emulated time: latencies and FIX of a 910B, L2, sharing, launches."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.addresses import Addresses
from autotune.kernels.davinci.conditions import Conditions
from autotune.kernels.davinci.costs import Profile
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB
from autotune.kernels.davinci.program import Instruction
from autotune.kernels.davinci.regions import Regions
from autotune.kernels.davinci.steering import inside
from autotune.kernels.davinci.timing import estimate

HALF_TO_GM = {"quantize_params": {"mode": "fp322fp16", "mode_param": None}}


@pytest.fixture(autouse=True)
def _chip() -> Any:
    before = soc.Current.soc
    yield
    soc.Current.soc = before


def _built(tik: Tik, *tensors: Any) -> Any:
    tik.BuildCCE("kernel", [], list(tensors))
    return tik.program


def _kernel(chip: str) -> Tik:
    soc.use(chip)
    return Tik()


def _reads(chip: str, turns: int, blocks: int = 1, elements: int = 1 << 16) -> Any:
    """Every block reads the same tensor of fp16 into L1, so many times; L1 is written in turn at two places."""
    tik = _kernel(chip)
    gm = tik.Tensor("float16", (elements,), GM, "gm")
    with tik.for_range(0, blocks, block_num=blocks):
        a = tik.Tensor("float16", (elements,), L1, "a")
        with tik.for_range(0, turns):
            tik.data_move(a, gm, 0, 1, elements // 16, 0, 0)
    return _built(tik, gm)


def test_the_first_touch_of_a_byte_comes_from_ddr_and_the_others_from_l2() -> None:
    once, often = estimate(_reads("Ascend910A", 1)).cycles, estimate(_reads("Ascend910A", 10)).cycles
    moved = 2 << 16
    assert once == pytest.approx(moved / 32, abs=6)
    assert often == pytest.approx(moved / 32 + 9 * moved / 110, rel=2e-3)


def test_cores_that_read_the_same_tensor_touch_it_first_together() -> None:
    cycles = estimate(_reads("Ascend910A", 1, blocks=4)).cycles
    assert cycles == pytest.approx((2 << 16) * (0.25 / 32 + 0.75 / 110), rel=2e-3)


def test_a_warm_l2_holds_the_tensors_that_fit() -> None:
    program = _reads("Ascend910A", 1)
    assert estimate(program, conditions=Conditions(warm=True)).cycles == pytest.approx((2 << 16) / 110, abs=6)


def test_l2_holds_its_share_of_tensors_that_do_not_fit() -> None:
    tik = _kernel("Ascend910A")
    gm, other = (tik.Tensor("float16", (size,), GM, f"gm{size}") for size in (1 << 16, (32 << 20) - (1 << 16)))
    a = tik.Tensor("float16", (1 << 16,), L1, "a")
    with tik.for_range(0, 10):
        tik.data_move(a, gm, 0, 1, 1 << 12, 0, 0)
    program = _built(tik, gm, other)
    assert estimate(program, conditions=Conditions(warm=True)).cycles == pytest.approx(
        10 * (2 << 16) * (0.5 / 32 + 0.5 / 110), rel=2e-3
    )


def test_loops_whose_turns_differ_are_counted_turn_by_turn() -> None:
    tik = _kernel("Ascend910A")
    gm, a = tik.Tensor("float16", (1 << 16,), GM, "gm"), tik.Tensor("float16", (1 << 16,), L1, "a")
    with tik.for_range(0, 10) as i, tik.if_scope(i >= 8):
        tik.data_move(a, gm, 0, 1, 1 << 12, 0, 0)
    # Two of ten turns read: half of what is moved is touched first.
    moved = 2 << 16
    assert estimate(_built(tik, gm)).cycles == pytest.approx(2 * moved * (0.5 / 32 + 0.5 / 110), rel=0.01)


def test_reads_of_a_910b_overlap_their_latency() -> None:
    moved = 2 << 16
    warm = Conditions(warm=True)
    one, ten = (estimate(_reads("Ascend910B2", turns), conditions=warm).cycles for turns in (1, 10))
    assert one == pytest.approx(241 + moved / 119, abs=6)
    assert ten == pytest.approx(241 + 10 * moved / 119, rel=2e-3)


def test_a_product_on_a_910b_takes_its_latencies_once_each() -> None:
    tik = _kernel("Ascend910B2")
    a, b = tik.Tensor("float16", (4, 4, 16, 16), L0A, "a"), tik.Tensor("float16", (4, 4, 16, 16), L0B, "b")
    c, gm = tik.Tensor("float32", (4, 64, 16), L0C, "c"), tik.Tensor("float16", (4, 64, 16), GM, "gm")
    l1 = tik.Tensor("float16", (4, 4, 16, 16), L1, "l1")
    tik.load2dv1(a, l1, 0, 16, 1, 0)
    tik.load2dv1(b, l1, 0, 16, 1, 0)
    tik.mmad(c, a, b, 64, 64, 64, 0)
    tik.fixpipe(gm, c, 4, 128, 0, 0, HALF_TO_GM)
    loads = (26 + 16 * 512 // 256) + (26 + 16 * 512 // 128)
    product, drain = 15 + 64 + 8, 30 + max(64 * 64 * 4 // 256, 64 * 64 * 2 // 128) + 96
    found = estimate(_built(tik, gm), conditions=Conditions(warm=True))
    assert found.cycles == pytest.approx(2 + loads + 15 + product + 15 + drain, abs=2)
    assert found.busy["FIX"] == drain - 96


def test_a_910a_has_no_use_for_fix() -> None:
    assert estimate(_reads("Ascend910A", 1)).busy["FIX"] == 0


def test_a_tile_of_float32_is_half_as_deep_and_takes_two_cycles() -> None:
    tik = _kernel("Ascend910B2")
    a, b = (tik.Tensor("float32", (4, 4, 16, 8), scope, name) for scope, name in ((L0A, "a"), (L0B, "b")))
    c = tik.Tensor("float32", (4, 64, 16), L0C, "c")
    tik.mmad(c, a, b, 64, 32, 64, 0)
    assert estimate(_built(tik)).busy["M"] == 15 + 4 * 4 * 4 * 2


def test_the_host_sees_a_launch_and_its_blocks() -> None:
    program = _reads("Ascend910A", 1, blocks=4)
    device, host = estimate(program), estimate(program, conditions=Conditions(host=True))
    assert device.time_us == pytest.approx(device.cycles / 1000 + 0.8 + 3 * 0.05)
    assert host.time_us == pytest.approx(device.cycles / 1000 + 5.5 + 4 * 0.12)


def _scopes() -> Any:
    """Two tensors one after the other at the same address: V works on the first, MTE2 fills the second."""
    tik = _kernel("Ascend910A")
    gm = tik.Tensor("float16", (1 << 14,), GM, "gm")
    with tik.new_stmt_scope():
        a = tik.Tensor("float16", (1 << 14,), UB, "a")
        tik.vec_dup(128, a, 1.0, 128, 8)
    with tik.new_stmt_scope():
        b = tik.Tensor("float16", (1 << 14,), UB, "b")
        tik.data_move(b, gm, 0, 1, 1 << 10, 0, 0)
    return _built(tik, gm)


def test_address_reuse_makes_a_move_wait_for_the_dead_tensor() -> None:
    program, move, fill = _scopes(), (2 << 14) // 32, 25 + 128
    assert estimate(program).cycles == 2 + 2 + move
    assert estimate(program, conditions=Conditions(address_reuse=True)).cycles == 2 + fill + 15 + move


def test_address_reuse_changes_nothing_where_tensors_live_at_the_same_time() -> None:
    tik = _kernel("Ascend910A")
    gm, a, b = (tik.Tensor("float16", (1 << 14,), scope, name) for scope, name in ((GM, "gm"), (UB, "a"), (UB, "b")))
    tik.vec_dup(128, a, 1.0, 128, 8)
    tik.data_move(b, gm, 0, 1, 1 << 10, 0, 0)
    program = _built(tik, gm)
    assert estimate(program) == estimate(program, conditions=Conditions(address_reuse=True))


@pytest.mark.parametrize("kind", [Regions, Addresses])
@pytest.mark.parametrize("length", [512, 256])
def test_a_block_knows_every_key_that_its_accesses_use(kind: type[Regions], length: int) -> None:
    """With and without slices of the buffer that a loop takes in turn."""
    tik = _kernel("Ascend910A")
    gm = tik.Tensor("float16", (1 << 16,), GM, "gm")
    with tik.for_range(0, 8, thread_num=2):
        a = tik.Tensor("float16", (8192,), UB, "a")
        tik.data_move(a, gm, 0, 1, length, 0, 0)
    statements = list(inside(_built(tik, gm).body))
    move = next(statement for statement in statements if isinstance(statement, Instruction))
    regions, access = kind(statements), move.outputs[0]
    keys = regions.keys(access)
    assert callable(keys)
    used = [keys([0, 0, *[turn] * 8]) for turn in (0, 1)]
    assert not set(used[0]) & set(used[1])
    assert set(used[0]) | set(used[1]) <= set(regions.all_keys(access.buffer))


def _random_product(tik: Tik, draw: random.Random, depth: int, place: Any) -> None:
    a, b = (tik.Tensor("float16", (4, 4, 16, 16), scope, name) for scope, name in ((L0A, "a"), (L0B, "b")))
    c = tik.Tensor("float32", (4, 64, 16), L0C, "c")
    l1 = tik.Tensor("float16", (4, 4, 16, 16), L1, "l1")
    for _ in range(draw.randint(2, 6)):
        kind = draw.randrange(7)
        if kind == 0 and depth < 3:
            with tik.for_range(0, draw.randint(1, 12), thread_num=draw.choice((1, 2))) as inner:
                _random_product(tik, draw, depth + 1, inner)
        elif kind == 1:
            tik.data_move(l1, tik.gm[draw.choice((0, 4096))], 0, draw.randint(1, 4), 64, 0, 0)
        elif kind == 2:
            tik.load2dv1(draw.choice((a, b)), l1, 0, draw.randint(1, 16), 1, 0)
        elif kind == 3:
            tik.mmad(c, a, b, 64, 64, 64, draw.randrange(2))
        elif kind == 4:
            tik.fixpipe(tik.out, c, 4, 128, 0, 0, HALF_TO_GM)
        elif kind == 5:
            with tik.if_scope(place % 3 == draw.randrange(3)):
                tik.mmad(c, a, b, 64, 32, 64, 0)
        else:
            ub = tik.Tensor("float16", (1024,), UB, "ub")
            tik.data_move(ub, tik.gm, 0, 1, draw.randint(1, 64), 0, 0)
            tik.vec_muls(128, ub, ub, 0.5, draw.randint(1, 8), 8, 8)
            tik.data_move(tik.out, ub, 0, 1, draw.randint(1, 64), 0, 0)


@pytest.mark.parametrize("seed", range(40))
def test_remembered_turns_equal_walking_every_turn_of_a_910b(seed: int) -> None:
    draw = random.Random(seed)
    tik: Any = _kernel("Ascend910B2")
    tik.gm, tik.out = tik.Tensor("float16", (8192,), GM, "gm"), tik.Tensor("float16", (8192,), GM, "out")
    cores = draw.choice((2, 5))
    with tik.for_range(0, cores, block_num=cores) as core, tik.for_range(0, core + 3) as outer:
        _random_product(tik, draw, 1, outer)
    program = _built(tik, tik.gm, tik.out)
    for conditions in (Conditions(), Conditions(warm=True, address_reuse=True)):
        assert estimate(program, conditions=conditions) == estimate(program, remember=False, conditions=conditions)


def test_a_profile_replaces_the_numbers_of_its_chip() -> None:
    program, warm = _reads("Ascend910B2", 1), Conditions(warm=True)
    slow = Profile("slow", {"read_latency": 1241})
    assert estimate(program, profile=slow, conditions=warm).cycles == estimate(program, conditions=warm).cycles + 1000
