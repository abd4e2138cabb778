"""Reductions inside blocks, inside repeats and over whole calls (tik_api.md 2.11 and 4.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.davinci.checks import check, no_stride_unit
from autotune.kernels.davinci.convert import Conversions
from autotune.kernels.davinci.errors import NotEmulated
from autotune.kernels.davinci.lanes import Lanes, all_one
from autotune.kernels.davinci.memory import BLOCK, SIZES
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.tensor import Tensor

Call = Callable[..., None]


def _per_block(row: str) -> Call:
    def call(self: Reductions, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any,
             src_blk_stride: Any, src_rep_stride: Any, stride_unit: int = 0) -> None:  # fmt: skip
        no_stride_unit(row, stride_unit)
        strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
        immediates = self.sum_rounding(src) if row == "vcgadd" else (src.dtype == "float16",)
        self.reduction(row, mask, dst, src, repeat_times, strides, 8, 1, immediates)

    call.__name__, call.__doc__ = row, f"{row}: one result a block; dst_rep_stride in 8 results."
    return call


def _extreme(row: str, counted: str) -> Call:
    def call(self: Reductions, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any,
             src_blk_stride: Any, src_rep_stride: Any, stride_unit: int = 0, index_low: bool = False,
             **counts: Any) -> None:  # fmt: skip
        no_stride_unit(row, stride_unit)
        if counts.get(counted) is not None or counts.keys() - {counted}:
            raise NotEmulated(row, ", ".join(counts))
        strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
        self.reduction(row, mask, dst, src, repeat_times, strides, 2, 2, (src.dtype == "float16", bool(index_low)))

    call.__name__ = row
    call.__doc__ = f"{row}: a value and the bits of its lane a repeat; dst_rep_stride in such pairs."
    return call


def _over_all(row: str) -> Call:
    def call(self: Reductions, mask: Any, dst: Tensor, src: Tensor, work_tensor: Tensor, repeat_times: Any,
             src_rep_stride: Any, cal_index: bool = False) -> None:  # fmt: skip
        step = self.number("src_rep_stride", src_rep_stride, 0, 65535) * (BLOCK // SIZES[src.dtype])
        immediates = (src.dtype == "float16", step if cal_index else None)
        self.over_all(row, mask, dst, src, work_tensor, repeat_times, src_rep_stride, 1 + bool(cal_index), immediates)

    call.__name__ = row
    call.__doc__ = f"{row}: dst[0] is the value; with cal_index the bits of dst[1] are its place in the source."
    return call


class Reductions(Conversions):
    """vc*, vcg* and vec_reduce_*."""

    def sum_rounding(self, src: Tensor) -> tuple[bool, bool]:
        """Whether sums are rounded to float16 on the way, and whether they saturate."""
        return src.dtype == "float16", self.program.soc.saturates

    def reduction(
        self, row: str, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, strides: tuple[Any, Any, Any],
        unit: int, results: int, immediates: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Records a reduction of each repeat.

        strides: of destination repeats in ``unit`` elements, of source blocks, of source repeats. results: elements
        that a block (vcg*, vcpadd) or a repeat gives.
        """
        check(VECTOR_ROWS[row], self.program.soc, dst, src)
        whole = row in ("vcadd", "vcmax", "vcmin")
        lanes = Lanes(self, mask, {src.dtype}, whole and all_one(strides[1:2]))
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        blocks = self.number("block stride", strides[1], 0, 65535)
        self.aligned(src)
        source = lanes.access(src, repeat, blocks, self.number("repeat stride", strides[2], 0, 65535))
        step = self.number("dst_rep_stride", strides[0], 0, 65535) * unit
        if whole:
            target = dst.pattern((repeat, results), (step, 1))
        else:
            target = dst.pattern((repeat, lanes.count // lanes.coarse, results), (step, results, 1))
        self.emit_lanes(VECTOR_ROWS[row], (target,), (source,), immediates, lanes)

    def vcadd(
        self, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any, src_blk_stride: Any,
        src_rep_stride: Any, stride_unit: int = 0,
    ) -> None:  # fmt: skip
        """One sum a repeat, by a tree of adjacent pairs; dst_rep_stride in elements."""
        no_stride_unit("vcadd", stride_unit)
        strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
        self.reduction("vcadd", mask, dst, src, repeat_times, strides, 1, 1, self.sum_rounding(src))

    def vcpadd(
        self, mask: Any, dst: Tensor, src: Tensor, repeat_times: Any, dst_rep_stride: Any, src_blk_stride: Any,
        src_rep_stride: Any, stride_unit: int = 0,
    ) -> None:  # fmt: skip
        """Sums of adjacent pairs; dst_rep_stride in 128 bytes."""
        no_stride_unit("vcpadd", stride_unit)
        half_block = BLOCK // SIZES[src.dtype] // 2
        strides = (dst_rep_stride, src_blk_stride, src_rep_stride)
        self.reduction("vcpadd", mask, dst, src, repeat_times, strides, 8 * half_block, half_block, ())

    def over_all(
        self, row: str, mask: Any, dst: Tensor, src: Tensor, work_tensor: Tensor, repeat_times: Any,
        src_rep_stride: Any, results: int, immediates: tuple[Any, ...],
    ) -> None:  # fmt: skip
        """Records a reduction of all repeats to dst[0], with its index to dst[1]. ``work_tensor`` is not written."""
        check(VECTOR_ROWS[row], self.program.soc, dst, src)
        lanes = Lanes(self, mask, {src.dtype}, dense=True)
        repeat = self.number("repeat_times", repeat_times, 1, 4095)
        self.aligned(src)
        source = lanes.access(src, repeat, 1, self.number("src_rep_stride", src_rep_stride, 0, 65535))
        target = dst.pattern((results,), (1,))
        self.emit_lanes(VECTOR_ROWS[row], (target,), (source,), immediates, lanes)

    def vec_reduce_add(
        self, mask: Any, dst: Tensor, src: Tensor, work_tensor: Tensor, repeat_times: Any, src_rep_stride: Any
    ) -> None:
        """dst[0] is the sum: a tree of adjacent pairs in each repeat, then one over the repeats."""
        self.over_all("vec_reduce_add", mask, dst, src, work_tensor, repeat_times, src_rep_stride, 1,
                      self.sum_rounding(src))  # fmt: skip

    vcgadd, vcgmax, vcgmin = _per_block("vcgadd"), _per_block("vcgmax"), _per_block("vcgmin")
    vcmax, vcmin = _extreme("vcmax", "max_cnt_index"), _extreme("vcmin", "min_cnt_index")
    vec_reduce_max, vec_reduce_min = _over_all("vec_reduce_max"), _over_all("vec_reduce_min")
