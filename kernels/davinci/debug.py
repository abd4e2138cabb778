"""tikdb: running a recorded kernel on arrays (tik_api.md 2.10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.kernels.davinci import interpreter
from autotune.kernels.davinci.errors import FeedError
from autotune.kernels.davinci.memory import NUMPY, Buffer, poison
from autotune.kernels.davinci.tensor import Scalar, Tensor

if TYPE_CHECKING:
    from autotune.kernels.davinci.language import Tik


class Debugger:
    """What tik_instance.tikdb is."""

    def __init__(self, tik_instance: Tik) -> None:
        self._tik = tik_instance

    def start_debug(
        self, feed_dict: Mapping[str, Any], interactive: bool = False, desc_tensor: Any = None
    ) -> list[Any]:
        """Runs the kernel and returns its outputs in BuildCCE's order.

        feed_dict: input names to arrays of the declared shape and type; a kernel that writes an input writes the
        caller's array. Raises FeedError and what the kernel does wrong.
        """
        program = self._tik.program
        names = [one.name for one in program.inputs]
        if sorted(names) != sorted(feed_dict):
            raise FeedError(f"feed_dict has {sorted(feed_dict)}; the kernel's inputs are {sorted(names)}")
        scalars = {one.slot: feed_dict[one.name] for one in program.inputs if isinstance(one, Scalar)}
        for tensor in program.inputs:
            if isinstance(tensor, Tensor):
                tensor.buffer.array = _input(tensor, feed_dict[tensor.name])
        fed = {tensor.buffer for tensor in program.inputs if isinstance(tensor, Tensor)}
        for tensor in program.outputs:
            if tensor.buffer not in fed:
                tensor.buffer.array = np.zeros(tensor.buffer.size, NUMPY[tensor.dtype])
        listed = fed | {tensor.buffer for tensor in program.outputs}
        for buffer in program.global_buffers:
            if buffer not in listed:
                buffer.array = _scratch(buffer)
        interpreter.run(program, scalars)
        return [tensor.buffer.array.reshape(tensor.shape) for tensor in program.outputs] or [[0]]


def _input(tensor: Tensor, value: Any) -> np.ndarray:
    array = np.ascontiguousarray(value)
    if array.dtype != NUMPY[tensor.dtype]:
        raise FeedError(f"input {tensor.name} is {array.dtype}; the kernel takes {tensor.dtype}")
    if tensor.buffer.size and array.size != tensor.buffer.size:
        raise FeedError(f"input {tensor.name} has shape {array.shape}; the kernel takes {tensor.shape}")
    return array.reshape(-1)


def _scratch(buffer: Buffer) -> np.ndarray | None:
    """A workspace or initialised tensor; None for a GM tensor that is neither."""
    if buffer.initial is not None:
        return np.array(buffer.initial, NUMPY[buffer.dtype])
    return poison(NUMPY[buffer.dtype], False, buffer.size).copy() if buffer.workspace else None
