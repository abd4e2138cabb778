"""What BuildCCE checks of a kernel's inputs and outputs (tik_api.md 2.9)."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci.errors import RangeError, ScopeError, TikError
from autotune.kernels.davinci.memory import GM
from autotune.kernels.davinci.program import Program
from autotune.kernels.davinci.tensor import Scalar, Tensor

MAX_ARGUMENTS = 64
"""Most inputs and most outputs of a kernel."""
MAX_TOTAL = 192
"""Most inputs, outputs and workspaces together."""


def check_arguments(program: Program, flowtable: list[Any]) -> None:
    """Adds what only the flowtable has to the inputs. Raises ScopeError, RangeError or TikError."""
    _check_order(program.inputs)
    program.inputs += [one for one in flowtable if all(one is not other for other in program.inputs)]
    for role, arguments in (("inputs", program.inputs), ("outputs", program.outputs)):
        if len(arguments) > MAX_ARGUMENTS:
            raise RangeError(f"{len(arguments)} {role}; a kernel has at most {MAX_ARGUMENTS}")
        for argument in arguments:
            _check_kind(role, argument)
    _check_names(program)
    workspaces = sum(buffer.workspace for buffer in program.global_buffers)
    total = len(program.inputs) + len(program.outputs) + workspaces
    if total > MAX_TOTAL:
        raise RangeError(f"{total} inputs, outputs and workspaces; a kernel has at most {MAX_TOTAL}")


def _check_kind(role: str, argument: Any) -> None:
    if not isinstance(argument, Tensor) and not (role == "inputs" and isinstance(argument, Scalar)):
        raise TikError(f"{argument!r} among the {role} is neither a Tensor nor an InputScalar of the inputs")
    if isinstance(argument, Tensor) and argument.scope != GM:
        raise ScopeError(f"{argument.name} among the {role} lies in {argument.scope}, not in GM")


def _check_order(inputs: list[Any]) -> None:
    kinds = [isinstance(one, Scalar) for one in inputs]
    if kinds != sorted(kinds):
        raise TikError(f"InputScalar {inputs[kinds.index(True)].name} stands before a Tensor in the inputs")


def _check_names(program: Program) -> None:
    listed = [*program.inputs, *program.outputs]
    buffers = [one.buffer for one in listed if isinstance(one, Tensor)]
    names = [one.name for one in listed]
    for buffer in buffers:
        if buffers.count(buffer) > 1:
            raise TikError(f"tensor {buffer.name} is among inputs and outputs twice")
        if buffer.workspace or buffer.initial is not None:
            raise TikError(f"workspace or initialised tensor {buffer.name} cannot be an input or output")
    for name in names:
        if names.count(name) > 1:
            raise TikError(f"two inputs or outputs are called {name}")
    for buffer in program.global_buffers:
        own = buffer.workspace or buffer.initial is not None
        if buffer.used and not own and buffer not in buffers:
            raise TikError(f"GM tensor {buffer.name} is used but is no input, output or workspace", buffer.where)
        if own and buffer.name in names:
            raise TikError(f"workspace {buffer.name} has the name of an input or output", buffer.where)
