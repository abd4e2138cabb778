"""vreduce: elements chosen by a pattern, packed one after the other (tik_api.md 4.1)."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci.checks import check, no_stride_unit
from autotune.kernels.davinci.compare import Comparisons, as_bytes
from autotune.kernels.davinci.errors import DataTypeError, RangeError
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.lanes import Lanes
from autotune.kernels.davinci.lanewise import PATTERNS
from autotune.kernels.davinci.memory import BLOCK, REG, SIZES, UB, Buffer
from autotune.kernels.davinci.program import Access, Instruction, SetScalar
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.tensor import Scalar, Tensor


class Compression(Comparisons):
    """vreduce and vreducev2."""

    _kept: Buffer | None = None

    def vreduce(
        self, mask: Any, dst: Tensor, src0: Tensor, src1_pattern: Any, repeat_times: Any, src0_blk_stride: Any,
        src0_rep_stride: Any, src1_rep_stride: Any, stride_unit: int = 0, rsvd_scalar: Scalar | None = None,
        mask_mode: str = "normal",
    ) -> None:  # fmt: skip
        """Packs the chosen elements of every repeat into dst; rsvd_scalar becomes their number.

        src1_pattern: 1 to 7 for even, odd, first to fourth of four and all lanes, or a tensor of bits, src1_rep_stride
        blocks from repeat to repeat. mask: lanes of a repeat; in counter mode any number of them.
        """
        no_stride_unit("vreduce", stride_unit)
        row = VECTOR_ROWS["vreduce"]
        check(row, self.program.soc, dst, src0)
        per_block = BLOCK // SIZES[src0.dtype]
        count = self._lanes(mask, src0, mask_mode)
        repeat = self.number("repeat_times", repeat_times, 1, 65535 if mask_mode == "counter" else 255)
        blocks = (count + per_block - 1) // per_block
        steps = (
            self.number("repeat stride", src0_rep_stride, 0, 65535) * per_block,
            self.number("block stride", src0_blk_stride, 0, 65535) * per_block,
            1,
        )
        self.aligned(src0)
        source = src0.pattern((repeat, blocks, per_block), steps)
        left = dst.buffer.nbytes // SIZES[dst.dtype] - dst.offset
        target = dst.pattern((left,), (1,))
        chosen, pattern = self._pattern(src1_pattern, src0, repeat, count, src1_rep_stride)
        where = self.where()
        self._emit(target, (source, target, *chosen), (*pattern, count, where), rsvd_scalar)

    def _lanes(self, mask: Any, src0: Tensor, mask_mode: str) -> Value:
        if mask_mode == "counter":
            return self.number("mask", mask, 1, (1 << 32) - 1)
        lanes = Lanes(self, mask, {src0.dtype})
        if isinstance(mask, (list, tuple)) and lanes.mask is not None:
            raise RangeError("vreduce takes a number of lanes as its mask; give a pattern tensor for single lanes")
        return lanes.active

    def _pattern(
        self, src1_pattern: Any, src0: Tensor, repeat: Value, count: Value, src1_rep_stride: Any
    ) -> tuple[tuple[Access, ...], tuple[Any, ...]]:
        """(inputs, immediates) that stand for a pattern."""
        if not isinstance(src1_pattern, Tensor):
            if src1_pattern not in PATTERNS:
                raise RangeError(f"vreduce: src1_pattern is {src1_pattern!r}; it must be 1 to 7 or a tensor")
            return (), (src1_pattern,)
        if SIZES[src1_pattern.dtype] != SIZES[src0.dtype] or not src1_pattern.dtype.startswith("uint"):
            raise DataTypeError(
                f"vreduce: a pattern for {src0.dtype} is uint{8 * SIZES[src0.dtype]}, not {src1_pattern.dtype}"
            )
        self.in_scope("vreduce", (UB,), src1_pattern)
        step = self.number("src1_rep_stride", src1_rep_stride, 0, 255) * BLOCK
        return (as_bytes(src1_pattern, (repeat, (count + 7) // 8), (step, 1)),), ()

    def _emit(
        self, target: Access, inputs: tuple[Access, ...], immediates: tuple[Any, ...], rsvd_scalar: Scalar | None
    ) -> None:
        if self._kept is None:
            self._kept = Buffer("vreduce_count", "uint32", 1, REG, self.where())
        kept = Access(self._kept, "uint32", 0, (1,), (1,))
        self.emit(Instruction(VECTOR_ROWS["vreduce"], (target, kept), inputs, immediates, self.where()))
        if rsvd_scalar is not None:
            self.emit(SetScalar(rsvd_scalar.slot, rsvd_scalar.dtype, kept, self.where()))

    def vreducev2(
        self, mask: Any, dst: Tensor, src0: Tensor, src1_pattern: Any, repeat_times: Any, src0_blk_stride: Any,
        src0_rep_stride: Any, src1_rep_stride: Any, rsvd_scalar: Scalar | None = None, mask_mode: str = "normal",
    ) -> None:  # fmt: skip
        """vreduce under its newer name."""
        self.vreduce(mask, dst, src0, src1_pattern, repeat_times, src0_blk_stride, src0_rep_stride, src1_rep_stride,
                     0, rsvd_scalar, mask_mode)  # fmt: skip
