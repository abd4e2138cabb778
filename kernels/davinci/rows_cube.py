"""Rows of the cube unit and of the loads that feed it."""

from __future__ import annotations

from autotune.kernels.davinci import layouts, products, semantics
from autotune.kernels.davinci.isa import CUBE, LOAD, MTE1, MTE2, M, Row, Types, uniform
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB

_PRODUCTS: Types = (
    ("float32", "float16", "float16"),
    ("int32", "int8", "int8"),
    ("int32", "uint8", "uint8"),
    ("uint32", "uint8", "uint8"),
    ("int32", "uint8", "int8"),
)
"""Accumulator and operands (tik_api.md 1.4, 1.6)."""

MMAD_ROW = Row(
    "mmad", M, CUBE, products.mmad, source="tik_api.md 1.6, davinci_timing.md 2.2", scopes=(L0C, L0A, L0B),
    types=(*_PRODUCTS, ("float16", "float16", "float16")), into=products.mmad_into,
)  # fmt: skip
MATMUL_ROW = Row(
    "matmul", M, CUBE, products.matmul, source="tik_api.md 1.4, davinci_timing.md 2.4", scopes=(L0C, L1, L1),
    types=_PRODUCTS, into=products.matmul_into,
)  # fmt: skip
CONV2D_ROW = Row("conv2d", M, CUBE, products.conv2d, source="tik_api.md 4.1 #40", scopes=(L0C, L1, L1), types=_PRODUCTS)

FEEDS_ITSELF = frozenset((MATMUL_ROW, CONV2D_ROW))
"""These load L0A and L0B themselves: they hold MTE1 as well as M."""

_LOAD_PIPES = {(L1, L0A): MTE1, (L1, L0B): MTE1, (GM, L1): MTE2, (GM, L0A): MTE2, (GM, L0B): MTE2}


def _loads(name: str, source: str) -> dict[tuple[str, str], Row]:
    types = uniform("int8 uint8 int16 uint16 float16", 2)
    return {
        route: Row(
            name, pipe, LOAD, semantics.first, exact=True, source=source, scopes=tuple(reversed(route)), types=types
        )
        for route, pipe in _LOAD_PIPES.items()
    }


LOAD_ROWS = _loads("load2dv1", "tik_api.md 1.5, davinci_timing.md 2.3")
GAP_LOAD_ROWS = _loads("load2dv2", "tik_api.md 1.5")
IMAGE_LOAD_ROWS = {
    (L1, target): Row(
        "load3dv1", MTE1, LOAD, layouts.image_to_columns, exact=True, source="tik_api.md 4.1 #28",
        scopes=(target, L1), types=uniform("int8 uint8 float16", 2),
    )
    for target in (L0A, L0B, UB)
}  # fmt: skip
