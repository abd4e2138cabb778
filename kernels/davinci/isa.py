"""The instruction table: one row per instruction, with its pipe, its meaning and the form of its cost.

Vector cycles per 256-byte repeat are the vendor's published throughput of the 910B (davinci_timing.md 2.1, column
"doc"), carried over to the 910A: only the 128-lane asymptote is confirmed there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.kernels.davinci import semantics
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB

S, V, M, MTE1, MTE2, MTE3 = "S", "V", "M", "MTE1", "MTE2", "MTE3"
PIPES = (S, V, M, MTE1, MTE2, MTE3)

REPEATED, WHOLE, MOVE, CUBE, LOAD, SCALAR = "repeated", "whole", "move", "cube", "load", "scalar"
"""Forms of a cost: a vector instruction by its repeats, a tensor-wide vector call, a move by its bytes and route,
a cube product by its 16 x 16 x 16 tiles, a fractal load, a scalar operation."""


@dataclass(frozen=True)
class Row:
    """One instruction.

    compute: operands and immediates as numpy arrays and numbers to the unrounded result(s).
    exact: the result needs no rounding. reduces: the operand arrives as [repeats, active lanes].
    half, single: cycles per repeat with 16-bit and 32-bit elements (vector forms only).
    """

    name: str
    pipe: str
    form: str
    compute: Callable[..., Any]
    exact: bool = False
    reduces: bool = False
    half: float = 1
    single: float = 1
    source: str = "davinci_timing.md 2.1"


def _vector(name: str, compute: Callable[..., Any], half: float = 1, single: float = 1, **options: Any) -> Row:
    return Row(name, V, REPEATED, compute, half=half, single=single, **options)


_element = semantics.elementwise

ROWS = {
    row.name: row
    for row in (
        _vector("vadd", _element(np.add)),
        _vector("vsub", _element(np.subtract)),
        _vector("vmul", _element(np.multiply)),
        _vector("vdiv", _element(semantics.divide), 4, 2),
        _vector("vmax", _element(np.maximum), exact=True),
        _vector("vmin", _element(np.minimum), exact=True),
        _vector("vand", _element(np.bitwise_and), exact=True),
        _vector("vor", _element(np.bitwise_or), exact=True),
        _vector("vnot", _element(np.invert), exact=True),
        _vector("vmla", _element(semantics.multiply_add), 2, 2),
        _vector("vaxpy", _element(semantics.scale_add), 2, 2),
        _vector("vadds", _element(np.add)),
        _vector("vmuls", _element(np.multiply)),
        _vector("vabs", _element(np.abs), exact=True),
        _vector("vrelu", _element(semantics.relu), exact=True),
        _vector("vexp", _element(np.exp), 4, 2),
        _vector("vln", _element(np.log), 4, 2),
        _vector("vsqrt", _element(np.sqrt), 4, 2),
        _vector("vrec", _element(semantics.reciprocal)),
        _vector("vrsqrt", _element(semantics.reciprocal_root)),
        _vector("vrec_high_preci", _element(semantics.reciprocal), 10, 5),
        _vector("vconv", semantics.convert),
        _vector("vector_dup", lambda value: value, exact=True),
        _vector("vcadd", semantics.repeat_sum, 7, 7, reduces=True),
        _vector("vcgadd", semantics.repeat_sum, 7, 1),
        _vector("vcgmax", semantics.repeat_max, 7, 1, exact=True),
        _vector("vcgmin", semantics.repeat_min, 7, 1, exact=True),
        _vector("vcpadd", semantics.pair_sum),
        _vector("vtranspose", semantics.copied, 2, 2, exact=True),
        _vector("vnchwconv", semantics.gather_rows, 2, 2, exact=True),
        Row("vnchwconv_even", V, REPEATED, semantics.copied, exact=True, half=2, single=2),
        Row("broadcast_ub_to_l0c", V, MOVE, semantics.first, exact=True, source="davinci_timing.md 2.6"),
        Row("mmad", M, CUBE, semantics.mmad, source="davinci_timing.md 2.2"),
        Row("matmul", M, CUBE, semantics.matmul, source="davinci_timing.md 2.4"),
        Row("load2dv1", MTE1, LOAD, semantics.first, exact=True, source="davinci_timing.md 2.3"),
        Row("store_element", S, SCALAR, lambda value: value, source="davinci_timing.md 2.7"),
        Row("set_atomic_add", S, SCALAR, lambda mode: mode, source="tik_api.md 1.15"),
    )
}
"""By name; the vector rows take explicit repeats."""

WHOLE_ROWS = {
    f"h_{name}": Row(f"h_{name}", V, WHOLE, row.compute, row.exact, half=row.half, single=row.single)
    for name, row in {
        **{key: ROWS[f"v{key}"] for key in ("add", "sub", "mul", "div", "max", "min", "and", "or", "not")},
        **{key: ROWS[f"v{key}"] for key in ("abs", "relu", "exp", "ln", "sqrt", "rec", "rsqrt")},
        "cast": ROWS["vconv"],
        "duplicate": ROWS["vector_dup"],
        "reduce_max": Row("", V, WHOLE, semantics.reduce_over(np.max), True, half=7, single=7),
        "reduce_min": Row("", V, WHOLE, semantics.reduce_over(np.min), True, half=7, single=7),
        "reduce_sum": Row("", V, WHOLE, semantics.reduce_over(np.sum), half=7, single=7),
    }.items()
}
"""The h_* calls: the same elements, over whole tensors (tik_api.md 1.12)."""

_MOVES = {
    (GM, UB): MTE2, (GM, L1): MTE2, (GM, L0A): MTE2, (GM, L0B): MTE2,
    (UB, GM): MTE3, (UB, L1): MTE3, (L1, GM): MTE3,
    (L1, UB): MTE1, (L1, L0C): MTE1, (L1, L0A): MTE1, (L1, L0B): MTE1,
    (UB, UB): V, (L0C, UB): V, (UB, L0C): V,
}  # fmt: skip
"""Route to pipe (tik_api.md 1.2, davinci_timing.md 2.9)."""

MOVE_ROWS = {
    route: Row("data_move", pipe, MOVE, semantics.first, exact=True, source="davinci_timing.md 2.5 and 2.6")
    for route, pipe in _MOVES.items()
}
CONVERTING_MOVE_ROWS = {
    route: Row("tensor_mov", MOVE_ROWS[route].pipe, MOVE, semantics.copied, source="tik_api.md 1.3")
    for route in ((L0C, UB), (UB, L0C))
}
RELU_MOVE_ROW = Row("tensor_mov_relu", V, MOVE, _element(semantics.relu), source="tik_api.md 1.3")
LOAD_ROWS = {
    route: Row("load2dv1", pipe, LOAD, semantics.first, exact=True, source="davinci_timing.md 2.3")
    for route, pipe in {(L1, L0A): MTE1, (L1, L0B): MTE1, (GM, L1): MTE2, (GM, L0A): MTE2, (GM, L0B): MTE2}.items()
}
STORE_ELEMENT = ROWS["store_element"]
