"""Matrix products and fractal loads (tik_api.md 1.4 to 1.6)."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, ScopeError
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.memory import FRACTAL, L0A, L0B, L0C, L1, SIZES
from autotune.kernels.davinci.moves import Moves
from autotune.kernels.davinci.program import Access
from autotune.kernels.davinci.rows_cube import LOAD_ROWS, MATMUL_ROW, MMAD_ROW
from autotune.kernels.davinci.tensor import Tensor, row_major

PRODUCTS = {
    ("float16", "float16"): ("float32", "float16"),
    ("int8", "int8"): ("int32",),
    ("uint8", "uint8"): ("uint32", "int32"),
    ("uint8", "int8"): ("int32",),
}
"""Operand types to accumulator types of the 910 (tik_api.md 1.6)."""


def _tiles(length: Value, size: int = 16) -> Value:
    return (length + size - 1) // size


def _dense(tensor: Tensor, *shape: Value) -> Access:
    return tensor.pattern(shape, row_major(shape))


class Cube(Moves):
    """The cube unit and what feeds it."""

    def _k0(self, api: str, dst: Tensor, a: Tensor, b: Tensor) -> int:
        """Elements of a fractal along k. Raises DataTypeError."""
        if dst.dtype not in PRODUCTS.get((a.dtype, b.dtype), ()):
            raise DataTypeError(f"{api}: no product of {a.dtype} and {b.dtype} into {dst.dtype}", self.where())
        return 32 // SIZES[a.dtype]

    def matmul(
        self, dst: Tensor, a: Tensor, b: Tensor, m: Any, k: Any, n: Any, init_l1out: bool = True, bias: Any = None
    ) -> None:
        """dst [N1, M, 16] in L0C from a [K1, M, K0] and b [K1, N, K0] in L1; k is exact."""
        if bias is not None:
            raise NotEmulated("matmul", "bias")
        self.in_scope("matmul", (L0C,), dst)
        self.in_scope("matmul", (L1,), a, b)
        k0 = self._k0("matmul", dst, a, b)
        rows, depth, columns = (
            self.number(*args) for args in (("m", m, 1, 4096), ("k", k, 1, 32768), ("n", n, 1, 4096))
        )
        m1, k1, n1 = _tiles(rows), _tiles(depth, k0), _tiles(columns)
        for tensor in (dst, a, b):
            self.aligned(tensor)
        target = _dense(dst, n1, m1 * 16, 16)
        operands = (_dense(a, k1, m1 * 16, k0), _dense(b, k1, n1 * 16, k0))
        self._product(MATMUL_ROW, target, operands, bool(init_l1out), depth)

    def mmad(
        self,
        dst_fm: Tensor,
        src_fm: Tensor,
        src_filter: Tensor,
        matrix_m: Any,
        matrix_k: Any,
        matrix_n: Any,
        is_bias: Any,
        fm_offset: int = 0,
        en_weight_offset: bool = False,
        smask: Any = None,
        **options: Any,
    ) -> None:
        """L0C zN from L0A zZ and L0B nZ; is_bias adds to what L0C holds. The k tail is masked."""
        self.in_scope("mmad", (L0C,), dst_fm)
        self.in_scope("mmad", (L0A,), src_fm)
        self.in_scope("mmad", (L0B,), src_filter)
        k0 = self._k0("mmad", dst_fm, src_fm, src_filter)
        rows, depth, columns = (
            self.number(name, value, 0, 4095) for name, value in (("m", matrix_m), ("k", matrix_k), ("n", matrix_n))
        )
        m1, k1, n1 = _tiles(rows), _tiles(depth, k0), _tiles(columns)
        for tensor in (dst_fm, src_fm, src_filter):
            self.aligned(tensor)
        target = _dense(dst_fm, n1, m1 * 16, 16)
        operands = (_dense(src_fm, m1, k1, 16, k0), _dense(src_filter, k1, n1, 16, k0))
        self._product(MMAD_ROW, target, operands, not is_bias, depth)

    def _product(self, row: Row, target: Access, operands: tuple[Access, Access], fresh: bool, depth: Value) -> None:
        if fresh:
            self.instruction(row, (target,), operands, (None, depth))
        else:
            self.instruction(row, (target,), (*operands, target), (depth,))

    def load2dv1(
        self,
        dst: Tensor,
        src: Tensor,
        index: Any,
        repeat_times: Any,
        src_stride: Any,
        sid: Any,
        if_transpose: bool = False,
        addr_mode: Any = None,
    ) -> None:
        """Loads 512-byte fractals, one every src_stride fractals of the source, packed into the destination."""
        row = LOAD_ROWS.get((src.scope, dst.scope))
        if row is None:
            raise ScopeError(f"load2dv1 has no route from {src.scope} to {dst.scope}", self.where())
        size = SIZES[self.same_dtype("load2dv1", dst, src)]
        if if_transpose and (size != 2 or src.scope != L1):
            raise DataTypeError("load2dv1 transposes 16-bit fractals from L1 only", self.where())
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        stride = self.number("src_stride", src_stride, 0, 65535)
        elements = FRACTAL // size
        skip = self.number("index", index, 0, 65535) * elements
        self.aligned(dst)
        self.aligned(src)
        shape = (repeat, 16, elements // 16)
        inner = (1, 16) if if_transpose else (elements // 16, 1)
        self.instruction(
            row,
            (dst.pattern(shape, (elements, elements // 16, 1)),),
            (src.pattern(shape, (stride * elements, *inner), skip),),
        )
