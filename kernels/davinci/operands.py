"""Operands of a running program: symbolic accesses to numpy views, and results back to memory with one rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import AlignmentError, OutOfBounds, TikError
from autotune.kernels.davinci.expr import Evaluator, Expr, Registers, evaluator
from autotune.kernels.davinci.half import round_half, single_to_odd
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.memory import GM, Buffer
from autotune.kernels.davinci.program import Access, Instruction

Array = np.ndarray
Store = Callable[..., None]
"""Takes the target, the values and, where it is known only now, the mask."""


def storage(buffer: Buffer) -> Array:
    """A buffer's host memory. Raises TikError for a GM tensor that nobody fed."""
    if buffer.scope != GM:
        return buffer.allocate()
    if buffer.array is None:
        raise TikError(f"GM tensor {buffer.name} is used but is no input, output or workspace", buffer.where)
    return buffer.array


def flat(buffer: Buffer, dtype: str) -> Array:
    """All of a buffer as elements of one type."""
    array, wanted = storage(buffer), buffer.numpy_dtype(dtype)
    return array if array.dtype == wanted else array.view(wanted)


def always(value: Any) -> Evaluator:
    """A number or a function of the registers as a function of the registers."""
    return value if callable(value) else (lambda r: value)


def getter(value: Any) -> Evaluator:
    """A number or Expr as a function of the registers."""
    return always(evaluator(value))


def bind(access: Access, instruction: Instruction) -> tuple[bool, Any]:
    """(True, the operand's array) where its place is constant, else (False, a function of the registers).

    The array is None where the operand has no elements. Raises OutOfBounds, now or when the function is called.
    """
    array, dtype = storage(access.buffer), access.buffer.numpy_dtype(access.dtype)
    item, multiple = dtype.itemsize, access.multiple

    def build(at: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array | None:
        if 0 in shape:
            return None
        if at % multiple:
            raise AlignmentError(
                f"{instruction.row.name}: {access.buffer} is addressed at element {at} here, no multiple of {multiple}",
                instruction.where,
            )
        try:
            return np.ndarray(shape, dtype, array, at * item, strides)
        except (TypeError, ValueError) as error:
            raise OutOfBounds(
                f"{instruction.row.name}: {' x '.join(map(str, shape))} elements from element {at} on reach beyond "
                f"{access.buffer}, which has {access.buffer.size or array.size * array.itemsize // item}",
                instruction.where,
            ) from error

    offset = evaluator(access.offset)
    if not any(isinstance(number, Expr) for number in (*access.shape, *access.strides)):
        shape, strides = access.shape, tuple(stride * item for stride in access.strides)
        if not callable(offset):
            return True, build(offset, shape, strides)
        place = offset
        return False, lambda r: build(place(r), shape, strides)
    place, sizes, steps = always(offset), [*map(getter, access.shape)], [*map(getter, access.strides)]

    def view(r: Registers) -> Array | None:
        shape = tuple(max(int(size(r)), 0) for size in sizes)
        return build(place(r), shape, tuple(step(r) * item for step in steps))

    return False, view


def same_place(a: Access, b: Access) -> bool:
    """Whether two accesses touch the same elements in the same order."""
    pairs = zip((a.offset, *a.shape, *a.strides), (b.offset, *b.shape, *b.strides))
    return a.dtype == b.dtype and len(a.shape) == len(b.shape) and all(_equal(x, y) for x, y in pairs)


def _equal(a: Any, b: Any) -> bool:
    difference = a - b
    return isinstance(difference, int) and difference == 0


def store_for(instruction: Instruction, access: Access, saturate: bool) -> Store:
    """How results reach a destination: rounded once to its type, under the instruction's mask where that is constant.

    A mask known only when the program runs is the store's third argument.
    """
    put = _masked(instruction.mask) if masked_store(instruction) else _put
    if instruction.row.exact:
        return put
    if access.dtype == "float16":
        return lambda target, values, *mask: put(target, round_half(_dense(values), saturate), *mask)
    if access.dtype == "float32":
        return _single(put, saturate)
    return lambda target, values, *mask: put(target, _whole(np.asarray(values), target.dtype), *mask)


def finish_for(row: Row, dtype: str, saturate: bool) -> Callable[[Array], None] | None:
    """The rounding of a destination that holds unrounded float32 results, in place; None where there is none."""
    if row.exact or dtype not in ("float16", "float32"):
        return None
    if dtype == "float32":
        return _finite if saturate else None

    def to_half(target: Array) -> None:
        if target.flags.c_contiguous:
            round_half(target, saturate)
        else:
            target[...] = round_half(np.array(target, order="C"), saturate)

    return to_half


def _finite(target: Array) -> None:
    """Infinities become the largest float32 and NaN 0. A sum of squares shows them fastest."""
    if target.flags.c_contiguous:
        one = target.reshape(-1)
        total = np.dot(one, one)
    else:
        total = np.add.reduce(target, axis=None)
    if total - total != 0:
        np.nan_to_num(target, copy=False)


def masked_store(instruction: Instruction) -> bool:
    """Whether a constant mask says which elements a store reaches."""
    return isinstance(instruction.mask, np.ndarray) and not instruction.row.reduces


def _put(target: Array, values: Any, *mask: Any) -> None:
    if mask:
        np.copyto(target, values, casting="unsafe", where=mask[0])
    else:
        np.copyto(target, values, casting="unsafe")


def _masked(mask: Array) -> Store:
    return lambda target, values: np.copyto(target, values, where=mask, casting="unsafe")


def _dense(values: Any) -> Array:
    if isinstance(values, np.ndarray) and values.ndim:
        if values.dtype == np.float64:
            return single_to_odd(np.ascontiguousarray(values))
        if values.dtype == np.float32 and values.flags.c_contiguous:
            return values
    return np.array(values, np.float32, order="C", ndmin=1)


def _single(put: Store, saturate: bool) -> Store:
    def store(target: Array, values: Any, *mask: Any) -> None:
        if values.dtype == np.float64:
            values = values.astype(np.float32)
        if saturate and not np.isfinite(np.add.reduce(values, axis=None)):
            values = np.nan_to_num(values)
        put(target, values, *mask)

    return store


def _whole(values: Array, dtype: np.dtype) -> Array:
    """Floats to whole numbers of a type: NaN is 0, what is too large becomes the type's limit (tik_api.md 1.13)."""
    if values.dtype.kind != "f":
        return values
    limits = np.iinfo(dtype)
    return np.clip(np.nan_to_num(values.astype(np.float64)), limits.min, limits.max)
