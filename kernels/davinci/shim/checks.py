"""para_check: what operators check of their parameters before they record; a failed check is a RuntimeError."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from autotune.kernels.davinci.memory import SIZES

SHAPE_SIZE_LIMIT = 2**31 - 1
MAX_AXES = 8
"""Most elements and most axes of a shape."""

_OPERANDS = ("INPUT", "OUTPUT")
_ATTRIBUTES: dict[str, tuple[type, ...]] = {
    "INT": (int,),
    "FLOAT": (int, float),
    "STR": (str,),
    "BOOL": (bool,),
    "TYPE": (str, int),
    "LIST_INT": (list, tuple),
    "LIST_FLOAT": (list, tuple),
    "LIST_BOOL": (list, tuple),
    "LIST_STR": (list, tuple),
    "LIST_LIST_INT": (list, tuple),
}
_KINDS: dict[str, tuple[type, ...]] = {
    **{f"REQUIRED_{operand}": (dict,) for operand in _OPERANDS},
    **{f"OPTION_{operand}": (dict, type(None)) for operand in _OPERANDS},
    **{f"DYNAMIC_{operand}": (list, tuple) for operand in _OPERANDS},
    **{f"REQUIRED_ATTR_{name}": types for name, types in _ATTRIBUTES.items()},
    **{f"OPTION_ATTR_{name}": (*types, type(None)) for name, types in _ATTRIBUTES.items()},
    "KERNEL_NAME": (str,),
}
"""Kinds of a parameter to what Python passes for them; each is a constant of para_check."""


def _fail(message: str) -> RuntimeError:
    return RuntimeError(message)


def _wrapped(function: Callable[..., Any], kinds: Sequence[tuple[str, tuple[type, ...]]]) -> Callable[..., Any]:
    """The function, with the types of its positional arguments checked first."""

    @functools.wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        for place, (value, (kind, types)) in enumerate(zip(arguments, kinds)):
            if not isinstance(value, types):
                raise _fail(f"{function.__name__}: parameter {place} is {value!r}; it should be {kind}")
        return function(*arguments, **named)

    return checked


def check_op_params(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the operator's parameters are of these kinds, in order; the kernel's name is its last."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        checked = _wrapped(function, [(kind, _KINDS[kind]) for kind in kinds])

        @functools.wraps(function)
        def named(*arguments: Any, **keywords: Any) -> Any:
            if "kernel_name" in keywords:
                check_kernel_name(keywords["kernel_name"])
            return checked(*arguments, **keywords)

        return named

    return decorate


def check_input_type(*types: Any, **named: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function's positional arguments are of these Python types."""
    kinds = [(str(kind), kind if isinstance(kind, tuple) else (kind,)) for kind in types]
    return lambda function: _wrapped(function, kinds)


def check_kernel_name(kernel_name: str) -> None:
    """Raises RuntimeError for a name that no C function may have."""
    if not isinstance(kernel_name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,199}", kernel_name):
        raise _fail(f"a kernel cannot be called {kernel_name!r}")


def check_shape(
    shape: Sequence[int],
    min_dim: int = 0,
    max_dim: int = SHAPE_SIZE_LIMIT,
    min_rank: int = 1,
    max_rank: int = MAX_AXES,
    min_size: int = 1,
    max_size: int = SHAPE_SIZE_LIMIT,
    param_name: str = "",
) -> None:
    """Raises RuntimeError where a shape has too few or many axes or elements; an axis of -1 or -2 is not known yet."""
    if not isinstance(shape, (list, tuple)):
        raise _fail(f"the shape of {param_name or 'a parameter'} is {shape!r}; it should be a list or tuple")
    if not min_rank <= len(shape) <= max_rank:
        raise _fail(f"{param_name}: {list(shape)} has {len(shape)} axes; there should be {min_rank} to {max_rank}")
    elements = 1
    for size in shape:
        if not isinstance(size, int) or (size not in (-1, -2) and not min_dim <= size <= max_dim):
            raise _fail(f"{param_name}: an axis of {list(shape)} is {size}; it should be {min_dim} to {max_dim}")
        elements *= abs(size)
    if not min(shape) < 0 and not min_size <= elements <= max_size:
        raise _fail(f"{param_name}: {list(shape)} has {elements} elements; there should be {min_size} to {max_size}")


def check_shape_rule(
    shape: Sequence[int], min_dim: int = 1, max_dim: int = MAX_AXES, max_shape_num: int = SHAPE_SIZE_LIMIT
) -> None:
    """check_shape as older operators call it: numbers of axes, then the largest axis; every axis is at least 1."""
    check_shape(shape, 1, max_shape_num, min_dim, max_dim, 1, SHAPE_SIZE_LIMIT**2)


def check_shape_size(shape: Sequence[int], limit: int = SHAPE_SIZE_LIMIT) -> int:
    """The number of elements. Raises RuntimeError where it is over the limit."""
    elements = 1
    for size in shape:
        elements *= size
    if elements > limit:
        raise _fail(f"{list(shape)} has {elements} elements; there should be at most {limit}")
    return elements


def check_tensor_shape_size(shape: Sequence[int]) -> int:
    """check_shape_size with the largest limit."""
    return check_shape_size(shape)


def check_dtype(dtype: str, check_list: Collection[str] = tuple(SIZES), param_name: str = "") -> None:
    """Raises RuntimeError for a type that is not in the list."""
    if not isinstance(dtype, str) or dtype.lower() not in check_list:
        raise _fail(f"{param_name or 'a parameter'} is {dtype}; it should be one of {', '.join(check_list)}")


def check_format(data_format: str, check_list: Collection[str], param_name: str = "") -> None:
    """Raises RuntimeError for a layout that is not in the list."""
    if data_format not in check_list:
        raise _fail(f"{param_name or 'a parameter'} is {data_format}; it should be one of {', '.join(check_list)}")


_FLOATS = ("float16", "float32")
_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
PARA_CHECK: dict[str, Any] = {
    **{kind: kind for kind in _KINDS},
    "ALL_FLOAT_DTYPE_LIST": _FLOATS,
    "ALL_INT_DTYPE_LIST": _WHOLE,
    "ALL_DTYPE_LIST": (*_FLOATS, *_WHOLE, "bool"),
    "SHAPE_SIZE_LIMIT": SHAPE_SIZE_LIMIT,
    "check_op_params": check_op_params,
    "check_input_type": check_input_type,
    "check_kernel_name": check_kernel_name,
    "check_shape": check_shape,
    "check_shape_rule": check_shape_rule,
    "check_shape_size": check_shape_size,
    "check_tensor_shape_size": check_tensor_shape_size,
    "check_dtype": check_dtype,
    "check_dtype_rule": check_dtype,
    "check_format": check_format,
}
