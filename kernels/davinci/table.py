"""All rows of the instruction table, and what a chip supports of them."""

from __future__ import annotations

from functools import cache

from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, MEMORIES, SIZES, UB
from autotune.kernels.davinci.rows_chips import SHORT, conversion_code, signatures
from autotune.kernels.davinci.rows_cube import (
    CONV2D_ROW,
    GAP_LOAD_ROWS,
    IMAGE_LOAD_ROWS,
    LOAD_ROWS,
    MATMUL_ROW,
    MMAD_ROW,
)
from autotune.kernels.davinci.rows_moves import (
    BROADCAST_ROW,
    CONVERTING_MOVE_ROWS,
    FIXPIPE_ROWS,
    MOVE_ROWS,
    PADDING_ROWS,
    TRANSPOSE_ROWS,
)
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS, WHOLE_ROWS
from autotune.kernels.davinci.soc import ATOMIC_TYPES, SoC

ROWS: tuple[Row, ...] = (
    *VECTOR_ROWS.values(),
    *WHOLE_ROWS.values(),
    *MOVE_ROWS.values(),
    *CONVERTING_MOVE_ROWS.values(),
    *PADDING_ROWS.values(),
    *FIXPIPE_ROWS.values(),
    BROADCAST_ROW,
    *TRANSPOSE_ROWS.values(),
    MMAD_ROW,
    MATMUL_ROW,
    CONV2D_ROW,
    *LOAD_ROWS.values(),
    *GAP_LOAD_ROWS.values(),
    *IMAGE_LOAD_ROWS.values(),
    STORE_ELEMENT,
)
"""Calls with several routes have one row for each."""

_NAMES = {
    "vcmp": "vcmp_eq", "vcmpv": "vcmpv_eq", "vlog": "vln", "vreducev2": "vreduce", "vec_conv": "vconv",
    "vec_dup": "vector_dup", "h_conv": "h_cast", "h_cmpv": "h_cmpv_eq", "mov_tensor_to_cmpmask": "mov_cmpmask",
    "mov_cmpmask_to_tensor": "mov_cmpmask", "vec_trans": "vtranspose", "vec_trans_scatter": "vnchwconv",
}  # fmt: skip
"""Calls and intrinsics whose row has another name. vec_* share the row of their v* twin; Intrinsic_exp is vexp."""
SCALAR_CALLS = frozenset(
    f"scalar_{name}" for name in ("max", "min", "abs", "sqrt", "conv", "countbit0", "countbit1", "countleading0")
)
"""Calls on Scalars: they need no row of their own."""
_ENDS = {"out": GM, "ub": UB, "l1": L1, "l0a": L0A, "l0b": L0B, "l0c": L0C}
_CODES = {name: code for code, name in SHORT.items()}


@cache
def _rows_named(name: str) -> tuple[Row, ...]:
    wanted = {name, f"v{name}", _NAMES.get(name, name)}
    if name.startswith("vec_"):
        wanted.add(f"v{name[4:]}")
    return tuple(row for row in ROWS if row.name in wanted)


def supports(api_name: str, dtype: str | None, soc: SoC) -> bool:
    """Whether a call ("tik.vadd") or intrinsic ("Intrinsic_vadd") is emulated on a chip for an operand type.

    dtype: an element type, a list of types without blanks as the platform files write them (f32f16f16, f322f16), or
    nothing for any. False for everything that is not emulated.
    """
    name = api_name.rpartition(".")[2].removeprefix("Intrinsic_")
    if name == "set_atomic_add":
        return not dtype or dtype in ATOMIC_TYPES[: soc.atomics]
    if name in SCALAR_CALLS:
        return True
    start, two, end = name.removeprefix("data_move_").rpartition("2")
    if two and start in _ENDS and end in _ENDS:
        return _moves(_ENDS[start], _ENDS[end], dtype, soc)
    rows = _rows_named(name)
    if name in ("vconv", "vec_conv") and dtype and dtype not in SIZES:
        return conversion_code(dtype, soc.arch)
    return any(_takes(row, dtype, soc) for row in rows)


def _moves(start: str, end: str, dtype: str | None, soc: SoC) -> bool:
    row = MOVE_ROWS.get((start, end)) or LOAD_ROWS.get((start, end))
    route = tuple(MEMORIES[scope].title if scope in MEMORIES else "GM" for scope in (start, end))
    return row is not None and route not in soc.missing and _takes(row, dtype, soc)


def _takes(row: Row, dtype: str | None, soc: SoC) -> bool:
    taken = signatures(row, soc.arch)
    if not dtype:
        return bool(taken)
    return any(dtype in types[-1:] or dtype == "".join(_CODES.get(t, t) for t in types) for types in taken)
