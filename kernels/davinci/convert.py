"""Conversions between types, and the functions of higher precision (tik_api.md 1.10 and 1.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.davinci.checks import check_types, no_stride_unit
from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, RangeError
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.lanes import Lanes
from autotune.kernels.davinci.memory import BLOCK, SIZES
from autotune.kernels.davinci.rows_chips import CONVERSIONS, M100
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.tensor import Tensor
from autotune.kernels.davinci.vector import Vector

_MODES = {"none": "", "ceiling": "ceil"}
"""Other spellings of rounding modes."""

WORK_TIMES = {"vrec_high_preci": (4, 2), "vrsqrt_high_preci": (5, 3)}
"""How many times the extent of the operands work_tensor must hold, for float16 and for float32 (tik_api.md 1.10 and
4.1); once more on the 310 for the reciprocal root. The others' needs are not published."""


def _high_precision(row: str) -> Callable[..., None]:
    def call(self: Conversions, mask: Any, dst: Tensor, src: Tensor, work_tensor: Tensor, repeat_times: Any,
             dst_rep_stride: Any, src_rep_stride: Any) -> None:  # fmt: skip
        self.high_precision(row, mask, dst, src, work_tensor, repeat_times, dst_rep_stride, src_rep_stride)

    call.__name__ = f"vec_{row[1:]}"
    call.__doc__ = f"{call.__name__}: the correctly rounded result. ``work_tensor`` is float32 scratch."
    return call


class Conversions(Vector):
    """vconv and its relatives."""

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
        """Converts between types; round_mode as in tik_api.md 1.13. ``deqscale`` multiplies int32 before float16."""
        no_stride_unit("vconv", stride_unit)
        if ldst_high_half:
            raise NotEmulated("vconv", "ldst_high_half")
        row, immediates = self.conversion("vconv", round_mode, dst, src, deqscale)
        strides = (dst_blk_stride, src_blk_stride), (dst_rep_stride, src_rep_stride)
        self.elementwise(row, mask, dst, (src,), repeat_times, *strides, immediates)

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
        """vconv with block strides of 1."""
        self.vconv(
            mask, round_mode, dst, src, repeat_times, 1, 1, dst_rep_stride, src_rep_stride, deqscale, ldst_high_half
        )

    def conversion(self, api: str, round_mode: str, dst: Tensor, src: Tensor, deqscale: Any = None) -> tuple[Row, Any]:
        """(row, immediates) of a conversion. Raises DataTypeError for a pair or a mode that the chip lacks."""
        row, soc = VECTOR_ROWS["vconv"], self.program.soc
        check_types(row, soc, (dst.dtype, src.dtype))
        modes = CONVERSIONS[soc.arch][src.dtype, dst.dtype]
        if not modes or deqscale is not None:
            if modes or deqscale is None:
                raise DataTypeError(f"{api}: a deqscale goes with int32 to float16, and only with it")
            return VECTOR_ROWS["vconv_deq"], (self.operand_value(api, deqscale, "float16"),)
        mode = _MODES.get(round_mode, round_mode)
        if mode == "round" and mode not in modes and "float" in dst.dtype:
            mode = ""  # to floating types, rounding to nearest even is what no mode means
        if mode not in modes:
            raise DataTypeError(
                f"{api} on {soc.name}: {src.dtype} to {dst.dtype} takes {' or '.join(map(repr, modes))} as round_mode, "
                f"not {round_mode!r}"
            )
        return row, (mode, dst.dtype)

    def high_precision(
        self, name: str, mask: Any, dst: Tensor, src: Tensor, work_tensor: Tensor, repeat_times: Any,
        dst_rep_stride: Any, src_rep_stride: Any,
    ) -> None:  # fmt: skip
        """Records one of the vec_*_high_preci calls. Raises RangeError where work_tensor is known to be too small."""
        steps = (dst_rep_stride, src_rep_stride)
        if name in WORK_TIMES:
            self._check_work(
                name, Lanes(self, mask, {src.dtype}, dense=True).active, src, work_tensor, repeat_times, src_rep_stride
            )
        self.elementwise(VECTOR_ROWS[name], mask, dst, (src,), repeat_times, (1, 1), steps)

    def _check_work(
        self, name: str, active: Value, src: Tensor, work_tensor: Tensor, repeat_times: Any, src_rep_stride: Any
    ) -> None:
        per_block = BLOCK // SIZES[src.dtype]
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        extent = (repeat - 1) * self.number("repeat stride", src_rep_stride, 0, 255) * per_block + active
        times = WORK_TIMES[name][src.dtype != "float16"]
        if name == "vrsqrt_high_preci" and self.program.soc.arch == M100:
            times += 1
        needed = (extent + per_block - 1) // per_block * per_block * times
        if isinstance(needed, int) and isinstance(work_tensor.size, int) and needed > work_tensor.size:
            raise RangeError(
                f"vec_{name[1:]}: work_tensor {work_tensor.name} has {work_tensor.size} elements, {needed} are needed"
            )

    vec_rec_high_preci = _high_precision("vrec_high_preci")
    vec_rsqrt_high_preci = _high_precision("vrsqrt_high_preci")
    vec_ln_high_preci = _high_precision("vln_high_preci")
    vec_expm1_high_preci = _high_precision("vexpm1_high_preci")
