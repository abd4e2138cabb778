"""te.tvm, te.lang.cce, topi.generic: the operator compiler's other language, which is not emulated.

Operators that record TIK for some shapes and fall back to that language for others import both at the top: importing
works, and a call says that it is not emulated. ``placeholder`` is a description, made before the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci.errors import NotEmulated


@dataclass(frozen=True)
class Placeholder:
    """An operand's description."""

    shape: tuple[Any, ...]
    dtype: str
    name: str


def placeholder(shape: Sequence[Any], dtype: str = "float32", name: str = "placeholder") -> Placeholder:
    """Describes an operand; nothing is recorded."""
    return Placeholder(tuple(shape), dtype, name)


class Absent:
    """A name of that language: it has further names, and calling it raises NotEmulated."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise NotEmulated(self._name, "it belongs to the operator compiler's own language, not to TIK")


def absent_names(module: str) -> dict[str, Any]:
    """The contents of a module of that language: whatever is asked of it is there, and is not emulated."""
    return {"__getattr__": Absent(module).__getattr__}


TVM: dict[str, Any] = {"placeholder": placeholder}
