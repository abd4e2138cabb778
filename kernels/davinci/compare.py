"""Comparisons, the comparison mask register, and selections (tik_api.md 4.1).

A comparison gives one bit a lane, the first lane in the lowest bit: 128 bits a repeat of float16, 64 of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.davinci.checks import check, check_types
from autotune.kernels.davinci.errors import DataTypeError, RangeError, ScopeError
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.lanes import Lanes, all_one
from autotune.kernels.davinci.memory import REG, SIZES, UB, Buffer
from autotune.kernels.davinci.program import Access
from autotune.kernels.davinci.reduce import Reductions
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.tensor import Tensor

Call = Callable[..., None]
CMPMASK_BYTES = 16


class CmpMask:
    """The comparison mask register, as vcmp_* and mov_tensor_to_cmpmask give it. A core has one: each call overwrites
    it for every holder."""

    __slots__ = ("bits",)

    def __init__(self, bits: Tensor) -> None:
        self.bits = bits


def as_bytes(tensor: Tensor, shape: tuple[Value, ...], strides: tuple[Value, ...]) -> Access:
    """Bytes from a tensor's first element on; shape and strides in bytes."""
    tensor.pattern((1,), (1,))
    tensor.buffer.reinterpreted = True
    return Access(tensor.buffer, "uint8", tensor.offset * SIZES[tensor.dtype], shape, strides)


def _into_register(row: str) -> Callable[..., CmpMask]:
    def call(self: Comparisons, mask: Any, src0: Tensor, src1: Tensor, src0_stride: Any, src1_stride: Any) -> CmpMask:
        return self.compare_once(row, mask, src0, src1, (src0_stride, src1_stride))

    call.__name__, call.__doc__ = row, f"{row}: one repeat into the comparison mask; strides between blocks."
    return call


def _into_tensor(row: str) -> tuple[Call, Call]:
    def low_level(self: Comparisons, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any, src0_blk_stride: Any,
                  src1_blk_stride: Any, src0_rep_stride: Any, src1_rep_stride: Any) -> None:  # fmt: skip
        strides = (src0_blk_stride, src1_blk_stride), (src0_rep_stride, src1_rep_stride)
        self.compare_repeats(row, dst, src0, src1, repeat_times, *strides)

    def simple(self: Comparisons, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any, src0_rep_stride: Any,
               src1_rep_stride: Any) -> None:  # fmt: skip
        self.compare_repeats(row, dst, src0, src1, repeat_times, (1, 1), (src0_rep_stride, src1_rep_stride))

    low_level.__name__, simple.__name__ = row, f"vec_{row[1:]}"
    low_level.__doc__ = simple.__doc__ = f"{row}: bits of all repeats, one after the other."
    return low_level, simple


