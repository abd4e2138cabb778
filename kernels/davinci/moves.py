"""Moves between memories and transposes (tik_api.md 1.2, 1.3, 1.7 to 1.9)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from autotune.kernels.davinci import rows_moves
from autotune.kernels.davinci.control import Control
from autotune.kernels.davinci.errors import (
    DataTypeError,
    NotEmulated,
    RangeError,
    ScopeError,
)
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.memory import BLOCK, L0C, SIZES, UB
from autotune.kernels.davinci.program import Access
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.tensor import Tensor

CUBE_FRACTAL = 256
"""Elements of a fractal in L0C: 512 bytes of 16-bit or 1024 bytes of 32-bit elements."""


def _bursts(tensor: Tensor, nburst: Value, elements: Value, gap: Value, skip: Value = 0) -> Access:
    """nburst runs of ``elements``, with ``gap`` elements from the tail of one to the head of the next."""
    return tensor.pattern((nburst, elements), (elements + gap, 1), skip)


class Moves(Control):
    """data_move and its relatives."""

    def data_move(
        self,
        dst: Tensor,
        src: Tensor,
        sid: Any,
        nburst: Any,
        burst: Any,
        src_stride: Any,
        dst_stride: Any,
        *args: Any,
        **argv: Any,
    ) -> None:
        """Copies nburst bursts; strides are gaps from tail to head."""
        route = (src.scope, dst.scope)
        row = rows_moves.MOVE_ROWS.get(route)
        if row is None:
            raise ScopeError(f"data_move has no route from {src.scope} to {dst.scope}", self.where())
        count = self.number("nburst", nburst, 1, 4095)
        length = self.number("burst", burst, 1, 65535)
        src_gap = self.number("src_stride", src_stride, 0, 65535)
        dst_gap = self.number("dst_stride", dst_stride, 0, 65535)
        self.same_dtype("data_move", dst, src)
        self.aligned(dst)
        self.aligned(src)
        per_block = BLOCK // SIZES[src.dtype]
        unit = CUBE_FRACTAL if L0C in route else per_block
        self.instruction(
            row,
            (_bursts(dst, count, length * unit, dst_gap * (unit if dst.scope == L0C else per_block)),),
            (_bursts(src, count, length * unit, src_gap * (unit if src.scope == L0C else per_block)),),
        )

    def tensor_mov(
        self,
        dst: Tensor,
        src: Tensor,
        block_mode: str,
        nburst: Any,
        burst_len: Any,
        dst_stride: Any,
        src_stride: Any,
        deqscale: Any = None,
        sid_store_mode: int = 0,
        relu: bool = False,
        pad_mode: Any = None,
        pad_value: Any = None,
        onthefly_mode: int = 0,
        src_onthefly: Any = None,
        src_onthefly_stride: int = 0,
    ) -> None:
        """L0C to UB or back with conversion between fp32 and fp16; dst_stride comes before src_stride."""
        route = (src.scope, dst.scope)
        if (
            route not in rows_moves.CONVERTING_MOVE_ROWS
            or block_mode not in ("", "m")
            or deqscale is not None
            or onthefly_mode
        ):
            raise NotEmulated("tensor_mov", f"{route[0]} to {route[1]}, block_mode {block_mode!r}")
        row = rows_moves.RELU_MOVE_ROW if relu else rows_moves.CONVERTING_MOVE_ROWS[route]
        count = self.number("nburst", nburst, 1, 4095)
        elements = self.number("burst_len", burst_len, 1, 65535) * CUBE_FRACTAL
        gaps = [self.number("dst_stride", dst_stride, 0, 65535), self.number("src_stride", src_stride, 0, 65535)]
        accesses = []
        for tensor, gap in zip((dst, src), gaps):
            self.aligned(tensor)
            unit = CUBE_FRACTAL if tensor.scope == L0C else BLOCK // SIZES[tensor.dtype]
            accesses.append(_bursts(tensor, count, elements, gap * unit))
        self.instruction(row, (accesses[0],), (accesses[1],))

    def broadcast_ub_to_l0c(
        self, dst: Tensor, src: Tensor, nburst: Any, burst_len: Any, src_gap: Any = 0, dst_gap: Any = 0
    ) -> None:
        """Each group of 16 elements becomes a 16 x 16 fractal whose rows all equal the group."""
        self.in_scope("broadcast_ub_to_l0c", (UB,), src)
        self.in_scope("broadcast_ub_to_l0c", (L0C,), dst)
        self.same_dtype("broadcast_ub_to_l0c", dst, src)
        count = self.number("nburst", nburst, 1, 255)
        groups = self.number("burst_len", burst_len, 1, 255)
        src_step = groups * 16 + self.number("src_gap", src_gap, 0, 255) * (BLOCK // SIZES[src.dtype])
        dst_step = (groups + self.number("dst_gap", dst_gap, 0, 255)) * CUBE_FRACTAL
        shape = (count, groups, 16, 16)
        self.instruction(
            rows_moves.BROADCAST_ROW,
            (dst.pattern(shape, (dst_step, CUBE_FRACTAL, 16, 1)),),
            (src.pattern(shape, (src_step, 16, 0, 1)),),
        )

    def vec_trans(self, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any, src_rep_stride: Any) -> None:
        """Transposes 16 x 16 blocks of 16-bit elements; strides in 512 bytes from head to head."""
        self.in_scope("vec_trans", (UB,), dst, src)
        if SIZES[self.same_dtype("vec_trans", dst, src)] != 2:
            raise DataTypeError(f"vec_trans takes 16-bit elements, not {dst.dtype}", self.where())
        repeat = self.number("repeat_times", repeat_times, 1, 4095)
        dst_step = self.number("dst_rep_stride", dst_rep_stride, 0, 4095) * 256
        src_step = self.number("src_rep_stride", src_rep_stride, 0, 4095) * 256
        self.aligned(dst)
        self.aligned(src)
        shape = (repeat, 16, 16)
        self.instruction(
            VECTOR_ROWS["vtranspose"],
            (dst.pattern(shape, (dst_step, 16, 1)),),
            (src.pattern(shape, (src_step, 1, 16)),),
        )

    def vtranspose(self, dst: Tensor, src: Tensor) -> None:
        """Transposes one 16 x 16 block of 16-bit elements."""
        self.vec_trans(dst, src, 1, 1, 1)

    def vec_trans_scatter(
        self,
        dst_high_half: bool,
        src_high_half: bool,
        dst_list: Sequence[Tensor],
        src_list: Sequence[Tensor],
        repeat_times: Any,
        dst_rep_stride: Any,
        src_rep_stride: Any,
        name: str | None = None,
    ) -> None:
        """16 rows to their transposes: dst[j][i] = src[i][j] for every repeat (16-bit elements).

        With one repeat the addresses that count are one stride further, as documented (tik_api.md 1.9).
        """
        if len(dst_list) != 16 or len(src_list) != 16:
            raise RangeError("vec_trans_scatter takes 16 source and 16 destination addresses", self.where())
        dtype = self.same_dtype("vec_trans_scatter", *dst_list, *src_list)
        if SIZES[dtype] != 2:
            raise NotEmulated("vec_trans_scatter", f"on {dtype}")
        repeat = self.number("repeat_times", repeat_times, 0, 255)
        steps = [self.number("rep_stride", stride, 0, 65535) * 16 for stride in (dst_rep_stride, src_rep_stride)]
        skips = [step if isinstance(repeat, int) and repeat == 1 else 0 for step in steps]
        for tensor in (*dst_list, *src_list):
            self.aligned(tensor)
        dst_spacing, src_spacing = _spacing(dst_list), _spacing(src_list)
        if dst_spacing is not None and src_spacing is not None:
            shape = (repeat, 16, 16)
            self.instruction(
                VECTOR_ROWS["vnchwconv_even"],
                (dst_list[0].pattern(shape, (steps[0], 1, dst_spacing), skips[0]),),
                (src_list[0].pattern(shape, (steps[1], src_spacing, 1), skips[1]),),
            )
            return
        self.instruction(
            VECTOR_ROWS["vnchwconv"],
            tuple(row.pattern((repeat, 16), (steps[0], 1), skips[0]) for row in dst_list),
            tuple(row.pattern((repeat, 16), (steps[1], 1), skips[1]) for row in src_list),
        )

    vnchwconv = vec_trans_scatter


def _spacing(rows: Sequence[Tensor]) -> int | None:
    """Elements between equally spaced rows of one buffer, None where they are not."""
    if any(row.buffer is not rows[0].buffer for row in rows):
        return None
    gaps = [after.offset - before.offset for before, after in pairwise(rows)]
    return gaps[0] if all(isinstance(gap, int) and gap == gaps[0] for gap in gaps) else None
