"""The instruction table: one row per instruction, with its operands, its meaning, its pipe and the form of its cost.

The rows themselves stand in ``rows_vector.py``, ``rows_cube.py``, ``rows_moves.py`` and ``rows_scalar.py``; ``ROWS``
in ``table.py`` is all of them. Where a chip takes other operand types, ``rows_chips.py`` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

S, V, M, MTE1, MTE2, MTE3, FIX = "S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"
PIPES = (S, V, M, MTE1, MTE2, MTE3, FIX)

REPEATED, WHOLE, MOVE, CUBE, LOAD, SCALAR = "repeated", "whole", "move", "cube", "load", "scalar"
"""Forms of a cost: a vector instruction by its repeats, a tensor-wide vector call, a move by its bytes and route,
a cube product by its 16 x 16 x 16 tiles, a fractal load, a scalar operation."""

Types = tuple[tuple[str, ...], ...]
"""Lists of operand types that go together, destination first."""


@dataclass(frozen=True, eq=False)
class Row:
    """One instruction. Rows are compared by identity.

    scopes: the memories of destination and sources, e.g. ("local.UB", "local.UB"); empty where calls check it.
    types: the operand types it takes on the 910A, destination first; empty where calls check it.
    compute: operands and immediates as numpy arrays and numbers to the unrounded result(s); float64 results are
    rounded once as well.
    into: the same work written to its first argument, for unmasked operands that the host holds as one type; faster.
    exact: the result needs no rounding. reduces: lanes are combined, so that ``compute`` gets the active ones as its
    keyword ``active`` (None where all are) instead of the store leaving the others alone.
    half, single: cycles per repeat with 16-bit and 32-bit elements (vector forms only).
    source: where meaning and cost are documented.
    """

    name: str
    pipe: str
    form: str
    compute: Callable[..., Any]
    exact: bool = False
    reduces: bool = False
    half: float = 1
    single: float = 1
    source: str = ""
    scopes: tuple[str, ...] = ()
    types: Types = ()
    into: Callable[..., Any] | None = None


def uniform(dtypes: str, operands: int) -> Types:
    """For each named type, all operands of that type: ``uniform("float16 float32", 3)``."""
    return tuple((dtype,) * operands for dtype in dtypes.split())
