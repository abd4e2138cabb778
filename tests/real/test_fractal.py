"""The layout helpers against the definition of the layout."""

import numpy as np

from tests.real.fractal import pack, unpack


def test_element_by_element() -> None:
    matrix = np.arange(2 * 32 * 48).reshape(2, 32, 48)
    tiles = pack(matrix)
    assert tiles.shape == (2, 3, 2, 16, 16)
    for outer, row, column in ((0, 0, 0), (1, 17, 33), (0, 31, 15), (1, 5, 47)):
        assert tiles[outer, column // 16, row // 16, row % 16, column % 16] == matrix[outer, row, column]


def test_padding_and_back() -> None:
    matrix = np.random.default_rng(0).normal(size=(1, 2, 20, 40)).astype(np.float16)
    tiles = pack(matrix, 7.0)
    assert tiles.shape == (1, 2, 3, 2, 16, 16) and tiles.flags["C_CONTIGUOUS"] and tiles.dtype == np.float16
    assert np.all(tiles[:, :, 2, :, :, 8:] == 7) and np.all(tiles[:, :, :, 1, 4:] == 7)
    np.testing.assert_array_equal(unpack(tiles, 20, 40), matrix)
