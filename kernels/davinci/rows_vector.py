"""Rows of the vector unit.

Cycles per 256-byte repeat are the vendor's published throughput of the 910B (davinci_timing.md 2.1, column "doc"),
carried over to the 910A: only the 128-lane asymptote is confirmed there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.kernels.davinci import semantics
from autotune.kernels.davinci.isa import REPEATED, WHOLE, Row, V
from autotune.kernels.davinci.semantics import elementwise

_SOURCE = "tik_api.md 2.11, davinci_timing.md 2.1"


def _vector(name: str, compute: Callable[..., Any], half: float = 1, single: float = 1, **options: Any) -> Row:
    return Row(name, V, REPEATED, compute, half=half, single=single, source=_SOURCE, **options)


VECTOR_ROWS = {
    row.name: row
    for row in (
        _vector("vadd", elementwise(np.add)),
        _vector("vsub", elementwise(np.subtract)),
        _vector("vmul", elementwise(np.multiply)),
        _vector("vdiv", elementwise(semantics.divide), 4, 2),
        _vector("vmax", elementwise(np.maximum), exact=True),
        _vector("vmin", elementwise(np.minimum), exact=True),
        _vector("vand", elementwise(np.bitwise_and), exact=True),
        _vector("vor", elementwise(np.bitwise_or), exact=True),
        _vector("vnot", elementwise(np.invert), exact=True),
        _vector("vmla", elementwise(semantics.multiply_add), 2, 2),
        _vector("vaxpy", elementwise(semantics.scale_add), 2, 2),
        _vector("vadds", elementwise(np.add)),
        _vector("vmuls", elementwise(np.multiply)),
        _vector("vabs", elementwise(np.abs), exact=True),
        _vector("vrelu", elementwise(semantics.relu), exact=True),
        _vector("vexp", elementwise(np.exp), 4, 2),
        _vector("vln", elementwise(np.log), 4, 2),
        _vector("vsqrt", elementwise(np.sqrt), 4, 2),
        _vector("vrec", elementwise(semantics.reciprocal)),
        _vector("vrsqrt", elementwise(semantics.reciprocal_root)),
        _vector("vrec_high_preci", elementwise(semantics.reciprocal), 10, 5),
        _vector("vconv", semantics.convert),
        _vector("vector_dup", lambda value: value, exact=True),
        _vector("vcadd", semantics.repeat_sum, 7, 7, reduces=True),
        _vector("vcgadd", semantics.repeat_sum, 7, 1),
        _vector("vcgmax", semantics.repeat_max, 7, 1, exact=True),
        _vector("vcgmin", semantics.repeat_min, 7, 1, exact=True),
        _vector("vcpadd", semantics.pair_sum),
        _vector("vtranspose", semantics.copied, 2, 2, exact=True),
        _vector("vnchwconv", semantics.gather_rows, 2, 2, exact=True),
        _vector("vnchwconv_even", semantics.copied, 2, 2, exact=True),
    )
}
"""By name; they take explicit repeats."""


def _whole(name: str, row: Row) -> Row:
    return Row(
        f"h_{name}", V, WHOLE, row.compute, row.exact, half=row.half, single=row.single, source="tik_api.md 1.12"
    )


def _reduction(operation: Callable[..., Any], exact: bool) -> Row:
    return Row("", V, WHOLE, semantics.reduce_over(operation), exact, half=7, single=7)


WHOLE_ROWS = {
    f"h_{name}": _whole(name, row)
    for name, row in {
        **{key: VECTOR_ROWS[f"v{key}"] for key in ("add", "sub", "mul", "div", "max", "min", "and", "or", "not")},
        **{key: VECTOR_ROWS[f"v{key}"] for key in ("abs", "relu", "exp", "ln", "sqrt", "rec", "rsqrt")},
        "cast": VECTOR_ROWS["vconv"],
        "duplicate": VECTOR_ROWS["vector_dup"],
        "reduce_max": _reduction(np.max, True),
        "reduce_min": _reduction(np.min, True),
        "reduce_sum": _reduction(np.sum, False),
    }.items()
}
"""The h_* calls: the same elements, over whole tensors (tik_api.md 1.12)."""
