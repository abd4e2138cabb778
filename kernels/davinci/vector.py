"""Vector instructions with explicit masks, repeats and strides (tik_api.md 2.11 and 4.1).

A repeat covers up to 8 blocks of 32 bytes. Element e of repeat r lies in block e // (elements a block) at
(r * repeat stride + block * block stride) * 32 bytes. ``vec_*`` calls have a block stride of 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.kernels.davinci.cube import Cube
from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, RangeError
from autotune.kernels.davinci.expr import Expr, Value, as_value
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.memory import BLOCK, REPEAT, SIZES, UB
from autotune.kernels.davinci.program import Access, Instruction
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.tensor import Tensor

Call = Callable[..., None]


class Lanes:
    """Which elements of a repeat are active, and how to address them for operands of different element sizes.

    count: lanes covered, in whole blocks of the narrowest element. coarse, fine: elements a block of the narrowest and
    of the widest type. mask: None where all covered lanes are active, else a bool array (or the symbolic mask).
    """

    def __init__(self, vector: Vector, mask: Any, dtypes: set[str]) -> None:
        self.coarse = BLOCK // min(SIZES[dtype] for dtype in dtypes)
        self.fine = BLOCK // max(SIZES[dtype] for dtype in dtypes)
        most = REPEAT // max(SIZES[dtype] for dtype in dtypes)
        self.active: Value
        self.mask: np.ndarray | Expr | None = None
        if isinstance(mask, (list, tuple)):
            self._by_bits(vector, mask, most)
            return
        self.active = vector.number("mask", mask, 1, most)
        self.count = (self.active + self.coarse - 1) // self.coarse * self.coarse
        if isinstance(self.active, Expr):
            self.mask = self.active
        elif self.active != self.count:
            self.mask = (np.arange(self.count) < self.active).reshape(self.shape()[1:])

    def _by_bits(self, vector: Vector, mask: Any, most: int) -> None:
        if len(mask) != 2 or any(isinstance(as_value(word), Expr) for word in mask):
            raise NotEmulated("vector mask", "a bit mask with symbolic words")
        bits = int(mask[0]) << 64 | int(mask[1])
        if bits == 0 or bits >> most:
            raise RangeError(f"the bit mask {mask} must set some of the first {most} lanes only", vector.where())
        self.active = bits.bit_length()
        self.count = -(-self.active // self.coarse) * self.coarse
        chosen = np.array([bits >> lane & 1 for lane in range(self.count)], dtype=bool)
        self.mask = None if chosen.all() else chosen.reshape(self.shape()[1:])

    def shape(self, repeat: Value = 1) -> tuple[Value, ...]:
        """(repeats, blocks, elements a block), with the block cut in parts where operand sizes differ."""
        blocks = self.count // self.coarse
        if self.coarse == self.fine:
            return (repeat, blocks, self.coarse)
        return (repeat, blocks, self.coarse // self.fine, self.fine)

    def access(self, tensor: Tensor, repeat: Value, block_stride: Value, repeat_stride: Value) -> Access:
        """The elements an operand contributes; strides in 32-byte blocks."""
        per_block = BLOCK // SIZES[tensor.dtype]
        step = repeat_stride * per_block
        if self.coarse == self.fine:
            return tensor.pattern(self.shape(repeat), (step, block_stride * per_block, 1))
        part = self.fine if per_block == self.coarse else block_stride * per_block
        strides = (step, block_stride * per_block * (self.coarse // per_block), part, 1)
        return tensor.pattern(self.shape(repeat), strides)


class Vector(Cube):
    """The vector unit."""

    def _vector(
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
    ) -> None:
        """Records an element-wise instruction; strides are given for dst first, then for each source."""
        operands = (dst, *sources)
        self.in_scope(row.name, (UB,), *operands)
        lanes = Lanes(self, mask, {tensor.dtype for tensor in operands})
        repeat = self.number("repeat_times", repeat_times, 0, 255)
        accesses = []
        for tensor, block_stride, repeat_stride in zip(operands, block_strides, repeat_strides):
            self.aligned(tensor)
            blocks = self.number("block stride", block_stride, 0, 65535)
            accesses.append(lanes.access(tensor, repeat, blocks, self.number("repeat stride", repeat_stride, 0, 65535)))
        inputs = tuple(accesses[1:]) + ((accesses[0],) if reads_dst else ())
        self._emit_vector(row, accesses[0], inputs, immediates, lanes)

    def _emit_vector(
        self, row: Row, output: Access, inputs: tuple[Access, ...], immediates: tuple[Any, ...], lanes: Lanes
    ) -> None:
        self.emit(Instruction(row, (output,), inputs, immediates, self.where(), lanes.mask))

    def vec_conv(
        self,
        mask: Any,
        round_mode: str,
        dst: Tensor,
        src: Tensor,
        repeat_times: Any,
        dst_rep_stride: Any,
        src_rep_stride: Any,
        deqscale: Any = None,
        ldst_high_half: bool = False,
    ) -> None:
        """Converts between types; round_mode as in tik_api.md 1.13."""
        self.vconv(
            mask, round_mode, dst, src, repeat_times, 1, 1, dst_rep_stride, src_rep_stride, deqscale, ldst_high_half
        )

    def vconv(
        self,
        mask: Any,
        round_mode: str,
        dst: Tensor,
        src: Tensor,
        repeat_times: Any,
        dst_blk_stride: Any,
        src_blk_stride: Any,
        dst_rep_stride: Any,
        src_rep_stride: Any,
        deqscale: Any = None,
        ldst_high_half: bool = False,
        stride_unit: int = 0,
    ) -> None:
        """Converts between types; round_mode as in tik_api.md 1.13."""
        if deqscale is not None or ldst_high_half or stride_unit:
            raise NotEmulated("vconv", "deqscale, ldst_high_half and stride_unit")
        self._vector(
            VECTOR_ROWS["vconv"], mask, dst, (src,), repeat_times, (dst_blk_stride, src_blk_stride),
            (dst_rep_stride, src_rep_stride), self.conversion("vconv", round_mode, src, dst),
        )  # fmt: skip

    def conversion(self, api: str, round_mode: str, src: Tensor, dst: Tensor) -> tuple[str, bool]:
        """(rounding, whether it is to whole numbers). Raises DataTypeError for a mode that the pair does not take."""
        to_whole = "float" in src.dtype and "float" not in dst.dtype
        from autotune.kernels.davinci.semantics import ROUNDINGS

        if to_whole and round_mode not in ROUNDINGS:
            raise DataTypeError(f"{api}: {src.dtype} to {dst.dtype} needs one of {', '.join(ROUNDINGS)}", self.where())
        if not to_whole and round_mode not in ("", "none", "round"):
            raise NotEmulated(api, f"{src.dtype} to {dst.dtype} with rounding {round_mode!r}")
        return round_mode, to_whole

    def vector_dup(
        self, mask: Any, dst: Tensor, scalar: Any, repeat_times: Any, dst_blk_stride: Any, dst_rep_stride: Any,
        stride_unit: int = 0, mask_mode: str = "normal",
    ) -> None:  # fmt: skip
        """Fills with one value."""
        value = self.operand_value("vector_dup", scalar, dst.dtype)
        strides = (dst_blk_stride,), (dst_rep_stride,)
        self._vector(VECTOR_ROWS["vector_dup"], mask, dst, (), repeat_times, *strides, (value,))

    def vec_dup(self, mask: Any, dst: Tensor, scalar: Any, repeat_times: Any, dst_rep_stride: Any) -> None:
        """Fills with one value."""
        self.vector_dup(mask, dst, scalar, repeat_times, 1, dst_rep_stride)

    def vec_rec_high_preci(
        self,
        mask: Any,
        dst: Tensor,
        src: Tensor,
        work_tensor: Tensor,
        repeat_times: Any,
        dst_rep_stride: Any,
        src_rep_stride: Any,
    ) -> None:
        """1 / src, correctly rounded. ``work_tensor`` is float32 scratch: 4 times (fp16) or 2 times (fp32) the extent."""
        self.same_dtype("vec_rec_high_preci", dst, src)
        lanes = Lanes(self, mask, {dst.dtype})
        repeat = self.number("repeat_times", repeat_times, 0, 255)
        per_block = BLOCK // SIZES[dst.dtype]
        steps = [self.number("repeat stride", stride, 0, 255) for stride in (dst_rep_stride, src_rep_stride)]
        extent = (repeat - 1) * steps[1] * per_block + lanes.active
        needed = (extent + per_block - 1) // per_block * per_block * (4 if dst.dtype == "float16" else 2)
        if isinstance(needed, int) and isinstance(work_tensor.size, int) and needed > work_tensor.size:
            raise RangeError(
                f"vec_rec_high_preci: work_tensor has {work_tensor.size} elements, {needed} are needed", self.where()
            )
        self._vector(VECTOR_ROWS["vrec_high_preci"], mask, dst, (src,), repeat_times, (1, 1), tuple(steps))

    def _reduce(self, row: str, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, results: int, step: Value,
                src_blk_stride: Any, src_rep_stride: Any) -> None:  # fmt: skip
        """Records a reduction inside blocks (results a block) or repeats (results = 1)."""
        self.in_scope(row, (UB,), dst, src)
        self.same_dtype(row, dst, src)
        lanes = Lanes(self, mask, {src.dtype})
        repeat = self.number("repeat_times", repeat_times, 0, 255)
        source = lanes.access(src, repeat, self.number("block stride", src_blk_stride, 0, 65535),
                              self.number("repeat stride", src_rep_stride, 0, 65535))  # fmt: skip
        if VECTOR_ROWS[row].reduces:
            target = dst.pattern((repeat, 1), (step, 1))
        else:
            if lanes.mask is not None:
                raise NotEmulated(row, "a mask that does not cover whole blocks")
            target = dst.pattern((repeat, lanes.count // lanes.coarse, results), (step, results, 1))
        self._emit_vector(VECTOR_ROWS[row], target, (source,), (), lanes)

    def vcadd(self, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any, src_blk_stride: Any,
              src_rep_stride: Any, stride_unit: int = 0) -> None:  # fmt: skip
        """One sum a repeat; dst_rep_stride in elements."""
        self._reduce("vcadd", mask, dst, src, repeat_times, 1, self.number("dst_rep_stride", dst_rep_stride, 0, 65535),
                     src_blk_stride, src_rep_stride)  # fmt: skip

    def vcpadd(self, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any, src_blk_stride: Any,
               src_rep_stride: Any, stride_unit: int = 0) -> None:  # fmt: skip
        """Sums of adjacent pairs; dst_rep_stride in 128 bytes."""
        half = BLOCK // SIZES[src.dtype] // 2
        step = self.number("dst_rep_stride", dst_rep_stride, 0, 65535) * (8 * half)
        self._reduce("vcpadd", mask, dst, src, repeat_times, half, step, src_blk_stride, src_rep_stride)


def _grouped(row: str) -> Call:
    def call(self: Vector, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any,
             src_blk_stride: Any, src_rep_stride: Any, stride_unit: int = 0) -> None:  # fmt: skip
        step = self.number("dst_rep_stride", dst_rep_stride, 0, 65535) * 8
        self._reduce(row, mask, dst, src, repeat_times, 1, step, src_blk_stride, src_rep_stride)

    call.__doc__ = f"{row}: one result a block; dst_rep_stride in 8 results."
    return call


def _unary(row: str) -> tuple[Call, Call]:
    def low_level(self: Vector, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_blk_stride: Any,
                  src_blk_stride: Any, dst_rep_stride: Any, src_rep_stride: Any, stride_unit: int = 0) -> None:  # fmt: skip
        self.same_dtype(row, dst, src)
        strides = (dst_blk_stride, src_blk_stride), (dst_rep_stride, src_rep_stride)
        self._vector(VECTOR_ROWS[row], mask, dst, (src,), repeat_times, *strides)

    def simple(self: Vector, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any,
               src_rep_stride: Any) -> None:  # fmt: skip
        low_level(self, mask, dst, src, repeat_times, 1, 1, dst_rep_stride, src_rep_stride)

    return low_level, simple


def _binary(row: str, reads_dst: bool = False) -> tuple[Call, Call]:
    def low_level(self: Vector, mask: Any, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any,
                  dst_blk_stride: Any, src0_blk_stride: Any, src1_blk_stride: Any, dst_rep_stride: Any,
                  src0_rep_stride: Any, src1_rep_stride: Any, stride_unit: int = 0) -> None:  # fmt: skip
        self.same_dtype(row, dst, src0, src1)
        blocks = (dst_blk_stride, src0_blk_stride, src1_blk_stride)
        repeats = (dst_rep_stride, src0_rep_stride, src1_rep_stride)
        self._vector(VECTOR_ROWS[row], mask, dst, (src0, src1), repeat_times, blocks, repeats, (), reads_dst)

    def simple(self: Vector, mask: Any, dst: Tensor, src0: Tensor, src1: Tensor, repeat_times: Any,
               dst_rep_stride: Any, src0_rep_stride: Any, src1_rep_stride: Any) -> None:  # fmt: skip
        low_level(self, mask, dst, src0, src1, repeat_times, 1, 1, 1, dst_rep_stride, src0_rep_stride, src1_rep_stride)

    return low_level, simple


def _scalar(row: str, reads_dst: bool = False) -> tuple[Call, Call]:
    def low_level(self: Vector, mask: Any, dst: Tensor, src: Tensor, scalar: Any, repeat_times: Any,
                  dst_blk_stride: Any, src_blk_stride: Any, dst_rep_stride: Any, src_rep_stride: Any,
                  stride_unit: int = 0, mask_mode: str = "normal") -> None:  # fmt: skip
        self.same_dtype(row, dst, src)
        value = self.operand_value(row, scalar, dst.dtype)
        strides = (dst_blk_stride, src_blk_stride), (dst_rep_stride, src_rep_stride)
        self._vector(VECTOR_ROWS[row], mask, dst, (src,), repeat_times, *strides, (value,), reads_dst)

    def simple(self: Vector, mask: Any, dst: Tensor, src: Tensor, scalar: Any, repeat_times: Any,
               dst_rep_stride: Any, src_rep_stride: Any, mask_mode: str = "normal") -> None:  # fmt: skip
        low_level(self, mask, dst, src, scalar, repeat_times, 1, 1, dst_rep_stride, src_rep_stride)

    return low_level, simple


_FAMILIES: tuple[tuple[Callable[..., tuple[Call, Call]], tuple[str, ...]], ...] = (
    (_unary, ("exp", "ln", "abs", "relu", "sqrt", "rsqrt", "rec", "not")),
    (_binary, ("add", "sub", "mul", "div", "max", "min", "and", "or")),
    (_scalar, ("adds", "muls")),
)
for _family, _names in _FAMILIES:
    for _name in _names:
        for _prefix, _call in zip(("v", "vec_"), _family(f"v{_name}")):
            _call.__name__, _call.__doc__ = f"{_prefix}{_name}", f"{_prefix}{_name}: see this module's docstring."
            setattr(Vector, f"{_prefix}{_name}", _call)
for _name in ("vmla",):
    for _prefix, _call in zip(("v", "vec_"), _binary(_name, reads_dst=True)):
        setattr(Vector, f"{_prefix}{_name[1:]}", _call)
for _prefix, _call in zip(("v", "vec_"), _scalar("vaxpy", reads_dst=True)):
    setattr(Vector, f"{_prefix}axpy", _call)
for _name in ("vcgadd", "vcgmax", "vcgmin"):
    setattr(Vector, _name, _grouped(_name))
