"""Rows of the vector unit.

Cycles per 256-byte repeat are the vendor's published throughput of the 910B (davinci_timing.md 2.1, column "doc"),
carried over to the 910A: only the 128-lane asymptote is confirmed there. Calls that the toolkit expands into several
instructions count the cycles of those.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.kernels.davinci import lanewise, semantics
from autotune.kernels.davinci.isa import REPEATED, WHOLE, Row, Types, V, uniform
from autotune.kernels.davinci.memory import SIZES, UB
from autotune.kernels.davinci.semantics import elementwise, in_double, then_relu

_SOURCE = "tik_api.md 2.11, davinci_timing.md 2.1"
HALF, FLOATS, ARITHMETIC, BITS = "float16", "float16 float32", "float16 float32 int32", "int16 uint16"
EVERY = " ".join(name for name in SIZES if name not in ("bool", "bfloat16"))
_MIXED: Types = (("float32", "float16", "float16"),)
_BIT_TYPES = ("uint8", "uint16", "uint32", "uint64")
_COMPARED: Types = tuple((bits, dtype, dtype) for bits in _BIT_TYPES for dtype in FLOATS.split())
_SELECTED: Types = tuple((dtype, bits, dtype, dtype) for bits in _BIT_TYPES for dtype in FLOATS.split())
_COMPRESSED = "float16 float32 int16 uint16 int32 uint32"

COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _straight(operation: Callable[..., Any]) -> Callable[..., Any] | None:
    return semantics.straight(operation) if isinstance(operation, np.ufunc) else None


_DIVIDE, _RECIPROCAL, _RELU = (
    semantics.straight(np.divide),
    lambda target, a: np.divide(1, a, out=target),
    lambda target, a: np.maximum(a, 0, out=target),
)


def _vector(name: str, compute: Callable[..., Any], types: Types, half: float = 1, single: float = 1,
            **options: Any) -> Row:  # fmt: skip
    scopes = (UB,) * len(types[0]) if types else (UB, UB)
    return Row(name, V, REPEATED, compute, half=half, single=single, source=_SOURCE, scopes=scopes, types=types,
               **options)  # fmt: skip


def _unary(name: str, operation: Callable[..., Any], dtypes: str, half: float = 1, single: float = 1,
           **options: Any) -> Row:  # fmt: skip
    options = {"into": _straight(operation), **options}
    return _vector(name, elementwise(operation), uniform(dtypes, 2), half, single, **options)


def _binary(name: str, operation: Callable[..., Any], dtypes: str, half: float = 1, single: float = 1,
            **options: Any) -> Row:  # fmt: skip
    options = {"into": _straight(operation), **options}
    return _vector(name, elementwise(operation), uniform(dtypes, 3), half, single, **options)


def _reduction(name: str, compute: Callable[..., Any], dtypes: str, half: float, single: float, **options: Any) -> Row:
    return _vector(name, compute, uniform(dtypes, 2), half, single, reduces=True, **options)


_ROWS = (
    _binary("vadd", np.add, ARITHMETIC),
    _binary("vsub", np.subtract, ARITHMETIC),
    _binary("vmul", np.multiply, ARITHMETIC),
    _binary("vdiv", semantics.divide, FLOATS, 4, 2, into=_DIVIDE),
    _binary("vmax", np.maximum, ARITHMETIC, exact=True),
    _binary("vmin", np.minimum, ARITHMETIC, exact=True),
    _binary("vand", np.bitwise_and, BITS, exact=True),
    _binary("vor", np.bitwise_or, BITS, exact=True),
    _vector("vmla", elementwise(semantics.multiply_add), (*uniform(FLOATS, 3), *_MIXED), 2, 2),
    _binary("vmadd", semantics.multiply_destination, FLOATS, 2, 2),
    _binary("vmaddrelu", then_relu(semantics.multiply_destination), FLOATS, 2, 2),
    _vector("vmulconv", semantics.quantise, (("int8",) + ("float16",) * 2, ("uint8",) + ("float16",) * 2), 2, 2),
    _vector("vadddeqrelu", semantics.rescaled_sum, (("float16", "int32", "int32"),), 2, 2),
    _vector("vaxpy", elementwise(semantics.scale_add), (*uniform(FLOATS, 2), ("float32", "float16")), 2, 2),
    _unary("vadds", np.add, FLOATS),
    _unary("vmuls", np.multiply, FLOATS),
    _unary("vnot", np.invert, BITS, exact=True),
    _unary("vabs", np.abs, FLOATS, exact=True),
    _unary("vrelu", semantics.relu, HALF, exact=True, into=_RELU),
    _unary("vexp", np.exp, FLOATS, 4, 2),
    _unary("vln", np.log, FLOATS, 4, 2),
    _unary("vsqrt", np.sqrt, FLOATS, 4, 2),
    _unary("vrec", semantics.reciprocal, FLOATS, into=_RECIPROCAL),
    _unary("vrsqrt", semantics.reciprocal_root, FLOATS),
    _unary("vrec_high_preci", semantics.reciprocal, FLOATS, 10, 5, into=_RECIPROCAL),
    _unary("vrsqrt_high_preci", semantics.reciprocal_root, FLOATS, 14, 7),
    _unary("vln_high_preci", in_double(np.log), FLOATS, 20, 10),
    _unary("vexpm1_high_preci", in_double(np.expm1), FLOATS, 20, 10),
    _vector("vconv", semantics.convert, (), into=semantics.convert_into),
    _vector("vconv_deq", semantics.dequantise, (("float16", "int32"),)),
    _vector("vector_dup", semantics.first, uniform(EVERY, 1), exact=True, into=np.copyto),
    _reduction("vcadd", lanewise.repeat_sum, FLOATS, 7, 7),
    _reduction("vcmax", lanewise.repeat_extreme(True), HALF, 7, 7, exact=True),
    _reduction("vcmin", lanewise.repeat_extreme(False), HALF, 7, 7, exact=True),
    _reduction("vcgadd", lanewise.block_sum, HALF, 7, 1),
    _reduction("vcgmax", lanewise.block_extreme(True), HALF, 7, 1, exact=True),
    _reduction("vcgmin", lanewise.block_extreme(False), HALF, 7, 1, exact=True),
    _reduction("vcpadd", lanewise.pair_sum, HALF, 1, 1),
    _reduction("vec_reduce_add", lanewise.total_sum, FLOATS, 8, 8),
    _reduction("vec_reduce_max", lanewise.total_extreme(True), HALF, 8, 8, exact=True),
    _reduction("vec_reduce_min", lanewise.total_extreme(False), HALF, 8, 8, exact=True),
    *(_vector(f"vcmpv_{n}", lanewise.compare(op), _COMPARED, exact=True) for n, op in COMPARISONS.items()),
    *(
        _vector(f"vcmp_{n}", lanewise.compare_masked(op), _COMPARED[:2], exact=True, reduces=True)
        for n, op in COMPARISONS.items()
    ),
    _vector("vsel", lanewise.select, _SELECTED, 2, 2, exact=True),
    _vector("vconcat", semantics.first, uniform(HALF, 2), exact=True),
    _vector("vextract", semantics.first, uniform(HALF, 2), exact=True),
    _vector("vrpsort16", lanewise.sort_proposals, uniform(HALF, 2), 2, 2, exact=True),
    _vector("mov_cmpmask", semantics.first, (("uint8", "uint8"),), exact=True),
    _vector("vreduce", lanewise.compress, uniform(_COMPRESSED, 2), 2, 2, exact=True),
)
VECTOR_ROWS = {row.name: row for row in _ROWS}
"""By name; they take explicit repeats."""


def _whole(name: str, compute: Callable[..., Any], types: Types, exact: bool = False, half: float = 1,
           single: float = 1, into: Callable[..., Any] | None = None) -> Row:  # fmt: skip
    return Row(f"h_{name}", V, WHOLE, compute, exact, half=half, single=single, source="tik_api.md 1.12",
               scopes=(UB,) * len(types[0]), types=types, into=into)  # fmt: skip


def _like(name: str, dtypes: str = "") -> Row:
    row = VECTOR_ROWS[f"v{name}"]
    types = uniform(dtypes, len(row.types[0])) if dtypes else row.types
    return _whole(name, row.compute, types, row.exact, row.half, row.single, row.into)


def _over(name: str, operation: Callable[..., Any], dtypes: str, exact: bool) -> Row:
    return _whole(f"reduce_{name}", semantics.reduce_over(operation), uniform(dtypes, 2), exact, 7, 7)


def _place(name: str, operation: Callable[..., Any]) -> Row:
    types = (("int32", "float16"), ("int32", "float32"))
    return _whole(f"reduce_{name}", semantics.arg_extreme(operation), types, True, 7, 7)


_CAST_TYPES = tuple((to, of) for to in EVERY.split() for of in EVERY.split() if to != of)
_WHOLE_ROWS = (
    *(_like(name) for name in ("add", "sub", "mul", "div", "max", "min", "and", "or", "not")),
    *(_like(name) for name in ("abs", "exp", "ln", "sqrt", "rec", "rsqrt")),
    _like("relu", FLOATS),
    _whole("sin", elementwise(in_double(np.sin)), uniform(FLOATS, 2), False, 20, 20),
    _whole("cos", elementwise(in_double(np.cos)), uniform(FLOATS, 2), False, 20, 20),
    _whole("cast", semantics.convert, _CAST_TYPES, into=semantics.convert_into),
    _whole("quant", semantics.dequantise, (("float16", "int32"),)),
    _whole("duplicate", semantics.first, uniform(EVERY, 1), True, into=np.copyto),
    _over("max", np.max, HALF, True),
    _over("min", np.min, HALF, True),
    _over("sum", np.sum, FLOATS, False),
    _place("argmax", np.argmax),
    _place("argmin", np.argmin),
    *(
        _whole(f"cmpv_{n}", operation, tuple(("bool", d, d) for d in ARITHMETIC.split()), True)
        for n, operation in COMPARISONS.items()
    ),
    _whole("sel", semantics.chosen, tuple((d, d, d, "bool") for d in FLOATS.split()), True),
)
WHOLE_ROWS = {row.name: row for row in _WHOLE_ROWS}
"""The h_* calls: the same elements, over whole tensors (tik_api.md 1.12)."""
