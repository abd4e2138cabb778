"""A test of the tests: each of these wrong semantics must be caught by the check that guards it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from autotune.kernels.davinci import cube, effects, lanes, lanewise, moves, operands, semantics, vector
from autotune.kernels.davinci.expr import applied
from autotune.kernels.davinci.memory import L0A, L0B, L0C, L1
from autotune.kernels.davinci.rows_cube import MMAD_ROW
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from tests.kernels.davinci.running import Array, Kernel, values
from tests.kernels.davinci.test_half import check_rounding
from tests.kernels.davinci.test_vector_convert import check_conversion
from tests.kernels.davinci.test_vector_reduce import check_reduction
from tests.kernels.davinci.test_vector_select import check_compression, check_selection
from tests.kernels.davinci.vector_model import check_elementwise

Patch = pytest.MonkeyPatch
ROUNDS = 25


def drawn(check: Callable[..., None], *arguments: Any) -> Callable[[], None]:
    """A check on several repeatable draws."""

    def run() -> None:
        for seed in range(ROUNDS):
            check(*arguments, random.Random(seed).randint)

    return run


def check_ties() -> None:
    """Sums that lie half way between two halves, and just above."""
    whole, part = 2048 + 2 * np.arange(128), 1 + (np.arange(128) % 3 == 0) * 0.5
    kernel = Kernel()
    out, a, b = (kernel.filled(array.astype(np.float16)) for array in (np.zeros(128), whole, part))
    kernel.tik.vec_add(128, out, a, b, 1, 8, 8, 8)
    kernel.shown(out)
    expected = [2 * round(Fraction(float(x + y)) / 2) for x, y in zip(whole, part)]
    np.testing.assert_array_equal(kernel.run()[0], np.array(expected, np.float16))


def check_saturation() -> None:
    """60000 + 60000 and inf - inf on a 910A."""
    kernel = Kernel()
    large, endless = kernel.filled(np.full(128, 60000, np.float16)), kernel.filled(np.full(128, np.inf, np.float16))
    out, none = kernel.local("float16", (128,)), kernel.local("float16", (128,))
    kernel.tik.vec_add(128, out, large, large, 1, 8, 8, 8)
    kernel.tik.vec_sub(128, none, endless, endless, 1, 8, 8, 8)
    kernel.shown(out)
    kernel.shown(none)
    found = kernel.run()
    assert (found[0] == 65504).all()
    assert (found[1] == 0).all()


def check_repeat_0() -> None:
    """A symbolic repeat of 0 changes nothing."""
    start = values("float32", 64, 1)
    kernel = Kernel()
    tensor = kernel.filled(start)
    kernel.tik.vec_adds(64, tensor, tensor, 1.0, kernel.tik.Scalar("int32", init_value=0), 8, 8)
    kernel.shown(tensor)
    np.testing.assert_array_equal(kernel.run()[0], start)


def check_counter() -> None:
    """A counter mask of 100 elements on a 310P."""
    start = values("float32", 128, 1)
    kernel = Kernel("Ascend310P3")
    tensor = kernel.filled(start)
    kernel.tik.vec_muls(100, tensor, tensor, 2.0, 1, 8, 8, mask_mode="counter")
    kernel.shown(tensor)
    expected = start.copy()
    expected[:100] *= 2
    np.testing.assert_array_equal(kernel.run()[0], expected)


def check_accumulation() -> None:
    """Four repeats that add to one place."""
    kernel = Kernel()
    total, added = kernel.filled(np.zeros(64, np.float32)), kernel.filled(np.ones(256, np.float32))
    kernel.tik.vec_add(64, total, total, added, 4, 0, 0, 8)
    kernel.shown(total)
    assert (kernel.run()[0] == 4).all()


def product(k: int, transpose: bool) -> tuple[Array, Array]:
    """(found, expected) of a 32 x k x 16 product whose operands are loaded fractal by fractal."""
    k1 = -(-k // 16)
    a, b = values("float16", k1 * 32 * 16, 1).reshape(k1, 32, 16), values("float16", k1 * 256, 2).reshape(k1, 16, 16)
    kernel = Kernel()
    a_l1, b_l1 = kernel.filled(a, L1), kernel.filled(b, L1)
    a_l0, b_l0 = kernel.local("float16", (k1 * 512,), L0A), kernel.local("float16", (k1 * 256,), L0B)
    out = kernel.local("float32", (1, 32, 16), L0C)
    for i in range(2):
        kernel.tik.load2dv1(a_l0[i * k1 * 256], a_l1[i * 256 :], 0, k1, 2, 0, False)
    kernel.tik.load2dv1(b_l0, b_l1, 0, k1, 1, 0, transpose)
    kernel.tik.mmad(out, a_l0, b_l0, 32, k, 16, 0)
    kernel.shown(out)
    left = a.transpose(1, 0, 2).reshape(32, -1)[:, :k].astype(np.float64)
    blocks = b.transpose(0, 2, 1) if transpose else b
    right = blocks.transpose(1, 0, 2).reshape(16, -1)[:, :k].astype(np.float64)
    return kernel.run()[0][0], (left @ right.T).astype(np.float32)


def check_product(k: int, transpose: bool) -> None:
    """Within the rounding of float32 sums."""
    found, expected = product(k, transpose)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def check_bursts() -> None:
    """Three bursts of one block, two blocks apart."""
    start = values("float32", 56, 1)
    kernel = Kernel()
    source, target = kernel.filled(start), kernel.filled(np.zeros(24, np.float32))
    kernel.tik.data_move(target, source, 0, 3, 1, 2, 0)
    kernel.shown(target)
    expected = np.concatenate([start[0:8], start[24:32], start[48:56]])
    np.testing.assert_array_equal(kernel.run()[0], expected)


def _row(name: str, compute: Callable[..., Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setitem(VECTOR_ROWS, name, replace(VECTOR_ROWS[name], compute=compute, into=None))


def _truncating(values_: Array, saturate: bool) -> Array:
    values_.view(np.uint32)[...] &= np.uint32(0xFFFFE000)
    return np.clip(values_, -65504, 65504, out=values_)


def _ties_away(values_: Array, saturate: bool) -> Array:
    values_.view(np.uint32)[...] += np.uint32(0x1000)
    return _truncating(values_, saturate)


def _unlimited(values_: Array, saturate: bool) -> Array:
    values_[...] = values_.astype(np.float16)
    return values_


def _swapped_strides(patch: Patch) -> None:
    right = lanes.Lanes.access
    patch.setattr(
        lanes.Lanes, "access",
        lambda self, tensor, repeat, block, step, skip=0: right(self, tensor, repeat, step, block, skip),
    )  # fmt: skip


def _at_least_once(patch: Patch) -> None:
    right = lanes.turns

    def turns(*arguments: Any) -> Any:
        return [replace(t, repeat=applied("max", max, (t.repeat, 1), "int64")) for t in right(*arguments)]

    patch.setattr(vector, "turns", turns)


def _without_the_last_lane(patch: Patch) -> None:
    patch.setattr(lanes.Lanes, "_covered", lambda self: self.most)
    patch.setattr(lanes.Lanes, "shape", lambda self, repeat=1: (repeat, self.most))


def _sequential(a: Array, half: bool, saturate: bool, active: Any = None) -> Array:
    flat = (a if active is None else np.where(active, a, np.float32(0))).reshape(len(a), -1)
    total = np.zeros((len(a), 1), np.float32)
    for lane in range(flat.shape[1]):
        total = total + flat[:, lane : lane + 1]
        total = total.astype(np.float16).astype(np.float32) if half else total
    return total


def _last_of_equals(a: Array, half: bool, index_first: bool, active: Any = None) -> Array:
    flat = (a if active is None else np.where(active, a, -np.inf)).reshape(len(a), -1)
    lane = flat.shape[1] - 1 - flat[:, ::-1].argmax(1)
    return np.stack([flat.max(1), lanewise.index_as_float(lane, half)], axis=1)


def _twice_rounded(a: Array, b: Array, accumulated: Array) -> Array:
    return (a * b).astype(np.float16).astype(np.float32) + accumulated


def _all_of_k(patch: Patch) -> None:
    row = MMAD_ROW
    wrong = replace(row, into=None, compute=lambda a, b, c, k: row.compute(a, b, c, a.shape[1] * a.shape[3]))
    patch.setattr(cube, "MMAD_ROW", wrong)


def _never_transposed(patch: Patch) -> None:
    right: Any = cube.Cube.load2dv1
    patch.setattr(cube.Cube, "load2dv1", lambda self, *given: right(self, *given[:6], False))


def _head_to_head(patch: Patch) -> None:
    right = moves._bursts
    patch.setattr(moves, "_bursts", lambda t, count, size, gap, *rest: right(t, count, size, gap - size, *rest))


@dataclass(frozen=True)
class Mutation:
    """A wrong rule, how it is brought in, and the check that must fail under it."""

    name: str
    patch: Callable[[Patch], Any]
    check: Callable[[], None]


MUTATIONS = [
    Mutation("halves are truncated", lambda p: p.setattr(operands, "round_half", _truncating), check_ties),
    Mutation("ties go away from zero", lambda p: p.setattr(operands, "round_half", _ties_away), check_ties),
    Mutation("overflow is infinite", lambda p: p.setattr(operands, "round_half", _unlimited), check_saturation),
    Mutation("block and repeat strides are swapped", _swapped_strides, drawn(check_elementwise, "vadd")),
    Mutation("the mask is ignored", _without_the_last_lane, drawn(check_elementwise, "vmul")),
    Mutation("mask words are swapped",
             lambda p: p.setattr(lanes, "joined", lambda high, low: low << 64 | high),
             drawn(check_elementwise, "vabs")),
    Mutation("repeat 0 executes once", _at_least_once, check_repeat_0),
    Mutation("a counter mask is a mask", lambda p: p.setattr(lanes, "COUNTER_CHIPS", ()), check_counter),
    Mutation("all repeats at once",
             lambda p: p.setattr(effects, "_in_turn", lambda i, apply: apply), check_accumulation),
    Mutation("the k tail is not masked", _all_of_k, lambda: check_product(20, False)),
    Mutation("loads never transpose", _never_transposed, lambda: check_product(32, True)),
    Mutation("burst gaps run from head to head", _head_to_head, check_bursts),
    Mutation("subtraction is the other way round",
             _row("vsub", semantics.elementwise(lambda a, b: b - a)), drawn(check_elementwise, "vsub")),
    Mutation("vmla rounds its product",
             _row("vmla", semantics.elementwise(_twice_rounded)), drawn(check_elementwise, "vmla")),
    Mutation("sums are sequential", _row("vcadd", _sequential), drawn(check_reduction, "vcadd")),
    Mutation("the last of equals", _row("vcmax", _last_of_equals), drawn(check_reduction, "vcmax")),
    Mutation("selection is inverted",
             _row("vsel", lambda bits, a, b: lanewise.select(~bits, a, b)), drawn(check_selection, 2, False)),
    Mutation("odd lanes for even ones",
             lambda p: p.setitem(lanewise.PATTERNS, 1, (2, 1)), drawn(check_compression, 1)),
    Mutation("away-zero is up in magnitude",
             lambda p: p.setitem(semantics.ROUNDINGS, "away-zero", lambda a: np.copysign(np.ceil(np.abs(a)), a)),
             drawn(check_conversion, "Ascend910A", "float32", "int32", "away-zero")),
    Mutation("round to odd is to nearest",
             lambda p: p.setattr(semantics, "DIRECTED", ()),
             drawn(check_conversion, "Ascend910A", "float32", "float16", "odd")),
]  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_each_wrong_rule_is_caught(mutation: Mutation) -> None:
    mutation.check()
    with pytest.MonkeyPatch.context() as patch:
        mutation.patch(patch)
        with pytest.raises((AssertionError, RuntimeError)):
            mutation.check()


@pytest.mark.parametrize("wrong", [_truncating, _ties_away])
def test_the_check_of_rounding_catches_other_roundings(wrong: Callable[..., Array]) -> None:
    ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11], np.float32)
    check_rounding(ties, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.kernels.davinci.test_half.round_half", wrong)
        with pytest.raises(AssertionError):
            check_rounding(ties, True)
