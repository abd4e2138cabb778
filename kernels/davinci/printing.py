"""debug_print: Python expressions over a kernel's Tensors, Scalars and Exprs, shown with their present values."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import TikError
from autotune.kernels.davinci.expr import Registers, Symbolic
from autotune.kernels.davinci.memory import NUMPY
from autotune.kernels.davinci.operands import flat, getter
from autotune.kernels.davinci.tensor import Scalar, Tensor

_PRESENT = "present value of"
"""No Python name, so that no name of a kernel is hidden by it."""


class _Values(ast.NodeTransformer):
    """Every name and attribute becomes its present value."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name that is read."""
        return _wrapped(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute: its owner first."""
        self.generic_visit(node)
        return _wrapped(node)


def _wrapped(node: ast.expr) -> ast.AST:
    return ast.copy_location(ast.Call(ast.Name(_PRESENT, ast.Load()), [node], []), node)


def shower(expression: str, names: Mapping[str, Any]) -> Callable[[Callable[[Any], Any]], None]:
    """A function that writes the expression's value to standard output, given how to find present values.

    Names are bound as they are now; attributes are looked up when it is called. Raises TikError on a syntax error.
    """
    try:
        tree = ast.fix_missing_locations(_Values().visit(ast.parse(expression.strip(), mode="eval")))
    except SyntaxError as error:
        raise TikError(f"debug_print({expression!r}) is no Python expression: {error.msg}") from error
    code = compile(tree, "<debug_print>", "eval")

    def show(value_of: Callable[[Any], Any]) -> None:
        value = eval(code, {**names, _PRESENT: value_of})
        parts = value if isinstance(value, tuple) else (value,)
        sys.stdout.write(" ".join(map(str, parts)) + "\n")

    return show


def formatter(format_string: str, values: Sequence[Any]) -> Callable[[Callable[[Any], Any]], None]:
    """A function that writes the values with C's format, given how to find present values."""

    def show(value_of: Callable[[Any], Any]) -> None:
        found = tuple(_single(value_of(value)) for value in values)
        try:
            sys.stdout.write(format_string % found)
        except (TypeError, ValueError) as error:
            raise TikError(f"printf({format_string!r}): {error}") from error

    return show


def _single(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value


def present(value: Any, r: Registers) -> Any:
    """What a Tensor (as an array), Scalar or Expr is worth now; anything else as it is."""
    if isinstance(value, Scalar):
        return getter(value.register)(r)
    if isinstance(value, Symbolic):
        return getter(value)(r)
    return _elements(value, r) if isinstance(value, Tensor) else value


def _elements(tensor: Tensor, r: Registers) -> np.ndarray:
    shape = [getter(size)(r) for size in tensor.shape]
    places = np.full(shape, getter(tensor.offset)(r))
    for index, stride in zip(np.indices(shape), tensor.strides()):
        places += index * getter(stride)(r)
    return np.asarray(flat(tensor.buffer, tensor.dtype)[places], NUMPY[tensor.dtype])
