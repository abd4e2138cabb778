"""tbe.common.register, tbe.common.context, te.platform.fusion_manager: decorators and notes of the operator compiler.

On the emulated core an operator is the Python function that records it, so that the decorators hand it back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Operator = Callable[..., Any]


def _registering(*arguments: Any, **options: Any) -> Callable[[Operator], Operator]:
    """A decorator that leaves the operator as it is."""
    return lambda function: function


class Context:
    """What an operator leaves for the compiler and its tiling."""

    def __init__(self) -> None:
        self._compile_info: dict[str, Any] = {}

    def add_compile_info(self, key: str, value: Any) -> None:
        """Remembers a value for the tiling function."""
        self._compile_info[key] = value

    def get_compile_info(self) -> dict[str, Any]:
        """All values so far."""
        return self._compile_info


_CONTEXT = Context()


def get_context() -> Context:
    """The context of the operator that is being recorded; there is one for the process."""
    return _CONTEXT


class FusionManager:
    """te.platform.fusion_manager's object of the same name."""

    register = staticmethod(_registering)


_DECORATORS = (
    "register_operator", "register_op_compute", "register_operator_compute", "register_param_generalization",
)  # fmt: skip
REGISTER: dict[str, Any] = {
    **dict.fromkeys(_DECORATORS, _registering),
    "add_compile_info": _CONTEXT.add_compile_info,
    "get_compile_info": _CONTEXT.get_compile_info,
}
CONTEXT: dict[str, Any] = {"get_context": get_context, "OpContext": Context}
FUSION: dict[str, Any] = {"fusion_manager": FusionManager()}
