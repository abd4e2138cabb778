"""The fractal layout NZ against its definition, element by element."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autotune.kernels.flash_attention.layout import from_nz, to_nz

SIZES = st.integers(1, 40)


@given(lead=st.lists(st.integers(1, 2), max_size=2), rows=SIZES, columns=SIZES)
def test_an_element_lies_where_nz_says(lead: list[int], rows: int, columns: int) -> None:
    values = np.random.default_rng(0).integers(1, 1000, (*lead, rows, columns)).astype(np.float16)
    fractals = to_nz(values)
    column_tiles, row_tiles = -(-columns // 16), -(-rows // 16)
    assert fractals.shape == (*lead, column_tiles, row_tiles, 16, 16)
    assert fractals.dtype == values.dtype and fractals.flags.c_contiguous
    for r in range(row_tiles * 16):
        for c in range(column_tiles * 16):
            expected = values[..., r, c] if r < rows and c < columns else 0
            assert np.all(fractals[..., c // 16, r // 16, r % 16, c % 16] == expected)


@given(lead=st.lists(st.integers(1, 3), max_size=2), rows=SIZES, columns=SIZES)
def test_from_nz_gives_back_what_to_nz_took(lead: list[int], rows: int, columns: int) -> None:
    values = np.random.default_rng(1).normal(size=(*lead, rows, columns)).astype(np.float32)
    back = from_nz(to_nz(values), rows, columns)
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back, values)


def test_from_nz_drops_padding_whatever_it_holds() -> None:
    fractals = np.full((2, 1, 16, 16), np.nan, np.float16)
    fractals[:, :, :5] = 3
    fractals[1, :, :, 1:] = np.nan
    np.testing.assert_array_equal(from_nz(fractals, 5, 17), np.full((5, 17), 3, np.float16))