class Comparisons(Reductions):
    """vcmp_*, vcmpv_*, the mask register, vsel."""

    _cmpmask: CmpMask | None = None

    def _register(self) -> CmpMask:
        if self._cmpmask is None:
            buffer = Buffer("cmpmask", "uint8", CMPMASK_BYTES, REG, self.where())
            self._cmpmask = CmpMask(Tensor(self, buffer, "uint8", (CMPMASK_BYTES,)))
        return self._cmpmask

    def compare_once(self, row: str, mask: Any, src0: Tensor, src1: Tensor, strides: tuple[Any, Any]) -> CmpMask:
        """Records a comparison of one repeat into the mask register."""
        register = self._register()
        self.in_scope(row, (UB,), src0, src1)
        check_types(VECTOR_ROWS[row], self.program.soc, ("uint8", src0.dtype, src1.dtype))
        lanes = Lanes(self, mask, {src0.dtype}, all_one(strides))
        sources = []
        for tensor, stride in zip((src0, src1), strides):
            self.aligned(tensor)
            sources.append(lanes.access(tensor, 1, self.number("block stride", stride, 0, 65535), 0))
        target = register.bits.pattern((1, CMPMASK_BYTES), (CMPMASK_BYTES, 1))
        self.emit_lanes(VECTOR_ROWS[row], (target,), tuple(sources), (), lanes)
        return register

    def compare_repeats(
        self, row: str, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any, block_strides: tuple[Any, Any],
        repeat_strides: tuple[Any, Any],
    ) -> None:  # fmt: skip
        """Records a comparison of whole repeats into a tensor of bits."""
        check(VECTOR_ROWS[row], self.program.soc, dst, src0, src1)
        lanes = Lanes(self, None, {src0.dtype}, all_one(block_strides))
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        self.aligned(dst)
        sources = []
        for tensor, blocks, repeats in zip((src0, src1), block_strides, repeat_strides):
            self.aligned(tensor)
            steps = self.number("block stride", blocks, 0, 65535), self.number("repeat stride", repeats, 0, 65535)
            sources.append(lanes.access(tensor, repeat, *steps))
        size = lanes.most // 8
        self.emit_lanes(VECTOR_ROWS[row], (as_bytes(dst, (repeat, size), (size, 1)),), tuple(sources), (), lanes)

    def mov_tensor_to_cmpmask(self, src: Tensor) -> CmpMask:
        """The mask register takes the first 128 bits of a tensor."""
        register = self._register()
        self.in_scope("mov_tensor_to_cmpmask", (UB,), src)
        source = as_bytes(src, (1, CMPMASK_BYTES), (CMPMASK_BYTES, 1))
        target = register.bits.pattern((1, CMPMASK_BYTES), (CMPMASK_BYTES, 1))
        self.instruction(VECTOR_ROWS["mov_cmpmask"], (target,), (source,))
        return register

    def mov_cmpmask_to_tensor(self, dst: Tensor, src_cmpmask: CmpMask) -> None:
        """The first 128 bits of a tensor take the mask register."""
        self.in_scope("mov_cmpmask_to_tensor", (UB,), dst)
        target = as_bytes(dst, (1, CMPMASK_BYTES), (CMPMASK_BYTES, 1))
        source = src_cmpmask.bits.pattern((1, CMPMASK_BYTES), (CMPMASK_BYTES, 1))
        self.instruction(VECTOR_ROWS["mov_cmpmask"], (target,), (source,))

    def vsel(
        self, mask: Any, mode: int, dst: Tensor, sel: Tensor | CmpMask, src0: Tensor, src1: Any, repeat_times: Any,
        dst_blk_stride: Any, src0_blk_stride: Any, src1_blk_stride: Any, dst_rep_stride: Any = 0,
        src0_rep_stride: Any = 0, src1_rep_stride: Any = 0,
    ) -> None:  # fmt: skip
        """src0 where the lane's bit in ``sel`` is 1, else src1.

        mode 0: the same bits for every repeat. mode 1: src1 is a number; bits of all repeats one after the other.
        mode 2: such bits, src1 a tensor.
        """
        row, soc = VECTOR_ROWS["vsel"], self.program.soc
        if mode not in (0, 1, 2):
            raise RangeError(f"vsel: mode is {mode!r}; it must be 0, 1 or 2")
        if mode == 1 and isinstance(src1, Tensor) and src1.size != 1:
            raise DataTypeError("vsel: in mode 1 src1 is a number or a Scalar")
        tensors = [dst, src0] if mode == 1 else [dst, src0, src1]
        self.in_scope("vsel", (UB,), *tensors)
        bits_dtype = "uint8" if isinstance(sel, CmpMask) else sel.dtype
        check_types(row, soc, (dst.dtype, bits_dtype, src0.dtype, dst.dtype if mode == 1 else src1.dtype))
        lanes = Lanes(self, mask, {dst.dtype}, all_one((dst_blk_stride, src0_blk_stride, src1_blk_stride)))
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        blocks, repeats = (dst_blk_stride, src0_blk_stride, src1_blk_stride), (
            dst_rep_stride, src0_rep_stride, src1_rep_stride
        )  # fmt: skip
        accesses = []
        for tensor, block, step in zip(tensors, blocks, repeats):
            self.aligned(tensor)
            steps = self.number("block stride", block, 0, 65535), self.number("repeat stride", step, 0, 65535)
            accesses.append(lanes.access(tensor, repeat, *steps))
        chosen = self._selector(sel, lanes, repeat, 0 if mode == 0 else lanes.most // 8)
        scalar = (self.operand_value("vsel", src1, dst.dtype),) if mode == 1 else ()
        self.emit_lanes(row, (accesses[0],), (chosen, *accesses[1:]), scalar, lanes)

    def _selector(self, sel: Tensor | CmpMask, lanes: Lanes, repeat: Value, step: int) -> Access:
        shape, strides = (repeat, (lanes.count + 7) // 8), (step, 1)
        if isinstance(sel, CmpMask):
            return sel.bits.pattern(shape, (0, 1))
        if sel.scope != UB:
            raise ScopeError(f"vsel takes its bits in UB; {sel.name} lies in {sel.scope}")
        return as_bytes(sel, shape, strides)

    def vec_sel(
        self, mask: Any, mode: int, dst: Tensor, sel: Tensor | CmpMask, src0: Tensor, src1: Any, repeat_times: Any,
        dst_rep_stride: Any = 0, src0_rep_stride: Any = 0, src1_rep_stride: Any = 0,
    ) -> None:  # fmt: skip
        """vsel with block strides of 1."""
        steps = (dst_rep_stride, src0_rep_stride, src1_rep_stride)
        self.vsel(mask, mode, dst, sel, src0, src1, repeat_times, 1, 1, 1, *steps)

    vcmp_eq, vcmp_ne = _into_register("vcmp_eq"), _into_register("vcmp_ne")
    vcmp_lt, vcmp_le = _into_register("vcmp_lt"), _into_register("vcmp_le")
    vcmp_gt, vcmp_ge = _into_register("vcmp_gt"), _into_register("vcmp_ge")
    vcmpv_eq, vec_cmpv_eq = _into_tensor("vcmpv_eq")
    vcmpv_ne, vec_cmpv_ne = _into_tensor("vcmpv_ne")
    vcmpv_lt, vec_cmpv_lt = _into_tensor("vcmpv_lt")
    vcmpv_le, vec_cmpv_le = _into_tensor("vcmpv_le")
    vcmpv_gt, vec_cmpv_gt = _into_tensor("vcmpv_gt")
    vcmpv_ge, vec_cmpv_ge = _into_tensor("vcmpv_ge")
