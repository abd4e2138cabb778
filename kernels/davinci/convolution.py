"""Patches of an image as matrix fractals (tik_api.md 4.1 #28)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune.kernels.davinci.checks import check_types
from autotune.kernels.davinci.errors import NotEmulated, RangeError
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.moves import per_block
from autotune.kernels.davinci.rows_cube import IMAGE_LOAD_ROWS
from autotune.kernels.davinci.tensor import Tensor, row_major
from autotune.kernels.davinci.transposes import Transposes

LIMITS = {
    "l1_h": (1, 32767), "l1_w": (1, 32767), "c1_index": (0, 4095), "fetch_filter_w": (0, 255),
    "fetch_filter_h": (0, 255), "left_top_w": (-255, 32767), "left_top_h": (-255, 32767), "stride_w": (1, 63),
    "stride_h": (1, 63), "filter_w": (1, 255), "filter_h": (1, 255), "dilation_filter_w": (1, 255),
    "dilation_filter_h": (1, 255), "jump_offset": (1, 127), "repeat_mode": (0, 1), "repeat_time": (1, 255),
}  # fmt: skip
"""Smallest and largest value of load3dv1's arguments (public documentation of the Ascend C Load3Dv1)."""


class Images(Transposes):
    """load3dv1."""

    def load3dv1(
        self,
        dst: Tensor,
        src: Tensor,
        pad: Sequence[Any],
        l1_h: Any,
        l1_w: Any,
        c1_index: Any,
        fetch_filter_w: Any,
        fetch_filter_h: Any,
        left_top_w: Any,
        left_top_h: Any,
        stride_w: Any,
        stride_h: Any,
        filter_w: Any,
        filter_h: Any,
        dilation_filter_w: Any,
        dilation_filter_h: Any,
        jump_offset: Any,
        repeat_mode: Any,
        repeat_time: Any,
        _csize: int = 0,
        pad_value: Any = 0,
    ) -> None:
        """Loads fractals [16 filter positions, C0] of an image [C1, H, W, C0] in L1, 512 bytes a repeat.

        Positions count along the width from the one whose top left corner is left_top. Each repeat takes the next 16
        positions (repeat_mode 1) or the next filter point of the same ones (0). pad: left, right, top, bottom.
        """
        arguments = locals()
        row = self.route("load3dv1", IMAGE_LOAD_ROWS, src, dst)
        check_types(row, self.program.soc, (dst.dtype, src.dtype))
        if _csize:
            raise NotEmulated("load3dv1", "_csize: images of 4 channels")
        number = {name: self.number(name, arguments[name], *limits) for name, limits in LIMITS.items()}
        padding = self.padding("load3dv1", pad)
        self.aligned(dst)
        self.aligned(src)
        c0, repeats, mode = per_block(src), number["repeat_time"], number["repeat_mode"]
        if not isinstance(mode, int):
            raise RangeError("load3dv1: repeat_mode must be a Python int", self.where())
        point = number["fetch_filter_h"] * number["filter_w"] + number["fetch_filter_w"]
        channels = number["c1_index"] + 1
        if mode == 0:
            channels = channels + (point + repeats - 1) // (number["filter_w"] * number["filter_h"])
        image = (channels, number["l1_h"], number["l1_w"], c0)
        self.instruction(
            row,
            (dst.pattern((repeats, 16, c0), (number["jump_offset"] * 16 * c0, c0, 1)),),
            (src.pattern(image, row_major(image)),),
            (
                repeats, number["left_top_w"], number["left_top_h"], point, number["c1_index"], mode,
                self.operand_value("load3dv1", pad_value, src.dtype), number["l1_w"], number["l1_h"], *padding,
                *(number[name] for name in ("filter_w", "filter_h", "stride_w", "stride_h")),
                number["dilation_filter_w"], number["dilation_filter_h"],
            ),
        )  # fmt: skip

    def padding(self, api: str, pad: Sequence[Any]) -> tuple[Value, ...]:
        """Points around an image: left, right, top, bottom. Raises RangeError."""
        if len(pad) != 4:
            raise RangeError(f"{api}: pad is left, right, top, bottom, not {pad}", self.where())
        return tuple(self.number("pad", size, 0, 255) for size in pad)
