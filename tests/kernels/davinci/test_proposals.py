"""Region proposals: 8 float16 numbers each (tik_api.md 4.1)."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.kernels.davinci.errors import DataTypeError, RangeError
from tests.kernels.davinci.running import Kernel, values


@pytest.mark.parametrize("mode", [0, 3, 4, 5])
@pytest.mark.parametrize("repeats", [1, 3])
def test_numbers_go_into_proposals_and_come_back(mode: int, repeats: int) -> None:
    numbers, proposals = values("float16", 48, 1), values("float16", 48 * 8, 2)
    kernel = Kernel()
    src, dst, back = kernel.filled(numbers), kernel.filled(proposals), kernel.filled(np.zeros(48, np.float16))
    kernel.tik.vconcat(dst, src, repeats, mode)
    kernel.tik.vextract(back, dst, repeats, mode)
    kernel.shown(dst)
    kernel.shown(back)
    expected = proposals.copy()
    for i in range(16 * repeats):
        expected[8 * i + mode] = numbers[i]
    found = kernel.run()
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1][: 16 * repeats], numbers[: 16 * repeats])
    assert not found[1][16 * repeats :].any()


def test_sixteen_proposals_are_sorted_by_score_and_equals_keep_their_order() -> None:
    proposals = values("float16", 2 * 16 * 8, 1).reshape(2, 16, 8)
    proposals[..., 4] = np.random.default_rng(2).integers(0, 5, (2, 16))
    kernel = Kernel()
    src, dst = kernel.filled(proposals), kernel.local("float16", (2, 16, 8))
    kernel.tik.vrpsort16(dst, src, 2)
    kernel.shown(dst)
    expected = [sorted(group, key=lambda proposal: -proposal[4]) for group in proposals]
    np.testing.assert_array_equal(kernel.run()[0], np.array(expected))


def test_what_they_do_not_take() -> None:
    kernel = Kernel()
    half, single = kernel.local("float16", (128,)), kernel.local("float32", (128,))
    with pytest.raises(RangeError, match="mode_number is 6"):
        kernel.tik.vconcat(half, half, 1, 6)
    with pytest.raises(DataTypeError, match="vextract on Ascend910A takes float16"):
        kernel.tik.vextract(single, single, 1, 0)
