"""What moves compute on their way: padding, conversion out of the accumulator, transposes, patches of an image.

Operands arrive and results leave as in ``semantics.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.kernels.davinci.semantics import Array, relu, wide


def padded(values: Array, left: int, right: int, value: float) -> Array:
    """Each burst (row) with ``left`` and ``right`` elements of ``value`` around it."""
    return np.pad(values, ((0, 0), (left, right)), constant_values=value)


def accumulator_move(values: Array, *options: Any) -> Array:
    """``values`` [+ a bias], times a scale, negative ones at 0; each step that is asked for (tik_api.md 1.3).

    options: [bias array], scale or None, whether to apply relu.
    """
    *bias, scale, positive = options
    result = np.array(wide(values))
    if bias:
        result = result + wide(bias[0])
    if scale is not None:
        # The product of an int32 and a half is exact in double, so that it is rounded once.
        result = (result.astype(np.float64) * scale).astype(np.float16).astype(np.float32)
    return relu(result) if positive else result


def accumulator_into(target: Array, values: Array, *options: Any) -> None:
    """``accumulator_move`` between types that the host holds alike, before the rounding."""
    np.copyto(target, values if options == (None, False) else accumulator_move(values, *options))


def transposed_rows(*rows: Array) -> Array:
    """16 rows [repeats, lanes] to the 16 rows of their transpose (tik_api.md 1.9).

    16 lanes: result[j][r, i] = rows[i][r, j]. 8 lanes (32-bit elements): a transposed row of 16 fills two results,
    result[2 j + h][r, i] = rows[8 h + i][r, j].
    """
    lanes = rows[0].shape[-1]
    stacked = np.stack([wide(row) for row in rows], axis=1).reshape(-1, 16 // lanes, lanes, lanes)
    return stacked.transpose(3, 1, 0, 2).reshape(16, -1, lanes)


@dataclass(frozen=True)
class Window:
    """How a filter slides over an image: sizes, steps and padding in image points, in TIK's order."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    filter_w: int
    filter_h: int
    stride_w: int
    stride_h: int
    dilation_w: int
    dilation_h: int

    @property
    def columns(self) -> int:
        """Positions of the filter along the image's width."""
        return self._positions(self.width + self.left + self.right, self.filter_w, self.dilation_w, self.stride_w)

    @property
    def rows(self) -> int:
        """Positions of the filter along the image's height."""
        return self._positions(self.height + self.top + self.bottom, self.filter_h, self.dilation_h, self.stride_h)

    @staticmethod
    def _positions(size: int, points: int, dilation: int, stride: int) -> int:
        return (size - (points - 1) * dilation - 1) // stride + 1


def patches(
    image: Array, window: Window, position: Array, point: Array, channel: Array, start: tuple[int, int], value: float
) -> Array:
    """Elements [..., C0] of ``image`` [C1, H, W, C0] that filter point ``point`` sees at filter position ``position``.

    position: numbers of filter positions, counted along the width from the one whose top left corner is ``start``
    (width, height). point: numbers of filter points, along the width first. channel: indices of C1. All are
    broadcast. Points outside the image have ``value``.
    """
    first = (start[0] + window.left) // window.stride_w
    turn, column = np.divmod(position + first, window.columns)
    offset = (start[0] + window.left) % window.stride_w - window.left
    w = column * window.stride_w + offset + point % window.filter_w * window.dilation_w
    h = start[1] + turn * window.stride_h + point // window.filter_w * window.dilation_h
    inside = (w >= 0) & (w < window.width) & (h >= 0) & (h < window.height)
    found = image[channel, np.where(inside, h, 0), np.where(inside, w, 0)]
    return np.where(inside[..., None], found, image.dtype.type(value))


def image_to_columns(
    image: Array, repeats: int, left: int, top: int, point: int, channel: int, mode: int, value: float, *geometry: Any
) -> Array:
    """Fractals [repeats, 16, C0] of 16 filter positions each (load3dv1, tik_api.md 4.1 #28).

    mode 1: each repeat takes the next 16 positions of one filter point. mode 0: each repeat takes the next filter point
    at the same positions, along the width, the height, then the channels. geometry: a Window's numbers.
    """
    window = Window(*geometry)
    repeat, lane = np.arange(repeats)[:, None], np.arange(16)
    if mode == 1:
        return patches(image, window, repeat * 16 + lane, np.asarray(point), np.asarray(channel), (left, top), value)
    channels, seen = np.divmod(point + repeat, window.filter_w * window.filter_h)
    return patches(image, window, lane, seen, channel + channels, (left, top), value)
