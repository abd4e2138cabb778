"""Operand types by chip: what the rows' own lists, which are the 910A's, do not say.

Sources: tik_api.md 3.2 and 1.13; the chip tables of the Apache-2.0 compiler AKG for 310 and 910; for the rest the
public documentation of each call.
"""

from __future__ import annotations

import re
from functools import cache

from autotune.kernels.davinci.isa import Row, Types, uniform

M100, C100, M200, C220 = "dav-m100", "dav-c100", "dav-m200", "dav-c220"
"""310; 910A and its relatives; 310P; 910B1 to B4."""

_HALF, _FLOATS, _NEWER = "float16", "float16 float32", "float16 float32 int32 int16"
_ARITHMETIC = {name: uniform(_NEWER, 3) for name in ("vadd", "vsub", "vmul", "vmax", "vmin")}
_NEWER_ROWS: dict[str, Types] = {
    **_ARITHMETIC,
    "vadds": uniform(_NEWER, 2),
    "vmuls": uniform(_NEWER, 2),
    "vrelu": uniform("float16 float32 int32", 2),
    **{name: uniform(_FLOATS, 2) for name in ("vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin", "vcpadd")},
    **{name: uniform(_FLOATS, 2) for name in ("vec_reduce_max", "vec_reduce_min", "h_reduce_max", "h_reduce_min")},
}
_NEWER_TRANSPOSE = uniform("int8 uint8 int16 uint16 float16 int32 uint32 float32", 2)
_SPLIT_PRODUCTS: Types = (
    ("float32", "float16", "float16"),
    ("float32", "float32", "float32"),
    ("int32", "int8", "int8"),
)
DIFFERENCES: dict[str, dict[str, Types]] = {
    M100: {
        "vdiv": (),
        "vsqrt": (),
        **{name: uniform(_HALF, 2) for name in ("vexp", "vln", "h_exp", "h_ln")},
        **{f"vcmp_{name}": (("uint8", _HALF, _HALF),) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        "load2dv2": (),
        "data_move_pad": (),
    },
    C100: {"load2dv2": (), "data_move_pad": ()},
    M200: {**_NEWER_ROWS, "vnchwconv": _NEWER_TRANSPOSE, "data_move_pad": ()},
    C220: {
        **_NEWER_ROWS,
        "vnchwconv": _NEWER_TRANSPOSE,
        "load3dv1": (),
        **dict.fromkeys(("mmad", "matmul", "conv2d"), _SPLIT_PRODUCTS),
        **{
            name: uniform("int8 uint8 int16 uint16 float16 int32 uint32 float32", 2)
            for name in ("load2dv1", "load2dv2")
        },
    },
}
"""Architecture to row name to the types it takes there; no types: the chip lacks the instruction."""

SHORT = {
    "f16": "float16", "f32": "float32", "s8": "int8", "u8": "uint8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "bf16": "bfloat16",
}  # fmt: skip
"""How the platform files write types."""
_MODES = {
    "": "", "r": "round", "a": "away-zero", "f": "floor", "c": "ceil", "z": "to-zero", "o": "odd",
}  # fmt: skip
_CODE = re.compile(r"(?P<source>b?[fsu]\d+?)2(?P<target>b?[fsu]\d+)(?P<mode>[rafczo]?)")
_PAIRS = {
    M100: "f32:f16: f16:f32: f16:s8: f16:u8: f16:s32:fcr u8:f16: s8:f16: s32:f16:d",
    C100: "f32:f16:o f16:f32: f16:s8:afcz f16:u8:afcz s32:f32: f16:s32:rafcz f32:s32:rafcz u8:f16: s8:f16: s32:f16:d",
    M200: "f32:f16:orafcz f16:f32: f16:s8:rafcz f16:u8:rafcz s32:f32: f16:s32:rafcz f32:s32:rafcz u8:f16: s8:f16: "
    "s32:f16:d f16:s16:rafcz f32:s16:rafcz s16:f16: s16:f32: s32:s16:",
}
_PAIRS[C220] = _PAIRS[M200] + " f32:s64:rafcz s64:f32:rafcz s32:s64: s64:s32: f32:f32:rafcz"
_PLAIN = {"f32:f16", "f16:s8", "f16:u8"}
"""Pairs that take modes and also none."""


def _conversions(pairs: str) -> dict[tuple[str, str], tuple[str, ...]]:
    found = {}
    for entry in pairs.split():
        source, target, letters = entry.split(":")
        modes = tuple(_MODES[letter] for letter in letters if letter != "d")
        plain = not letters or f"{source}:{target}" in _PLAIN
        found[SHORT[source], SHORT[target]] = (("",) if plain else ()) + modes
    return found


CONVERSIONS = {arch: _conversions(pairs) for arch, pairs in _PAIRS.items()}
"""Architecture to (source, destination) type to its rounding modes; '' is none. No mode at all: needs a deqscale."""


@cache
def signatures(row: Row, arch: str) -> frozenset[tuple[str, ...]]:
    """The operand types a row takes on a chip, destination first; empty where the chip lacks it."""
    if row.name == "vconv":
        return frozenset((target, source) for source, target in CONVERSIONS[arch])
    return frozenset(DIFFERENCES.get(arch, {}).get(row.name, row.types))


def conversion_code(code: str, arch: str) -> bool:
    """Whether a chip has a conversion by the name the platform files give it, e.g. f322f16, f162s32r or deq."""
    if code == "deq":
        return ("int32", "float16") in CONVERSIONS[arch]
    match = _CODE.fullmatch(code)
    if match is None:
        return False
    modes = CONVERSIONS[arch].get((SHORT[match["source"]], SHORT[match["target"]]), ())
    return _MODES[match["mode"]] in modes
