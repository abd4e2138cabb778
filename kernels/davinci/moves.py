"""Moves between memories (tik_api.md 1.2, 1.3 and 1.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.kernels.davinci.checks import check_types
from autotune.kernels.davinci.control import Control
from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, RangeError, ScopeError
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.memory import BLOCK, GM, L0C, MEMORIES, SIZES, UB
from autotune.kernels.davinci.program import Access
from autotune.kernels.davinci.rows_moves import BROADCAST_ROW, CONVERTING_MOVE_ROWS, MOVE_ROWS, PADDING_ROWS
from autotune.kernels.davinci.tensor import Tensor

CUBE_FRACTAL = 256
"""Elements of a fractal in L0C: 512 bytes of 16-bit or 1024 bytes of 32-bit elements."""

CONVERSIONS = {
    1: ("float16", "float32"),
    2: ("float16", "float32"),
    4: ("float32", "float16"),
    5: ("float32", "float32"),
}
"""data_move's mode between L0C and UB to the types it converts, destination first; 0 is a plain copy.

The numbers are the chip's (CRMODE of its copy_matrix_cc_to_ubuf and copy_ubuf_to_matrix_cc): 2 and 5 apply relu.
"""

BLOCK_MODES = {"": (256, 256), "m": (256, 256), "v": (16, 256), "sc": (64, 64), "dp": (128, 128)}
"""tensor_mov's block_mode to the elements of a unit and the distance of two units in L0C (tik_api.md 1.3)."""


def title(scope: str) -> str:
    """What a memory is called in messages and in the chips' data."""
    return "GM" if scope == GM else MEMORIES[scope].title


def per_block(tensor: Tensor) -> int:
    """Elements of 32 bytes."""
    return BLOCK // SIZES[tensor.dtype]


def _bursts(tensor: Tensor, nburst: Value, elements: Value, gap: Value) -> Access:
    """nburst runs of ``elements``, with ``gap`` elements from the tail of one to the head of the next."""
    return tensor.pattern((nburst, elements), (elements + gap, 1))


