"""The instruction table: one row per instruction, with its operands, its meaning, its pipe and the form of its cost.

The rows themselves stand in ``rows_vector.py``, ``rows_cube.py``, ``rows_moves.py`` and ``rows_scalar.py``; ``ROWS``
in ``table.py`` is all of them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

S, V, M, MTE1, MTE2, MTE3 = "S", "V", "M", "MTE1", "MTE2", "MTE3"
PIPES = (S, V, M, MTE1, MTE2, MTE3)

REPEATED, WHOLE, MOVE, CUBE, LOAD, SCALAR = "repeated", "whole", "move", "cube", "load", "scalar"
"""Forms of a cost: a vector instruction by its repeats, a tensor-wide vector call, a move by its bytes and route,
a cube product by its 16 x 16 x 16 tiles, a fractal load, a scalar operation."""


@dataclass(frozen=True)
class Row:
    """One instruction.

    scopes: the memories of destination and sources, e.g. ("UB", "UB"). types: the operand types it takes, destination
    first. compute: operands and immediates as numpy arrays and numbers to the unrounded result(s).
    exact: the result needs no rounding. reduces: the operand arrives as [repeats, active lanes].
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
    types: tuple[tuple[str, ...], ...] = ()
