"""What goes wrong only when a kernel runs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from autotune.kernels import davinci
from autotune.kernels.davinci.errors import AlignmentError, FeedError, OutOfBounds, RangeError, TikError
from autotune.kernels.davinci.memory import GM, UB
from tests.kernels.davinci.reporting import reported
from tests.kernels.davinci.running import Kernel

NUMBERS = np.arange(64, dtype=np.float32)


class Numbered:
    """A kernel with a number n that is known when it runs, an input x and an output y of 64 float32."""

    def __init__(self, elements: int = 64) -> None:
        self.tik: Any = Kernel().tik
        self.n = self.tik.InputScalar("int32", "n")
        self.x, self.y = (self.tik.Tensor("float32", (elements,), name=name, scope=GM) for name in "xy")
        self.local = self.tik.Tensor("float32", (64,), name="local", scope=UB)

    def run(self, n: int, x: Any = NUMBERS) -> Any:
        self.tik.BuildCCE("kernel", [self.x, self.n], [self.y])
        return self.tik.tikdb.start_debug({"x": x, "n": n}, False)[0]


def test_a_move_beyond_its_tensor() -> None:
    k = Numbered()
    k.tik.data_move(k.local, k.x, 0, 1, 16, 0, 0)  # beyond local
    with reported(OutOfBounds, "beyond local", "data_move", "1 x 128", "local", "64"):
        k.run(0)


def test_a_vector_beyond_its_tensor_at_a_dynamic_place() -> None:
    k = Numbered()
    k.tik.vec_abs(64, k.local[k.n * 8 :], k.local, 1, 8, 8)  # beyond dynamic
    with reported(OutOfBounds, "beyond dynamic", "vabs", "element 16", "local", "64"):
        k.run(2)
    k.run(0)


def test_a_place_before_the_tensor() -> None:
    k = Numbered()
    k.tik.vec_abs(64, k.local[k.n * 8 :], k.local, 1, 8, 8)  # before
    with reported(OutOfBounds, "before", "element -8", "local"):
        k.run(-1)


def test_an_element_beyond_its_tensor() -> None:
    k = Numbered()
    k.local[k.n].set_as(1.0)  # store element
    with reported(OutOfBounds, "store element", "element 64", "local", "64"):
        k.run(64)
    k = Numbered()
    k.tik.Scalar("float32", "s").set_as(k.local[k.n])  # load element
    with reported(OutOfBounds, "load element", "element -1", "local", "64"):
        k.run(-1)


def test_a_repeat_of_0_touches_nothing_wherever_it_starts() -> None:
    k = Numbered()
    k.tik.vec_abs(64, k.local[k.n + 71 :], k.local, k.n, 8, 8)
    k.run(0)


def test_a_dynamic_start_that_is_not_aligned() -> None:
    k = Numbered()
    k.tik.vec_abs(8, k.local[k.n :], k.local, 1, 8, 8)  # unaligned
    k.run(8)
    with reported(AlignmentError, "unaligned", "vabs", "local", "element 12", "multiple of 8"):
        k.run(12)


@pytest.mark.parametrize("repeat", [-1, 256])
def test_a_dynamic_repeat_out_of_range(repeat: int) -> None:
    k = Numbered()
    k.tik.vec_abs(8, k.local, k.local, k.n, 0, 0)  # dynamic repeat
    k.run(255)
    with reported(RangeError, "dynamic repeat", "vabs", "repeat_times = n", str(repeat), "1 to 255"):
        k.run(repeat)


def test_a_dynamic_burst_out_of_range() -> None:
    k = Numbered()
    k.tik.data_move(k.local, k.x, 0, 1, k.n - 2, 0, 0)  # dynamic burst
    with reported(RangeError, "dynamic burst", "data_move", "burst = n + -2", "-1", "1 to 65535"):
        k.run(1)


def test_a_division_by_a_zero_that_comes_up() -> None:
    k = Numbered()
    k.tik.Scalar("int32", "s").set_as(100 // k.n)  # division
    k.run(7)
    with reported(TikError, "division", "zero"):
        k.run(0)
    k = Numbered()
    with k.tik.for_range(0, 3), k.tik.if_scope(5 % k.n == 0):  # remainder
        pass
    with reported(TikError, "remainder", "zero"):
        k.run(0)


def test_a_tensor_fed_with_other_arrays() -> None:
    k = Numbered()
    k.tik.BuildCCE("kernel", [k.x, k.n], [k.y])
    feeds: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"x": NUMBERS}, ("['x']", "['n', 'x']")),
        ({"x": NUMBERS, "n": 1, "z": NUMBERS}, ("'z'",)),
        ({"x": NUMBERS.astype(np.float16), "n": 1}, ("x", "float16", "float32")),
        ({"x": np.zeros(65, np.float32), "n": 1}, ("x", "(65,)", "(64,)")),
        ({"x": NUMBERS, "n": "one"}, ("n", "'one'", "int32")),
        ({"x": NUMBERS, "n": np.zeros(2, np.int32)}, ("n", "int32")),
    ]
    for feed, words in feeds:
        with reported(FeedError, "feed", *words):
            k.tik.tikdb.start_debug(feed, False)  # feed


def test_an_array_shorter_than_declared_is_filled_up_with_zeros_but_not_in_strict_mode() -> None:
    k = Numbered()
    k.tik.data_move(k.local, k.x, 0, 1, 8, 0, 0)
    k.tik.data_move(k.y, k.local, 0, 1, 8, 0, 0)
    short = np.arange(60, dtype=np.float32)
    np.testing.assert_array_equal(k.run(0, short), [*range(60), 0, 0, 0, 0])
    with davinci.strict(), pytest.raises(FeedError, match=r"x has shape \(60,\); the kernel takes \(64,\)"):
        k.run(0, short)


def test_blocks_behind_a_tensor_in_gm_may_be_touched_but_not_in_strict_mode() -> None:
    k = Numbered(elements=60)
    k.tik.data_move(k.local, k.x, 0, 1, 8, 0, 0)  # read behind
    k.tik.data_move(k.y, k.local, 0, 1, 8, 0, 0)
    ten = np.arange(60, dtype=np.float32)
    np.testing.assert_array_equal(k.run(0, ten), ten)
    with davinci.strict(), reported(OutOfBounds, "read behind", "data_move", "1 x 64", "x", "60"):
        k.run(0, ten)


def test_far_behind_a_tensor_in_gm_is_an_error_always() -> None:
    k = Numbered()
    k.tik.data_move(k.local, k.x[k.n * 8 :], 0, 1, 1, 0, 0)  # far behind
    with reported(OutOfBounds, "far behind", "element 8000", "x", "64"):
        k.run(1000)


def test_an_output_too_large_to_give_out() -> None:
    k = Numbered(elements=1 << 40)
    with pytest.raises(FeedError, match="output y"):
        k.run(0)


def test_numpy_warns_of_nothing_while_a_kernel_runs() -> None:
    k = Numbered()
    k.tik.vec_dup(64, k.local, 0.0, 1, 8)
    k.tik.vec_ln(64, k.local, k.local, 1, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k.run(0)
