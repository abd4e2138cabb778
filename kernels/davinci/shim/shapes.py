"""shape_util: arithmetic on shapes and axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any


def axis_check(shape_len: int, axis: int | Sequence[int]) -> int | list[int]:
    """Axes counted from the end as axes from the front, in order. Raises RuntimeError for one that is not there."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    if any(not -shape_len <= one < shape_len for one in axes):
        raise RuntimeError(f"axis {axis} of a shape with {shape_len} axes")
    found = sorted({one % shape_len for one in axes})
    return found[0] if isinstance(axis, int) else found


def wrap_axes_to_positive(axes: Iterable[int], rank: int) -> list[int]:
    """Axes counted from the end as axes from the front."""
    return [axis + rank if axis < 0 else axis for axis in axes]


def scalar2tensor_one(shape: Sequence[int]) -> Sequence[int]:
    """The shape; of a scalar, one axis of 1."""
    return shape or [1]


def squeeze_shape(shape: Sequence[int]) -> list[int]:
    """The shape without axes of 1."""
    return [size for size in shape if size != 1] or [1]


def shape_to_list(shape: Iterable[Any]) -> list[Any]:
    """The shape as a list."""
    return list(shape)


def broadcast_shapes(
    shape1: Sequence[int], shape2: Sequence[int], param_name_input1: str = "", param_name_input2: str = ""
) -> tuple[list[int], list[int], list[int]]:
    """Both shapes with as many axes, and what they broadcast to. Raises RuntimeError where they do not."""
    pairs = list(zip_longest(reversed(shape1), reversed(shape2), fillvalue=1))[::-1]
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        names = f"{param_name_input1 or 'the first'} and {param_name_input2 or 'the second'}"
        raise RuntimeError(f"{names} do not broadcast: {list(shape1)} and {list(shape2)}")
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    return first, second, [b if a == 1 else a for a, b in pairs]


SHAPE_UTIL: dict[str, Any] = {
    "axis_check": axis_check,
    "wrap_axes_to_positive": wrap_axes_to_positive,
    "scalar2tensor_one": scalar2tensor_one,
    "squeeze_shape": squeeze_shape,
    "shape_to_list": shape_to_list,
    "broadcast_shapes": broadcast_shapes,
    "produce_shapes": broadcast_shapes,
}
