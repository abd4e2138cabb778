"""Rows of the moves between memories. One call may stand for several rows: the route decides the pipe."""

from __future__ import annotations

from autotune.kernels.davinci import layouts, semantics
from autotune.kernels.davinci.isa import FIX, MOVE, MTE1, MTE2, MTE3, REPEATED, Row, Types, V, uniform
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB

_PIPES = {
    (GM, UB): MTE2, (GM, L1): MTE2, (GM, L0A): MTE2, (GM, L0B): MTE2,
    (UB, GM): MTE3, (UB, L1): MTE3, (L1, GM): MTE3,
    (L1, UB): MTE1, (L1, L0C): MTE1, (L1, L0A): MTE1, (L1, L0B): MTE1,
    (UB, UB): V, (L0C, UB): V, (UB, L0C): V,
}  # fmt: skip
"""Route to pipe (tik_api.md 1.2, davinci_timing.md 2.9)."""

_BYTE, _HALF, _WORD = "int8 uint8", "int16 uint16 float16", "int32 uint32 float32"
_ALL = uniform(f"{_BYTE} {_HALF} {_WORD} int64 uint64", 2)
_ACCUMULATED = uniform("float16 float32 int32 uint32", 2)

MOVE_ROWS = {
    route: Row(
        "data_move", pipe, MOVE, semantics.first, exact=True,
        source="tik_api.md 1.2, davinci_timing.md 2.5", scopes=tuple(reversed(route)),
        types=_ACCUMULATED if L0C in route else _ALL,
    )
    for route, pipe in _PIPES.items()
}  # fmt: skip
PADDING_ROWS = {
    route: Row(
        "data_move_pad", MOVE_ROWS[route].pipe, MOVE, layouts.padded, exact=True,
        source="tik_api.md 4.1 #39", scopes=tuple(reversed(route)), types=_ALL,
    )
    for route in ((GM, UB), (UB, GM))
}  # fmt: skip


def _converting(name: str, route: tuple[str, str], types: Types) -> Row:
    return Row(
        name, V, MOVE, layouts.accumulator_move, source="tik_api.md 1.3, davinci_timing.md 2.6",
        scopes=tuple(reversed(route)), types=types, into=layouts.accumulator_into,
    )  # fmt: skip


CONVERTING_MOVE_ROWS = {
    (L0C, UB): _converting("tensor_mov", (L0C, UB), (*_ACCUMULATED, ("float16", "float32"), ("float16", "int32"))),
    (UB, L0C): _converting("tensor_mov", (UB, L0C), (*_ACCUMULATED, ("float32", "float16"))),
}
BROADCAST_ROW = Row(
    "broadcast_ub_to_l0c", V, MOVE, semantics.first, exact=True,
    source="tik_api.md 1.7, davinci_timing.md 2.6", scopes=(L0C, UB), types=uniform("float16 float32 int32", 2),
)  # fmt: skip
FIXPIPE_ROWS = {
    scope: Row(
        "fixpipe", pipe, MOVE, layouts.accumulator_move, source="tik_api.md 4.1 #40", scopes=(scope, L0C),
        types=(*uniform("float32 int32", 2), ("float16", "float32"), ("float16", "int32")),
    )
    for scope, pipe in ((GM, FIX), (UB, V))
}  # fmt: skip


def _transposing(name: str, compute: semantics.Compute, types: str) -> Row:
    return Row(
        name, V, REPEATED, compute, exact=True, half=2, single=2, source="tik_api.md 1.8, 1.9, davinci_timing.md 2.1",
        scopes=(UB, UB), types=uniform(types, 2),
    )  # fmt: skip


TRANSPOSE_ROWS = {
    row.name: row
    for row in (
        _transposing("vtranspose", semantics.copied, _HALF),
        _transposing("vnchwconv", layouts.transposed_rows, f"{_BYTE} {_HALF}"),
        _transposing("vnchwconv_even", semantics.copied, f"{_BYTE} {_HALF}"),
        _transposing("v4dtrans", semantics.copied, f"{_BYTE} {_HALF} {_WORD}"),
    )
}
"""vnchwconv_even is vnchwconv with rows evenly spaced in one tensor: a single strided copy."""
