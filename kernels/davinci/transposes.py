"""Transposes in UB (tik_api.md 1.8, 1.9 and 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from autotune.kernels.davinci.checks import check, check_types
from autotune.kernels.davinci.errors import RangeError
from autotune.kernels.davinci.expr import Value, condition
from autotune.kernels.davinci.memory import SIZES, UB
from autotune.kernels.davinci.moves import Moves, per_block
from autotune.kernels.davinci.rows_moves import TRANSPOSE_ROWS
from autotune.kernels.davinci.tensor import Tensor

ROWS = 16
"""Source and destination addresses of vec_trans_scatter."""


class Transposes(Moves):
    """vec_trans, vec_trans_scatter and their relatives."""

    single_repeat_adds_stride = True
    """Whether vec_trans_scatter with one repeat starts one repeat stride behind its addresses, as is documented
    (tik_api.md 1.9). Some public kernels count on the opposite: set it to False on Tik or on one instance for them."""

    def vec_trans(self, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any, src_rep_stride: Any) -> None:
        """Transposes 16 x 16 blocks of 16-bit elements; strides in 512 bytes from head to head."""
        check(TRANSPOSE_ROWS["vtranspose"], self.program.soc, dst, src)
        repeat = self.number("repeat_times", repeat_times, 1, 4095)
        dst_step = self.number("dst_rep_stride", dst_rep_stride, 0, 4095) * 256
        src_step = self.number("src_rep_stride", src_rep_stride, 0, 4095) * 256
        self.aligned(dst)
        self.aligned(src)
        shape = (repeat, 16, 16)
        self.instruction(
            TRANSPOSE_ROWS["vtranspose"],
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
        """16 rows of 32 bytes to their transposes, for every repeat (tik_api.md 1.9).

        16-bit: dst[j][i] = src[i][j]. 8-bit: the same for 16 of a row's 32 elements, the upper ones where a half is
        high. 32-bit (not on 310 and 910A): dst[2 j + h][i] = src[8 h + i][j] for 8 elements a row.
        """
        if len(dst_list) != ROWS or len(src_list) != ROWS:
            raise RangeError("vec_trans_scatter takes 16 source and 16 destination addresses", self.where())
        size = SIZES[self._scattered_dtype(dst_list, src_list)]
        repeat = self.number("repeat_times", repeat_times, 0, 255)
        block = per_block(dst_list[0])
        steps = [self.number("rep_stride", stride, 0, 65535) * block for stride in (dst_rep_stride, src_rep_stride)]
        once = condition("==", repeat, 1) if self.single_repeat_adds_stride else False
        halves = [ROWS if high and size == 1 else 0 for high in (dst_high_half, src_high_half)]
        skips = [step * once + half for step, half in zip(steps, halves)]
        for tensor in (*dst_list, *src_list):
            self.aligned(tensor)
        spacings = _spacing(dst_list), _spacing(src_list)
        if spacings[0] is not None and spacings[1] is not None:
            self._evenly(dst_list[0], src_list[0], repeat, steps, skips, (spacings[0], spacings[1]))
            return
        lanes = min(block, ROWS)
        self.instruction(
            TRANSPOSE_ROWS["vnchwconv"],
            tuple(row.pattern((repeat, lanes), (steps[0], 1), skips[0]) for row in dst_list),
            tuple(row.pattern((repeat, lanes), (steps[1], 1), skips[1]) for row in src_list),
        )

    vnchwconv = vec_trans_scatter

    def _scattered_dtype(self, dst_list: Sequence[Tensor], src_list: Sequence[Tensor]) -> str:
        self.in_scope("vec_trans_scatter", (UB,), *dst_list, *src_list)
        dtype = self.same_dtype("vec_trans_scatter", *dst_list, *src_list)
        check_types(TRANSPOSE_ROWS["vnchwconv"], self.program.soc, (dtype, dtype))
        return dtype

    def _evenly(
        self, dst: Tensor, src: Tensor, repeat: Value, steps: list[Value], skips: list[Value], spacings: tuple[int, int]
    ) -> None:
        """Rows evenly spaced in one tensor: the transpose is one strided copy."""
        lanes = min(per_block(dst), ROWS)
        shape = (repeat, ROWS // lanes, lanes, lanes)
        self.instruction(
            TRANSPOSE_ROWS["vnchwconv_even"],
            (dst.pattern(shape, (steps[0], spacings[0], 1, ROWS // lanes * spacings[0]), skips[0]),),
            (src.pattern(shape, (steps[1], lanes * spacings[1], spacings[1], 1), skips[1]),),
        )

    def v4dtrans(self, chw2hwc: bool, dst: Tensor, src: Tensor, m_len: Any, channels: Any) -> None:
        """[channels, m_len] to [m_len, channels], or back where chw2hwc is False."""
        check(TRANSPOSE_ROWS["v4dtrans"], self.program.soc, dst, src)
        points = self.number("m_len", m_len, 1, 4095)
        depth = self.number("channels", channels, 1, 4095)
        self.aligned(dst)
        self.aligned(src)
        dense, crossed = (depth, 1), (1, points)
        ways = (dense, crossed) if chw2hwc else (crossed, dense)
        accesses = [tensor.pattern((points, depth), strides) for tensor, strides in zip((dst, src), ways)]
        self.instruction(TRANSPOSE_ROWS["v4dtrans"], (accesses[0],), (accesses[1],))


def _spacing(rows: Sequence[Tensor]) -> int | None:
    """Elements between equally spaced rows of one buffer, None where they are not."""
    if any(row.buffer is not rows[0].buffer for row in rows):
        return None
    gaps = [after.offset - before.offset for before, after in pairwise(rows)]
    return gaps[0] if all(isinstance(gap, int) and gap == gaps[0] for gap in gaps) else None
