"""Functions of Scalars, and arrays of them (tik_api.md 2.2 and 4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.kernels.davinci.compress import Compression
from autotune.kernels.davinci.errors import DataTypeError, RangeError
from autotune.kernels.davinci.expr import FLOATS, Expr, Symbolic, Value, applied, as_value
from autotune.kernels.davinci.memory import REG, Buffer
from autotune.kernels.davinci.program import Access, SetScalar
from autotune.kernels.davinci.rows_chips import C100
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.tensor import Scalar, Tensor, round_to

_WORD = (1 << 64) - 1
BIT_COUNTS: dict[str, Callable[[int], int]] = {
    "countbit0": lambda value: 64 - (value & _WORD).bit_count(),
    "countbit1": lambda value: (value & _WORD).bit_count(),
    "countleading0": lambda value: 64 - (value & _WORD).bit_length(),
}
"""Of a number's 64 bits."""

ROUNDINGS: dict[str, Callable[[float], float]] = {
    "round": lambda value: float(np.rint(value)),
    "floor": math.floor,
    "ceil": math.ceil,
    "ceiling": math.ceil,
    "to-zero": math.trunc,
}


def _up(value: float) -> float:
    return math.copysign(math.ceil(abs(value)), value)


def _half_away(value: float) -> float:
    return math.copysign(math.floor(abs(value) + 0.5), value)


def whole(dtype: str, rounding: Callable[[float], float]) -> Callable[[float], int]:
    """A float as a whole number of a type: NaN is 0, what is too large becomes the type's limit."""
    limits = np.iinfo(dtype)

    def convert(value: float) -> int:
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return int(limits.max if value > 0 else limits.min)
        return int(min(max(rounding(value), limits.min), limits.max))

    return convert


class ArrayElement(Symbolic):
    """One element of a ScalarArray: read where it is used, set by set_as."""

    __slots__ = ("_array", "_offset")

    def __init__(self, array: ScalarArray, offset: Value) -> None:
        self._array, self._offset = array, offset

    @property
    def dtype(self) -> str:
        """The array's type."""
        return self._array.dtype

    def access(self) -> Access:
        """The element as an operand."""
        return Access(self._array.buffer, self.dtype, self._offset, (1,), (1,))

    def expr(self) -> Expr:
        """The value here, in a fresh register."""
        recorder = self._array.recorder
        scalar = Scalar(recorder, self.dtype, f"{self._array.name}_element")
        recorder.temporaries.add(scalar.slot)
        recorder.emit(SetScalar(scalar.slot, self.dtype, self.access(), recorder.where()))
        return scalar.expr()

    def set_as(self, value: Any, src_offset: Any = None) -> None:
        """Takes a number, Scalar, Expr or tensor element."""
        recorder = self._array.recorder
        if isinstance(value, Tensor):
            value = (value if src_offset is None else value[src_offset]).loaded()
        taken = as_value(value)
        if not isinstance(taken, Expr):
            taken = round_to(self.dtype, taken)
        recorder.instruction(STORE_ELEMENT, (self.access(),), (), (taken,))


class ScalarArray:
    """Registers with an index, which may be symbolic."""

    __iter__ = None

    def __init__(self, recorder: ScalarFunctions, dtype: str, length: int, name: str) -> None:
        self.recorder, self.dtype, self.length, self.name = recorder, dtype, length, name
        self.buffer = Buffer(name, dtype, length, REG, recorder.where())
        self.buffer.reinterpreted = True

    def __getitem__(self, index: Any) -> ArrayElement:
        value = index.loaded() if isinstance(index, Tensor) else as_value(index)
        if not isinstance(value, Expr) and not 0 <= value < self.length:
            raise RangeError(f"{self.name}[{value}]: it has {self.length} elements")
        return ArrayElement(self, value)

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index].set_as(value)


class ScalarFunctions(Compression):
    """scalar_* and ScalarArray."""

    def ScalarArray(self, dtype: str = "int64", length: int = 1, name: str = "reg_buf", init_value: Any = None) -> Any:
        """An array of registers; init_value is one number for all of them, or a list."""
        array = ScalarArray(self, dtype, length, name)
        if init_value is not None:
            values = init_value if isinstance(init_value, (list, tuple)) else [init_value] * length
            for index, value in enumerate(values):
                array[index].set_as(value)
        return array

    def _set(self, api: str, dst: Scalar, function: Callable[..., Any], *sources: Any) -> None:
        if not isinstance(dst, (Scalar, ArrayElement)):
            raise DataTypeError(f"{api} writes a Scalar, not {dst!r}")
        value = applied(api, function, tuple(s.loaded() if isinstance(s, Tensor) else s for s in sources), dst.dtype)
        if isinstance(dst, ArrayElement):
            dst.set_as(value)
            return
        taken = value if isinstance(value, Expr) else round_to(dst.dtype, value)
        self.emit(SetScalar(dst.slot, dst.dtype, taken, self.where()))

    def scalar_max(self, dst: Scalar, src0: Any, src1: Any) -> None:
        """The larger of two."""
        self._set("scalar_max", dst, max, src0, src1)

    def scalar_min(self, dst: Scalar, src0: Any, src1: Any) -> None:
        """The smaller of two."""
        self._set("scalar_min", dst, min, src0, src1)

    def scalar_abs(self, dst: Scalar, src: Any) -> None:
        """The magnitude."""
        self._set("scalar_abs", dst, abs, src)

    def scalar_sqrt(self, dst: Scalar, src: Any) -> None:
        """The square root; of a negative number 0, as the chip has no NaN to give."""
        self._set("scalar_sqrt", dst, lambda value: math.sqrt(max(value, 0)), src)

    def scalar_countbit0(self, dst: Scalar, src: Any) -> None:
        """How many of the 64 bits are 0."""
        self._set("scalar_countbit0", dst, BIT_COUNTS["countbit0"], src)

    def scalar_countbit1(self, dst: Scalar, src: Any) -> None:
        """How many of the 64 bits are 1."""
        self._set("scalar_countbit1", dst, BIT_COUNTS["countbit1"], src)

    def scalar_countleading0(self, dst: Scalar, src: Any) -> None:
        """How many of the 64 bits are 0 above the highest 1."""
        self._set("scalar_countleading0", dst, BIT_COUNTS["countleading0"], src)

    def scalar_conv(self, round_mode: str, dst: Scalar, src: Any) -> None:
        """A number in another type; 'away-zero' rounds magnitudes up on the 910A, ties away elsewhere."""
        source = src.dtype if isinstance(src, (Scalar, ArrayElement, Tensor)) else as_value(src)
        floating = source in FLOATS if isinstance(source, str) else isinstance(source, float)
        if dst.dtype in FLOATS or not floating:
            self._set("scalar_conv", dst, lambda value: value, src)
            return
        away = _up if self.program.soc.arch == C100 else _half_away
        roundings = {**ROUNDINGS, "away-zero": away}
        if round_mode not in roundings:
            raise DataTypeError(f"scalar_conv to {dst.dtype} takes {', '.join(roundings)}, not {round_mode!r}")
        self._set("scalar_conv", dst, whole(dst.dtype, roundings[round_mode]), src)
