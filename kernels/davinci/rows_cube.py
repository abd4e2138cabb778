"""Rows of the cube unit and of the fractal loads that feed it."""

from __future__ import annotations

from autotune.kernels.davinci import semantics
from autotune.kernels.davinci.isa import CUBE, LOAD, MTE1, MTE2, M, Row
from autotune.kernels.davinci.memory import GM, L0A, L0B, L1

MMAD_ROW = Row("mmad", M, CUBE, semantics.mmad, source="tik_api.md 1.6, davinci_timing.md 2.2")
MATMUL_ROW = Row("matmul", M, CUBE, semantics.matmul, source="tik_api.md 1.4, davinci_timing.md 2.4")

LOAD_ROWS = {
    route: Row("load2dv1", pipe, LOAD, semantics.first, exact=True, source="tik_api.md 1.5, davinci_timing.md 2.3")
    for route, pipe in {(L1, L0A): MTE1, (L1, L0B): MTE1, (GM, L1): MTE2, (GM, L0A): MTE2, (GM, L0B): MTE2}.items()
}
