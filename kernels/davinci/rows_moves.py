"""Rows of the moves between memories. One call may stand for several rows: the route decides the pipe."""

from __future__ import annotations

from autotune.kernels.davinci import semantics
from autotune.kernels.davinci.isa import MOVE, MTE1, MTE2, MTE3, Row, V
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB

_PIPES = {
    (GM, UB): MTE2, (GM, L1): MTE2, (GM, L0A): MTE2, (GM, L0B): MTE2,
    (UB, GM): MTE3, (UB, L1): MTE3, (L1, GM): MTE3,
    (L1, UB): MTE1, (L1, L0C): MTE1, (L1, L0A): MTE1, (L1, L0B): MTE1,
    (UB, UB): V, (L0C, UB): V, (UB, L0C): V,
}  # fmt: skip
"""Route to pipe (tik_api.md 1.2, davinci_timing.md 2.9)."""

MOVE_ROWS = {
    route: Row("data_move", pipe, MOVE, semantics.first, exact=True, source="tik_api.md 1.2, davinci_timing.md 2.5")
    for route, pipe in _PIPES.items()
}
CONVERTING_MOVE_ROWS = {
    route: Row("tensor_mov", V, MOVE, semantics.copied, source="tik_api.md 1.3, davinci_timing.md 2.6")
    for route in ((L0C, UB), (UB, L0C))
}
RELU_MOVE_ROW = Row("tensor_mov_relu", V, MOVE, semantics.elementwise(semantics.relu), source="tik_api.md 1.3")
BROADCAST_ROW = Row(
    "broadcast_ub_to_l0c", V, MOVE, semantics.first, exact=True, source="tik_api.md 1.7, davinci_timing.md 2.6"
)
