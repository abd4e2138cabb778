"""What the cube unit computes. Operands arrive and results leave as in ``semantics.py``.

Products of halves are summed in float32 and rounded once; products of whole numbers are exact and wrap around.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.kernels.davinci.layouts import Window, patches
from autotune.kernels.davinci.semantics import Array, wide


def matmul(a: Array, b: Array, accumulated: Array | None, k: int) -> Array:
    """dst[n1, m, n0] = sum over k of a[k1, m, k0] * b[k1, n1 * 16 + n0, k0] (tik_api.md 1.4); k is exact."""
    return _to_zn(*_from_l1(a, b, k), accumulated)


def matmul_into(target: Array, a: Array, b: Array, accumulated: Array | None, k: int) -> None:
    """``matmul`` into float32."""
    _zn_into(target, *_from_l1(a, b, k), accumulated)


def mmad(a: Array, b: Array, accumulated: Array | None, k: int) -> Array:
    """L0A zZ [M1, K1, 16, K0] times L0B nZ [K1, N1, 16, K0] to L0C zN [N1, M, 16] (tik_api.md 1.6); k is masked."""
    return _to_zn(*_from_l0(a, b, k), accumulated)


def mmad_into(target: Array, a: Array, b: Array, accumulated: Array | None, k: int) -> None:
    """``mmad`` into float32."""
    if a.shape[1] > 1:
        _zn_into(target, *_from_l0(a, b, k), accumulated)
        return
    left, right = a.reshape(-1, a.shape[3])[:, :k], b[0].transpose(0, 2, 1)[:, :k]  # one k-block: no operand is copied
    if accumulated is None:
        np.matmul(left, right, out=target)
    else:
        np.add(np.matmul(left, right), accumulated, out=target)


def _from_l1(a: Array, b: Array, k: int) -> tuple[Array, Array]:
    """[m, k] and [k, n]."""
    left = a.transpose(1, 0, 2).reshape(a.shape[1], -1)[:, :k]
    return left, b.transpose(0, 2, 1).reshape(-1, b.shape[1])[:k]


def _from_l0(a: Array, b: Array, k: int) -> tuple[Array, Array]:
    """[m, k] and [k, n]."""
    m1, k1, _, k0 = a.shape
    left = a.transpose(0, 2, 1, 3).reshape(m1 * 16, k1 * k0)[:, :k]
    return left, b.transpose(0, 3, 1, 2).reshape(k1 * k0, -1)[:k]


def conv2d(
    weight: Array, image: Array, accumulated: Array | None, positions: int, value: float, *geometry: Any
) -> Array:
    """dst [Cout / 16, positions, 16] of ``image`` [C1, H, W, C0] and ``weight`` [C1 * Kh * Kw, Cout, C0]."""
    window = Window(*geometry)
    points = window.filter_w * window.filter_h
    channel, point = np.divmod(np.arange(weight.shape[0]), points)
    position = np.arange(positions)[:, None]
    columns = patches(image, window, position, point, channel, (-window.left, -window.top), value)
    return _to_zn(columns.reshape(positions, -1), weight.transpose(0, 2, 1).reshape(-1, weight.shape[1]), accumulated)


def _to_zn(left: Array, right: Array, accumulated: Array | None) -> Array:
    if left.dtype.kind == "f":
        result = np.matmul(wide(left), wide(right))
    else:  # exact in double: 32768 products of bytes stay below 2**31
        result = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
    blocks = result.reshape(result.shape[0], -1, 16).transpose(1, 0, 2)
    return blocks if accumulated is None else blocks + accumulated


def _zn_into(target: Array, left: Array, right: Array, accumulated: Array | None) -> None:
    result = np.matmul(left, right)
    blocks = result.reshape(result.shape[0], -1, 16).transpose(1, 0, 2)
    if accumulated is None:
        np.copyto(target, blocks)
    else:
        np.add(blocks, accumulated, out=target)
