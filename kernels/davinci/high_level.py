"""The h_* calls: vector arithmetic on whole tensors (tik_api.md 1.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.davinci.errors import DataTypeError, ShapeError
from autotune.kernels.davinci.expr import FLOATS
from autotune.kernels.davinci.memory import SIZES, UB
from autotune.kernels.davinci.rows_vector import WHOLE_ROWS
from autotune.kernels.davinci.tensor import Scalar, Tensor
from autotune.kernels.davinci.vector import Vector

RESERVED_BYTES = 16 * 1024
"""UB bytes that BuildCCE wants free as soon as an h_* call was used (tik_api.md 1.12)."""


class HighLevel(Vector):
    """Element-wise calls over the shapes and strides of their operands."""

    uses_high_level = False

    def _whole(self, api: str, dst: Tensor, sources: tuple[Any, ...], immediates: tuple[Any, ...] = ()) -> None:
        self.uses_high_level = True
        tensors = [source for source in sources if isinstance(source, Tensor)]
        self.in_scope(api, (UB,), dst, *tensors)
        for tensor in tensors:
            self._same_shape(api, dst, tensor)
        self.instruction(WHOLE_ROWS[api], (dst.view(),), tuple(t.view() for t in tensors), immediates)

    def _same_shape(self, api: str, a: Tensor, b: Tensor) -> None:
        if a.shape == b.shape:
            return
        same = len(a.shape) == len(b.shape) and all(_zero(x - y) for x, y in zip(a.shape, b.shape))
        if not same:
            raise ShapeError(f"{api}: shapes differ: {a!r} and {b!r}", self.where())

    def _binary_whole(self, api: str, dst: Tensor, src0: Any, src1: Any) -> None:
        tensors = [source for source in (src0, src1) if isinstance(source, Tensor)]
        self.same_dtype(api, dst, *tensors)
        if len(tensors) == 2:
            self._whole(api, dst, (src0, src1))
            return
        if not tensors:
            raise DataTypeError(f"{api}: one operand must be a tensor", self.where())
        scalar = src1 if isinstance(src0, Tensor) else src0
        if dst.dtype in FLOATS and isinstance(scalar, int):
            raise DataTypeError(f"{api}: a {dst.dtype} tensor takes a float immediate, not {scalar!r}", self.where())
        if isinstance(scalar, Scalar) and scalar.dtype != dst.dtype:
            raise DataTypeError(f"{api}: a {scalar.dtype} Scalar with a {dst.dtype} tensor", self.where())
        if not isinstance(src0, Tensor) and api in ("h_sub", "h_div"):
            raise DataTypeError(f"{api}: the first operand must be a tensor", self.where())
        self._whole(api, dst, tuple(tensors), (self.operand_value(api, scalar, dst.dtype),))

    def h_cast(self, dst: Tensor, src: Tensor, round_mode: str) -> None:
        """Converts between types; round_mode as in tik_api.md 1.13."""
        self._whole("h_cast", dst, (src,), self.conversion("h_cast", round_mode, src, dst))

    h_conv = h_cast

    def h_duplicate(self, dst: Tensor, src: Any) -> None:
        """Fills with one value."""
        if isinstance(src, Scalar) and src.dtype != dst.dtype:
            raise DataTypeError(f"h_duplicate: a {src.dtype} Scalar into a {dst.dtype} tensor", self.where())
        self._whole("h_duplicate", dst, (), (self.operand_value("h_duplicate", src, dst.dtype),))

    def _reduce_whole(self, api: str, dst: Tensor | Scalar, src: Tensor, axis: Any = None) -> None:
        self.uses_high_level = True
        rank = len(src.shape)
        axes = (
            tuple(range(rank))
            if axis is None
            else tuple(a % rank for a in (axis if isinstance(axis, (list, tuple)) else (axis,)))
        )
        if isinstance(dst, Scalar):
            with self.new_stmt_scope():
                result = self.declare(src.dtype, (32 // SIZES[src.dtype],), UB, "reduced")
                self._reduce_into(api, result[0:1], src, axes, ())
                dst.set_as(result[0])
            return
        kept = tuple(size for index, size in enumerate(src.shape) if index not in axes)
        if kept != dst.shape and not (not kept and dst.shape == (1,)):
            raise ShapeError(f"{api}: {src!r} without axes {axes} has shape {kept}, not {dst.shape}", self.where())
        self._reduce_into(api, dst, src, axes, kept)

    def _reduce_into(self, api: str, dst: Tensor, src: Tensor, axes: tuple[int, ...], kept: tuple[Any, ...]) -> None:
        self.in_scope(api, (UB,), dst, src)
        self.same_dtype(api, dst, src)
        if api != "h_reduce_sum" and src.dtype != "float16":
            raise DataTypeError(f"{api} takes float16 on 910, not {src.dtype}", self.where())
        self.instruction(WHOLE_ROWS[api], (dst.view(),), (src.view(),), (axes,))

    def h_data_move(self, dst: Tensor, src: Tensor) -> None:
        """Copies contiguous whole blocks between UB and GM or inside UB."""
        blocks = src.size * SIZES[src.dtype] // 32
        self.data_move(dst, src, 0, 1, blocks, 0, 0)


def _zero(value: Any) -> bool:
    return isinstance(value, int) and value == 0


def _binary(api: str) -> Callable[..., None]:
    def call(self: HighLevel, dst: Tensor, src0: Any, src1: Any) -> None:
        self._binary_whole(api, dst, src0, src1)

    return call


def _unary(api: str) -> Callable[..., None]:
    def call(self: HighLevel, dst: Tensor, src: Tensor) -> None:
        self.same_dtype(api, dst, src)
        self._whole(api, dst, (src,))

    return call


def _reduction(api: str) -> Callable[..., None]:
    def call(self: HighLevel, dst: Tensor | Scalar, src: Tensor, axis: Any = None) -> None:
        self._reduce_whole(api, dst, src, axis)

    return call


for _family, _names in (
    (_binary, ("add", "sub", "mul", "div", "max", "min", "and", "or")),
    (_unary, ("abs", "relu", "exp", "ln", "sqrt", "rec", "rsqrt", "not")),
    (_reduction, ("reduce_max", "reduce_min", "reduce_sum")),
):
    for _name in _names:
        _call = _family(f"h_{_name}")
        _call.__name__, _call.__doc__ = f"h_{_name}", f"h_{_name}: see this module's docstring."
        setattr(HighLevel, _call.__name__, _call)
