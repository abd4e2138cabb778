"""Tensors and Scalars as a kernel's Python sees them: views of buffers, and registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.kernels.davinci.errors import DataTypeError, ScopeError, ShapeError
from autotune.kernels.davinci.expr import (
    FLOATS,
    Expr,
    Symbolic,
    Value,
    as_value,
    condition,
    describe,
    describe_shape,
    is_float,
)
from autotune.kernels.davinci.memory import SIZES, Buffer
from autotune.kernels.davinci.program import Access, SetScalar

if TYPE_CHECKING:
    from autotune.kernels.davinci.recorder import Recorder


def product(sizes: tuple[Value, ...]) -> Value:
    """The number of elements of a shape; symbolic where a size is."""
    total: Value = 1
    for size in sizes:
        total = total * size
    return total


def row_major(shape: tuple[Value, ...]) -> tuple[Value, ...]:
    """Strides in elements of a contiguous tensor of this shape."""
    strides: list[Value] = []
    step: Value = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def round_to(dtype: str, value: float) -> int | float:
    """An immediate as a register or element of that type holds it; whole numbers wrap around."""
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return float(np.float16(value))
    if dtype in FLOATS:
        return float(np.float32(value))
    if dtype == "bool":
        return bool(value)
    bits = 8 * SIZES[dtype]
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if dtype.startswith("int") and wrapped >> (bits - 1) else wrapped


_WHOLE_AXIS = slice(None)


class Tensor:
    """A view of a buffer: ``shape`` and ``strides`` in elements of ``dtype``, first element ``offset``.

    multiple: what a symbolic offset must be a multiple of, for the instructions that take this as their start.
    """

    __slots__ = ("_offset", "_recorder", "_shape", "_strides", "buffer", "dtype", "multiple")
    __iter__ = None  # Python's fall-back iteration over __getitem__ would never end.
    __hash__ = object.__hash__

    def __init__(
        self,
        recorder: Recorder,
        buffer: Buffer,
        dtype: str,
        shape: tuple[Value, ...],
        offset: Value = 0,
        strides: tuple[Value, ...] | None = None,
    ) -> None:
        self._recorder, self.buffer, self.dtype = recorder, buffer, dtype
        self._shape, self._offset, self._strides = shape, offset, strides
        self.multiple = 1

    @property
    def shape(self) -> tuple[Value, ...]:
        """Sizes; ints wherever they are constant."""
        return self._shape

    @property
    def scope(self) -> str:
        """The memory it lies in."""
        return self.buffer.scope

    @property
    def name(self) -> str:
        """The name it was declared with."""
        return self.buffer.name

    @property
    def offset(self) -> Value:
        """First element, counted from the start of the buffer."""
        return self._offset

    @property
    def size(self) -> Value:
        """Number of elements of this view."""
        return product(self._shape)

    def __repr__(self) -> str:
        return f"{self.name}{describe_shape(self._shape)} {self.dtype} in {self.scope}"

    def strides(self) -> tuple[Value, ...]:
        """Strides in elements."""
        return row_major(self._shape) if self._strides is None else self._strides

    def contiguous(self) -> bool:
        """Whether its elements lie one after the other."""
        if self._strides is None:
            return True
        pairs = zip(self._shape, self._strides, row_major(self._shape))
        return all((isinstance(size, int) and size == 1) or _same(stride, dense) for size, stride, dense in pairs)

    def view(self) -> Access:
        """All elements of this view, as its shape and strides say."""
        self._alive()
        return Access(self.buffer, self.dtype, self._offset, self._shape, self.strides())

    def pattern(self, shape: tuple[Value, ...], strides: tuple[Value, ...], skip: Value = 0) -> Access:
        """Elements by an instruction's own shape and strides, from this view's first element on."""
        self._alive()
        offset = self._offset if isinstance(skip, int) and skip == 0 else self._offset + skip
        return Access(self.buffer, self.dtype, offset, shape, strides, self.multiple)

    def _alive(self) -> None:
        if not self.buffer.alive:
            line = self.buffer.where[1]
            raise ScopeError(f"tensor {self.name}, declared in line {line}, is used after its block was closed")
        self.buffer.used = True

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, tuple):
            return self._subtensor(key)
        if type(key) is int and key >= 0 and self._strides is None:
            return Tensor(self._recorder, self.buffer, self.dtype, (1,), self._offset + key)
        if not self.contiguous():
            raise ShapeError(f"{self.name}: one index on a strided view: give one for each of {len(self._shape)} axes")
        start, extent, step = self._bounds(key, self.size)
        return Tensor(
            self._recorder, self.buffer, self.dtype, (extent,), self._offset + start, None if step == 1 else (step,)
        )

    def _subtensor(self, key: tuple[Any, ...]) -> Tensor:
        if len(key) != len(self._shape):
            raise ShapeError(f"{self.name} has {len(self._shape)} axes, the index has {len(key)}")
        offset, shape, strides = self._offset, [], []
        for index, size, stride in zip(key, self._shape, self.strides()):
            if type(index) is int and index >= 0 and (type(size) is not int or index < size):
                start, extent, step = index, 1, 1
            elif type(index) is slice and index == _WHOLE_AXIS:
                start, extent, step = 0, size, 1
            else:
                start, extent, step = self._bounds(index, size)
            offset = offset + start * stride
            shape.append(extent)
            strides.append(stride * step)
        return Tensor(self._recorder, self.buffer, self.dtype, tuple(shape), offset, tuple(strides))

    def _bounds(self, index: Any, size: Value) -> tuple[Value, Value, int]:
        """(start, extent, step) of an index or slice on an axis. Raises ShapeError where it cannot be."""
        if not isinstance(index, slice):
            start = self._index(index)
            if isinstance(start, int) and start < 0:
                start = start + size
            if isinstance(start, int) and isinstance(size, int) and not 0 <= start < size:
                raise ShapeError(f"{self.name}: index {describe(index)} of an axis of {size}")
            return start, 1, 1
        step = 1 if index.step is None else index.step
        if not isinstance(step, int) or step < 1:
            raise ShapeError(f"{self.name}: the step of a slice is {step!r}; it must be a positive int")
        start = 0 if index.start is None else self._index(index.start)
        stop = size if index.stop is None else self._index(index.stop)
        if isinstance(start, int) and start < 0:
            start = start + size
        if isinstance(stop, int) and stop < 0:
            stop = stop + size
        if isinstance(stop, int) and isinstance(size, int) and stop > size:
            raise ShapeError(f"{self.name}: a slice stops at {stop}, the axis has {size}")
        extent = stop - start
        if isinstance(extent, int):
            if extent <= 0:
                raise ShapeError(f"{self.name}: the slice {start}:{stop} is empty")
            extent = -(-extent // step)
        elif step != 1:
            extent = (extent + step - 1) // step
        return start, extent, step

    def _index(self, index: Any) -> Value:
        if isinstance(index, Tensor):
            return index.loaded()
        if isinstance(index, float) and index.is_integer():
            return int(index)
        value = as_value(index)
        if is_float(value):
            raise ShapeError(f"{self.name}: an index is {describe(value)}; it must be whole")
        return int(value) if isinstance(value, bool) else value

    def reshape(self, new_shape: Any) -> Tensor:
        """The same elements in another shape; shares the buffer."""
        shape = self._recorder.shape(new_shape)
        if not self.contiguous():
            raise ShapeError(f"{self.name}: a strided view cannot be reshaped")
        if not _same(product(shape), self.size):
            raise ShapeError(f"{self.name}: {describe(self.size)} elements do not make {describe_shape(shape)}")
        return Tensor(self._recorder, self.buffer, self.dtype, shape, self._offset)

    def flatten(self) -> Tensor:
        """The same elements on one axis."""
        return self.reshape((self.size,))

    def reinterpret_cast_to(self, dtype: str) -> Tensor:
        """The same bytes as elements of another type: the last axis shrinks or grows with the size of the type."""
        old, new = SIZES[self.dtype], SIZES[dtype]
        if not self.contiguous():
            raise ShapeError(f"{self.name}: a strided view cannot be seen as {dtype}")
        last = self._shape[-1] * old
        if isinstance(last, int) and last % new:
            raise ShapeError(f"{self.name}: a last axis of {last} bytes does not hold whole {dtype} elements")
        self.buffer.reinterpreted |= dtype != self.dtype
        return Tensor(self._recorder, self.buffer, dtype, (*self._shape[:-1], last // new), self._offset * old // new)

    def loaded(self) -> Expr:
        """The first element in a fresh register, read at this point of the program."""
        scalar = Scalar(self._recorder, self.dtype, f"{self.name}_element")
        self._recorder.temporaries.add(scalar.slot)
        scalar.set_as(self)
        return scalar.expr()

    def set_as(self, value: Any, src_offset: Any = None) -> None:
        """Stores one number in the first element of this view; ``src_offset`` picks an element of a Tensor."""
        chosen = value if src_offset is None or not isinstance(value, Tensor) else value[src_offset]
        self._recorder.store_element(self, chosen)

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].set_as(value)

    def __lt__(self, other: Any) -> Value:
        return condition("<", self.loaded(), _loaded(other))

    def __le__(self, other: Any) -> Value:
        return condition("<=", self.loaded(), _loaded(other))

    def __gt__(self, other: Any) -> Value:
        return condition(">", self.loaded(), _loaded(other))

    def __ge__(self, other: Any) -> Value:
        return condition(">=", self.loaded(), _loaded(other))

    def __eq__(self, other: object) -> Any:
        return False if other is None else condition("==", self.loaded(), _loaded(other))

    def __ne__(self, other: object) -> Any:
        return True if other is None else condition("!=", self.loaded(), _loaded(other))


def _loaded(value: Any) -> Any:
    return value.loaded() if isinstance(value, Tensor) else value


def _same(a: Value, b: Value) -> bool:
    difference = a - b
    return isinstance(difference, int) and difference == 0


class Scalar(Symbolic):
    """A register of the running kernel."""

    __slots__ = ("_life", "_recorder", "dtype", "name", "register", "slot")

    def __init__(self, recorder: Recorder, dtype: str, name: str) -> None:
        self._recorder, self.dtype, self.name = recorder, dtype, name
        self._life = recorder.frames[-1].life
        variable = recorder.new_variable(name, dtype)
        self.slot = variable.slot
        self.register = Expr(((variable, 1),), 0, dtype)

    def expr(self) -> Expr:
        """The value at the point of use. Raises ScopeError after the block it was declared in."""
        if self._life.ended:
            raise ScopeError(f"Scalar {self.name} is used after its block was closed")
        return self.register

    def __repr__(self) -> str:
        return f"Scalar {self.name} {self.dtype}"

    def set_as(self, value: Any, src_offset: Any = None) -> None:
        """Takes a number, Scalar, Expr (cast to this Scalar's type) or one tensor element."""
        recorder = self._recorder
        self.expr()
        if isinstance(value, Tensor):
            source = value if src_offset is None else value[src_offset]
            recorder.check_load(source, self.name)
            taken: Value | Access = self._loaded_from(source)
        else:
            taken = as_value(value)
            if isinstance(taken, (int, float)):
                taken = round_to(self.dtype, taken)
            elif self.dtype == "float16" and not isinstance(value, Scalar):
                raise DataTypeError(f"float16 Scalar {self.name} cannot take an Expr on any product")
        recorder.emit(SetScalar(self.slot, self.dtype, taken, recorder.where()))

    def _loaded_from(self, source: Tensor) -> Access:
        """One element. A whole Scalar takes the bits of a float element of its size, as vcmax leaves its index."""
        access = source.pattern((1,), (1,))
        if source.dtype in FLOATS and self.dtype not in FLOATS and SIZES[source.dtype] == SIZES[self.dtype]:
            source.buffer.reinterpreted = True
            access.dtype = self.dtype
        return access