class Moves(Control):
    """data_move and its relatives."""

    def route(self, api: str, rows: Mapping[tuple[str, str], Row], src: Tensor, dst: Tensor) -> Row:
        """The row of a move. Raises ScopeError where the call or the chip has no such route."""
        row = rows.get((src.scope, dst.scope))
        origin, goal = title(src.scope), title(dst.scope)
        if row is None:
            raise ScopeError(f"{api} has no route from {origin} ({src.name}) to {goal} ({dst.name})", self.where())
        soc = self.program.soc
        if (origin, goal) in soc.missing:
            raise ScopeError(f"{api}: {soc.name} has no path from {origin} to {goal}", self.where())
        return row

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
        """Copies nburst bursts; strides are gaps from tail to head. Between L0C and UB one more argument converts."""
        row = self.route("data_move", MOVE_ROWS, src, dst)
        mode, *rest = args or (0,)
        if any(rest) or any(argv.values()) or (mode and (L0C not in (src.scope, dst.scope) or mode not in CONVERSIONS)):
            raise NotEmulated("data_move", f"padding and conversion on the way: {args or argv}; see tensor_mov")
        if mode:
            self._converting_move(mode, dst, src, (nburst, burst, dst_stride, src_stride))
            return
        if dst.dtype != src.dtype and self.frames[-1].unreached:
            return
        count = self.number("nburst", nburst, 1, 4095)
        length = self.number("burst", burst, 1, 65535)
        src_gap = self.number("src_stride", src_stride, 0, 65535)
        dst_gap = self.number("dst_stride", dst_stride, 0, 65535)
        self.same_dtype("data_move", dst, src)
        self.aligned(dst)
        self.aligned(src)
        block = per_block(src)
        unit = CUBE_FRACTAL if L0C in (src.scope, dst.scope) else block
        self.instruction(
            row,
            (_bursts(dst, count, length * unit, dst_gap * (unit if dst.scope == L0C else block)),),
            (_bursts(src, count, length * unit, src_gap * (unit if src.scope == L0C else block)),),
        )

    def _converting_move(self, mode: int, dst: Tensor, src: Tensor, numbers: tuple[Any, Any, Any, Any]) -> None:
        if (dst.dtype, src.dtype) != CONVERSIONS[mode]:
            into, of = CONVERSIONS[mode]
            raise DataTypeError(f"data_move: mode {mode} turns {of} into {into}, not {src.dtype} into {dst.dtype}")
        self.tensor_mov(dst, src, "m", *numbers, relu=mode in (2, 5))

    def data_move_pad(
        self,
        dst: Tensor,
        src: Tensor,
        nburst: Any,
        burst: Any,
        dst_gap: Any,
        src_gap: Any,
        right_padding: Any = 0,
        left_padding: Any = 0,
        padding_value: Any = None,
    ) -> None:
        """Copies bursts of any number of bytes between GM and UB, where each begins a block; gaps in GM are in bytes.

        Paddings are elements, written beside a burst in UB only; their value is 0 unless it is given.
        """
        row = self.route("data_move_pad", PADDING_ROWS, src, dst)
        check_types(row, self.program.soc, (dst.dtype, src.dtype))
        size = SIZES[src.dtype]
        count, length = self.number("nburst", nburst, 1, 4095), self.number("burst", burst, 1, 65535)
        left, right = (self.number("padding", padding, 0, 32 // size) for padding in (left_padding, right_padding))
        if isinstance(length, int) and length % size:
            raise RangeError(f"data_move_pad: a burst of {length} bytes does not hold whole {src.dtype} elements")
        if dst.scope == GM and (left, right) != (0, 0):
            raise ScopeError("data_move_pad pads in UB only, not in GM", self.where())
        self.aligned(src)
        self.aligned(dst)
        gaps = {
            tensor: self.number(name, gap, 0, 65535)
            for name, tensor, gap in (("dst_gap", dst, dst_gap), ("src_gap", src, src_gap))
        }
        block, elements = BLOCK // size, length // size
        accesses = []
        for tensor, run in ((dst, left + elements + right), (src, elements)):
            blocks = (run + block - 1) // block
            step = elements + gaps[tensor] // size if tensor.scope == GM else (blocks + gaps[tensor]) * block
            accesses.append(tensor.pattern((count, run), (step, 1)))
        value = 0 if padding_value is None else self.operand_value("data_move_pad", padding_value, dst.dtype)
        self.instruction(row, (accesses[0],), (accesses[1],), (left, right, value))

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
        """Between L0C and UB with conversion on the way, elsewhere a data_move; dst_stride comes before src_stride."""
        if pad_mode or onthefly_mode:
            raise NotEmulated("tensor_mov", "pad_mode and onthefly_mode")
        if L0C not in (src.scope, dst.scope):
            self.data_move(dst, src, 0, nburst, burst_len, src_stride, dst_stride, deqscale, relu)
            return
        row = self.route("tensor_mov", CONVERTING_MOVE_ROWS, src, dst)
        if block_mode not in BLOCK_MODES:
            raise RangeError(f"tensor_mov: block_mode is {block_mode!r}; it must be one of {', '.join(BLOCK_MODES)}")
        scale = self.dequantised(row, dst, src, deqscale)
        unit, step = BLOCK_MODES[block_mode]
        count, length = self.number("nburst", nburst, 1, 4095), self.number("burst_len", burst_len, 1, 65535)
        gaps = [self.number("dst_stride", dst_stride, 0, 65535), self.number("src_stride", src_stride, 0, 65535)]
        accesses = []
        for tensor, gap in zip((dst, src), gaps):
            self.aligned(tensor)
            if tensor.scope == L0C and unit != step:
                accesses.append(tensor.pattern((count, length, unit), ((length + gap) * step, step, 1)))
            elif unit != step:
                block = gap * per_block(tensor)
                accesses.append(tensor.pattern((count, length, unit), (length * unit + block, unit, 1)))
            else:
                accesses.append(
                    _bursts(tensor, count, length * unit, gap * (unit if tensor.scope == L0C else per_block(tensor)))
                )
        self.instruction(row, (accesses[0],), (accesses[1],), (scale, bool(relu)))

    def dequantised(self, row: Row, dst: Tensor, src: Tensor, scale: Any) -> Value | None:
        """The scale of an int32 to float16 conversion, None for others. Raises DataTypeError where types do not fit."""
        check_types(row, self.program.soc, (dst.dtype, src.dtype))
        if (dst.dtype, src.dtype) != ("float16", "int32"):
            return None
        if scale is None:
            raise DataTypeError(f"{row.name}: int32 to float16 needs a scale (deqscale)", self.where())
        if isinstance(scale, Tensor):
            raise NotEmulated(row.name, "a vector of scales")
        return self.operand_value(row.name, scale, "float16")

    def broadcast_ub_to_l0c(
        self, dst: Tensor, src: Tensor, nburst: Any, burst_len: Any, src_gap: Any = 0, dst_gap: Any = 0
    ) -> None:
        """Each group of 16 elements becomes a 16 x 16 fractal whose rows all equal the group."""
        row = self.route("broadcast_ub_to_l0c", {(UB, L0C): BROADCAST_ROW}, src, dst)
        check_types(row, self.program.soc, (dst.dtype, src.dtype))
        count = self.number("nburst", nburst, 1, 255)
        groups = self.number("burst_len", burst_len, 1, 255)
        src_step = groups * 16 + self.number("src_gap", src_gap, 0, 255) * per_block(src)
        dst_step = (groups + self.number("dst_gap", dst_gap, 0, 255)) * CUBE_FRACTAL
        shape = (count, groups, 16, 16)
        self.instruction(
            row,
            (dst.pattern(shape, (dst_step, CUBE_FRACTAL, 16, 1)),),
            (src.pattern(shape, (src_step, 16, 0, 1)),),
        )
