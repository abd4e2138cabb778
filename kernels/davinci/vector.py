"""Element-wise vector instructions with explicit masks, repeats and strides (tik_api.md 2.11 and 4.1).

``v*`` calls name block strides; their ``vec_*`` twins have block strides of 1. Arguments stand in TIK's order:

    unary       mask, dst, src, repeat_times, block strides, repeat strides
    binary      mask, dst, src0, src1, repeat_times, block strides, repeat strides
    scalar      mask, dst, src, scalar, repeat_times, block strides, repeat strides

with strides for the destination first, then for each source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.davinci.checks import check, no_stride_unit
from autotune.kernels.davinci.cube import Cube
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.lanes import Lanes, all_one, turns
from autotune.kernels.davinci.program import Access, Instruction
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.tensor import Tensor

Call = Callable[..., None]


def _named(name: str, call: Call) -> Call:
    call.__name__, call.__doc__ = name, f"{name}: see this module's docstring."
    return call


def _twins(row: str, low_level: Call, simple: Call) -> tuple[Call, Call]:
    return _named(row, low_level), _named(f"vec_{row[1:]}", simple)


def _unary(row: str) -> tuple[Call, Call]:
    def low_level(
        self: Vector, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_blk_stride: Any, src_blk_stride: Any,
        dst_rep_stride: Any, src_rep_stride: Any, stride_unit: int = 0,
    ) -> None:  # fmt: skip
        no_stride_unit(row, stride_unit)
        strides = (dst_blk_stride, src_blk_stride), (dst_rep_stride, src_rep_stride)
        self.elementwise(VECTOR_ROWS[row], mask, dst, (src,), repeat_times, *strides)

    def simple(self: Vector, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any,
               src_rep_stride: Any) -> None:  # fmt: skip
        self.elementwise(VECTOR_ROWS[row], mask, dst, (src,), repeat_times, (1, 1), (dst_rep_stride, src_rep_stride))

    return _twins(row, low_level, simple)


def _binary(row: str, reads_dst: bool = False) -> tuple[Call, Call]:
    def low_level(self: Vector, mask: Any, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any,
                  dst_blk_stride: Any, src0_blk_stride: Any, src1_blk_stride: Any, dst_rep_stride: Any,
                  src0_rep_stride: Any, src1_rep_stride: Any, stride_unit: int = 0) -> None:  # fmt: skip
        no_stride_unit(row, stride_unit)
        blocks = (dst_blk_stride, src0_blk_stride, src1_blk_stride)
        repeats = (dst_rep_stride, src0_rep_stride, src1_rep_stride)
        self.elementwise(VECTOR_ROWS[row], mask, dst, (src0, src1), repeat_times, blocks, repeats, (), reads_dst)

    def simple(self: Vector, mask: Any, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any,
               dst_rep_stride: Any, src0_rep_stride: Any, src1_rep_stride: Any) -> None:  # fmt: skip
        repeats = (dst_rep_stride, src0_rep_stride, src1_rep_stride)
        self.elementwise(VECTOR_ROWS[row], mask, dst, (src0, src1), repeat_times, (1, 1, 1), repeats, (), reads_dst)

    return _twins(row, low_level, simple)


def _scalar(row: str, reads_dst: bool = False) -> tuple[Call, Call]:
    def low_level(self: Vector, mask: Any, dst: Tensor, src: Tensor, scalar: Any, repeat_times: Any,
                  dst_blk_stride: Any, src_blk_stride: Any, dst_rep_stride: Any, src_rep_stride: Any,
                  stride_unit: int = 0, mask_mode: str = "normal") -> None:  # fmt: skip
        no_stride_unit(row, stride_unit)
        immediates = (self.operand_value(row, scalar, src.dtype),)
        strides = (dst_blk_stride, src_blk_stride), (dst_rep_stride, src_rep_stride)
        self.elementwise(VECTOR_ROWS[row], mask, dst, (src,), repeat_times, *strides, immediates, reads_dst, mask_mode)

    def simple(self: Vector, mask: Any, dst: Tensor, src: Tensor, scalar: Any, repeat_times: Any,
               dst_rep_stride: Any, src_rep_stride: Any, mask_mode: str = "normal") -> None:  # fmt: skip
        low_level(self, mask, dst, src, scalar, repeat_times, 1, 1, dst_rep_stride, src_rep_stride, mask_mode=mask_mode)

    return _twins(row, low_level, simple)


class Vector(Cube):
    """The vector unit's element-wise part."""

    def elementwise(
        self,
        row: Row,
        mask: Any,
        dst: Tensor,
        sources: tuple[Tensor, ...],
        repeat_times: Any,
        block_strides: tuple[Any, ...],
        repeat_strides: tuple[Any, ...],
        immediates: tuple[Any, ...] = (),
        reads_dst: bool = False,
        mask_mode: str = "normal",
    ) -> None:
        """Records an element-wise instruction; strides are given for dst first, then for each source."""
        operands = (dst, *sources)
        check(row, self.program.soc, *operands)
        steps = [
            (self.number("block stride", blocks, 0, 65535), self.number("repeat stride", repeats, 0, 65535))
            for blocks, repeats in zip(block_strides, repeat_strides)
        ]
        dtypes, dense = {tensor.dtype for tensor in operands}, all_one(block_strides)
        for turn in turns(self, mask, dtypes, repeat_times, mask_mode, dense):
            accesses = []
            for tensor, step in zip(operands, steps):
                self.aligned(tensor)
                accesses.append(turn.lanes.access(tensor, turn.repeat, *step, turn.skip))
            inputs = tuple(accesses[1:]) + ((accesses[0],) if reads_dst else ())
            self.emit_lanes(row, (accesses[0],), inputs, immediates, turn.lanes)

    def emit_lanes(
        self, row: Row, outputs: tuple[Access, ...], inputs: tuple[Access, ...], immediates: tuple[Any, ...],
        lanes: Lanes,
    ) -> None:  # fmt: skip
        """Records an instruction under the mask of its lanes."""
        self.emit(Instruction(row, outputs, inputs, immediates, self.where(), lanes.mask))

    vadd, vec_add = _binary("vadd")
    vsub, vec_sub = _binary("vsub")
    vmul, vec_mul = _binary("vmul")
    vdiv, vec_div = _binary("vdiv")
    vmax, vec_max = _binary("vmax")
    vmin, vec_min = _binary("vmin")
    vand, vec_and = _binary("vand")
    vor, vec_or = _binary("vor")
    vmla, vec_mla = _binary("vmla", reads_dst=True)
    vmadd, vec_madd = _binary("vmadd", reads_dst=True)
    vmaddrelu, vec_maddrelu = _binary("vmaddrelu", reads_dst=True)
    vadds, vec_adds = _scalar("vadds")
    vmuls, vec_muls = _scalar("vmuls")
    vaxpy, vec_axpy = _scalar("vaxpy", reads_dst=True)
    vnot, vec_not = _unary("vnot")
    vabs, vec_abs = _unary("vabs")
    vrelu, vec_relu = _unary("vrelu")
    vexp, vec_exp = _unary("vexp")
    vln, vec_ln = _unary("vln")
    vsqrt, vec_sqrt = _unary("vsqrt")
    vrec, vec_rec = _unary("vrec")
    vrsqrt, vec_rsqrt = _unary("vrsqrt")

    def vector_dup(
        self, mask: Any, dst: Tensor, scalar: Any, repeat_times: Any, dst_blk_stride: Any, dst_rep_stride: Any,
        stride_unit: int = 0, mask_mode: str = "normal",
    ) -> None:  # fmt: skip
        """Fills with one value."""
        no_stride_unit("vector_dup", stride_unit)
        value = self.operand_value("vector_dup", scalar, dst.dtype)
        strides = (dst_blk_stride,), (dst_rep_stride,)
        row = VECTOR_ROWS["vector_dup"]
        self.elementwise(row, mask, dst, (), repeat_times, *strides, (value,), mask_mode=mask_mode)

    def vec_dup(self, mask: Any, dst: Tensor, scalar: Any, repeat_times: Any, dst_rep_stride: Any) -> None:
        """Fills with one value."""
        self.vector_dup(mask, dst, scalar, repeat_times, 1, dst_rep_stride)

    def vmulconv(
        self, mask: Any, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any, dst_blk_stride: Any,
        src0_blk_stride: Any, src1_blk_stride: Any, dst_rep_stride: Any, src0_rep_stride: Any, src1_rep_stride: Any,
        stride_unit: int = 0,
    ) -> None:  # fmt: skip
        """src0 * src1 as bytes, rounded to nearest even."""
        no_stride_unit("vmulconv", stride_unit)
        blocks = (dst_blk_stride, src0_blk_stride, src1_blk_stride)
        repeats = (dst_rep_stride, src0_rep_stride, src1_rep_stride)
        row = VECTOR_ROWS["vmulconv"]
        self.elementwise(row, mask, dst, (src0, src1), repeat_times, blocks, repeats, (dst.dtype,))

    def vadddeqrelu(
        self, mask: Any, dst: Tensor, deqscale: Any, src0: Tensor, src1: Tensor, repeat_times: Any,
        dst_blk_stride: Any, src0_blk_stride: Any, src1_blk_stride: Any, dst_rep_stride: Any, src0_rep_stride: Any,
        src1_rep_stride: Any, stride_unit: int = 0,
    ) -> None:  # fmt: skip
        """(src0 + src1) * deqscale, negative results 0."""
        no_stride_unit("vadddeqrelu", stride_unit)
        blocks = (dst_blk_stride, src0_blk_stride, src1_blk_stride)
        repeats = (dst_rep_stride, src0_rep_stride, src1_rep_stride)
        scale = self.operand_value("vadddeqrelu", deqscale, "float16")
        row = VECTOR_ROWS["vadddeqrelu"]
        self.elementwise(row, mask, dst, (src0, src1), repeat_times, blocks, repeats, (scale,))
