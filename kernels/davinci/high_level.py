"""The h_* calls: vector arithmetic on whole tensors (tik_api.md 1.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.davinci.checks import check, check_types
from autotune.kernels.davinci.errors import DataTypeError, RangeError, ShapeError
from autotune.kernels.davinci.expr import FLOATS
from autotune.kernels.davinci.memory import SIZES, UB
from autotune.kernels.davinci.proposals import Proposals
from autotune.kernels.davinci.rows_vector import COMPARISONS, WHOLE_ROWS
from autotune.kernels.davinci.tensor import Scalar, Tensor

RESERVED_BYTES = 16 * 1024
"""UB bytes that BuildCCE wants free as soon as an h_* call was used (tik_api.md 1.12)."""


def _binary(api: str) -> Callable[..., None]:
    def call(self: HighLevel, dst: Tensor, src0: Any, src1: Any) -> None:
        self.binary_whole(api, dst, src0, src1)

    return _named(api, call)


def _unary(api: str) -> Callable[..., None]:
    def call(self: HighLevel, dst: Tensor, src: Tensor) -> None:
        self.whole(api, dst, (src,))

    return _named(api, call)


def _reduction(api: str) -> Callable[..., None]:
    def call(self: HighLevel, dst: Tensor | Scalar, src: Tensor, axis: Any = None) -> None:
        self.reduce_whole(api, dst, src, axis)

    return _named(api, call)


def _named(api: str, call: Callable[..., None]) -> Callable[..., None]:
    call.__name__, call.__doc__ = api, f"{api}: see this module's docstring."
    return call


class HighLevel(Proposals):
    """Element-wise calls over the shapes and strides of their operands."""

    uses_high_level = False

    def whole(self, api: str, dst: Tensor, sources: tuple[Tensor, ...], immediates: tuple[Any, ...] = ()) -> None:
        """Records an element-wise call on tensors of one shape."""
        self.uses_high_level = True
        row = WHOLE_ROWS[api]
        check(row, self.program.soc, dst, *sources)
        for tensor in sources:
            self._same_shape(api, dst, tensor)
        self.instruction(row, (dst.view(),), tuple([tensor.view() for tensor in sources]), immediates)

    def _same_shape(self, api: str, a: Tensor, b: Tensor) -> None:
        if a.shape == b.shape:
            return
        same = len(a.shape) == len(b.shape) and all(_zero(x - y) for x, y in zip(a.shape, b.shape))
        if not same:
            raise ShapeError(f"{api}: shapes differ: {a!r} and {b!r}")

    def binary_whole(self, api: str, dst: Tensor, src0: Any, src1: Any) -> None:
        """Records a call on two tensors, or on a tensor and a number."""
        tensors = [source for source in (src0, src1) if isinstance(source, Tensor)]
        if len(tensors) == 2:
            self.whole(api, dst, (src0, src1))
            return
        if not tensors:
            raise DataTypeError(f"{api}: one operand must be a tensor")
        scalar = src1 if isinstance(src0, Tensor) else src0
        self._matching_number(api, tensors[0], scalar)
        if not isinstance(src0, Tensor) and api in ("h_sub", "h_div"):
            raise DataTypeError(f"{api}: the first operand must be a tensor")
        row = WHOLE_ROWS[api]
        check_types(row, self.program.soc, (dst.dtype, tensors[0].dtype, tensors[0].dtype))
        self.in_scope(api, (UB,), dst, *tensors)
        self._same_shape(api, dst, tensors[0])
        self.uses_high_level = True
        number = self.operand_value(api, scalar, tensors[0].dtype)
        self.instruction(row, (dst.view(),), (tensors[0].view(),), (number,))

    def _matching_number(self, api: str, tensor: Tensor, number: Any) -> None:
        if tensor.dtype in FLOATS and isinstance(number, int):
            raise DataTypeError(f"{api}: a {tensor.dtype} tensor takes a float immediate, not {number!r}")
        if isinstance(number, Scalar) and number.dtype != tensor.dtype:
            raise DataTypeError(f"{api}: a {number.dtype} Scalar with a {tensor.dtype} tensor")

    def h_cast(self, dst: Tensor, src: Tensor, round_mode: str) -> None:
        """Converts between types; round_mode as in tik_api.md 1.13."""
        self.whole("h_cast", dst, (src,), self.conversion("h_cast", round_mode, dst, src)[1])

    h_conv = h_cast

    def h_quant(self, dst: Tensor, src: Tensor, deqscale: Any) -> None:
        """int32 times a scale as float16."""
        self.whole("h_quant", dst, (src,), (self.operand_value("h_quant", deqscale, "float16"),))

    def h_duplicate(self, dst: Tensor, src: Any) -> None:
        """Fills with one value."""
        if isinstance(src, Scalar) and src.dtype != dst.dtype:
            raise DataTypeError(f"h_duplicate: a {src.dtype} Scalar into a {dst.dtype} tensor")
        self.whole("h_duplicate", dst, (), (self.operand_value("h_duplicate", src, dst.dtype),))

    def h_cmpv(self, dst: Tensor, src0: Any, src1: Any, mode: str) -> None:
        """A bool tensor of comparisons; mode is LT, LE, GT, GE, EQ or NE."""
        if not isinstance(mode, str) or mode.lower() not in COMPARISONS:
            raise RangeError(f"h_cmpv: mode is {mode!r}; it must be {', '.join(COMPARISONS).upper()}")
        if not isinstance(src0, Tensor):
            raise DataTypeError("h_cmpv: the first operand must be a tensor")
        self.binary_whole(f"h_cmpv_{mode.lower()}", dst, src0, src1)

    def h_sel(self, dst: Tensor, src0: Any, src1: Any, mask_tensor: Tensor) -> None:
        """src0 where the bool tensor holds, else src1; either may be a number."""
        row, tensors = WHOLE_ROWS["h_sel"], [source for source in (src0, src1) if isinstance(source, Tensor)]
        numbers = [source for source in (src0, src1) if not isinstance(source, Tensor)]
        dtypes = [source.dtype if isinstance(source, Tensor) else dst.dtype for source in (src0, src1)]
        check_types(row, self.program.soc, (dst.dtype, *dtypes, mask_tensor.dtype))
        self.in_scope("h_sel", (UB,), dst, mask_tensor, *tensors)
        for tensor in (*tensors, mask_tensor):
            self._same_shape("h_sel", dst, tensor)
        for number in numbers:
            self._matching_number("h_sel", dst, number)
        self.uses_high_level = True
        values = [self.operand_value("h_sel", number, dst.dtype) for number in numbers]
        immediates = (*values, isinstance(src0, Tensor) or not tensors)
        inputs = (mask_tensor.view(), *(tensor.view() for tensor in tensors))
        self.instruction(row, (dst.view(),), inputs, immediates)

    def reduce_whole(self, api: str, dst: Tensor | Scalar, src: Tensor, axis: Any = None) -> None:
        """Records a reduction along axes; without axes, into a Scalar or a tensor of one element."""
        self.uses_high_level = True
        rank = len(src.shape)
        chosen = range(rank) if axis is None else axis if isinstance(axis, (list, tuple)) else (axis,)
        axes = tuple(number % rank for number in chosen)
        if isinstance(dst, Scalar):
            with self.new_stmt_scope():
                result = self.declare(_result_type(api, src), (32 // SIZES[_result_type(api, src)],), UB, "reduced")
                self._reduce_into(api, result[0:1], src, axes)
                dst.set_as(result[0])
            return
        kept = tuple(size for index, size in enumerate(src.shape) if index not in axes)
        if kept != dst.shape and not (not kept and dst.shape == (1,)):
            raise ShapeError(f"{api}: {src!r} without axes {axes} has shape {kept}, not {dst.shape}")
        self._reduce_into(api, dst, src, axes)

    def _reduce_into(self, api: str, dst: Tensor, src: Tensor, axes: tuple[int, ...]) -> None:
        check(WHOLE_ROWS[api], self.program.soc, dst, src)
        if "arg" in api and len(axes) not in (1, len(src.shape)):
            raise RangeError(f"{api} takes one axis or none, not {axes}")
        self.instruction(WHOLE_ROWS[api], (dst.view(),), (src.view(),), (axes,))

    def h_data_move(self, dst: Tensor, src: Tensor) -> None:
        """Copies contiguous whole blocks between UB and GM or inside UB."""
        blocks = src.size * SIZES[src.dtype] // 32
        self.data_move(dst, src, 0, 1, blocks, 0, 0)

    h_add, h_sub, h_mul, h_div = _binary("h_add"), _binary("h_sub"), _binary("h_mul"), _binary("h_div")
    h_max, h_min, h_and, h_or = _binary("h_max"), _binary("h_min"), _binary("h_and"), _binary("h_or")
    h_abs, h_relu, h_exp, h_ln = _unary("h_abs"), _unary("h_relu"), _unary("h_exp"), _unary("h_ln")
    h_sqrt, h_rec, h_rsqrt, h_not = _unary("h_sqrt"), _unary("h_rec"), _unary("h_rsqrt"), _unary("h_not")
    h_sin, h_cos = _unary("h_sin"), _unary("h_cos")
    h_reduce_max, h_reduce_min = _reduction("h_reduce_max"), _reduction("h_reduce_min")
    h_reduce_sum = _reduction("h_reduce_sum")
    h_reduce_argmax, h_reduce_argmin = _reduction("h_reduce_argmax"), _reduction("h_reduce_argmin")


def _result_type(api: str, src: Tensor) -> str:
    return "int32" if "arg" in api else src.dtype


def _zero(value: Any) -> bool:
    return isinstance(value, int) and value == 0
