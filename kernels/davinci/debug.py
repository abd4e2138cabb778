"""tikdb: running a recorded kernel on arrays (tik_api.md 2.10)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.kernels.davinci import interpreter, options
from autotune.kernels.davinci.errors import FeedError, kernel_line
from autotune.kernels.davinci.expr import Registers
from autotune.kernels.davinci.lifetimes import check_lifetimes
from autotune.kernels.davinci.memory import NUMPY, Buffer, poison
from autotune.kernels.davinci.operands import getter
from autotune.kernels.davinci.printing import shower
from autotune.kernels.davinci.program import Print, Program
from autotune.kernels.davinci.tensor import Scalar, Tensor, round_to

if TYPE_CHECKING:
    from autotune.kernels.davinci.language import Tik

SLACK = 4096
"""Bytes behind each GM tensor that a kernel may touch unharmed, as on a chip, where nothing ends at a page's middle.
Strict mode has none."""
LARGEST_TENSOR = 1 << 34
"""Bytes of the largest output that is given out."""
LARGEST_PADDING = 1 << 31
"""Bytes up to which an input shorter than declared is filled up; kernels for any shape declare far more."""


class Debugger:
    """What tik_instance.tikdb is."""

    def __init__(self, tik_instance: Tik) -> None:
        self._tik = tik_instance

    def start_debug(
        self, feed_dict: Mapping[str, Any], interactive: bool = False, desc_tensor: Any = None
    ) -> list[Any]:
        """Runs the kernel and returns its outputs in BuildCCE's order.

        feed_dict: input names to arrays of the declared shape and type; a kernel that writes an input writes the
        caller's array. An array shorter than declared is filled up with zeros, unless in strict mode.
        Raises FeedError and what the kernel does wrong.
        """
        if interactive:
            sys.stderr.write("the emulated core does not stop between statements: it runs the kernel through\n")
        program, chosen = self._tik.program, options.current()
        slack = 0 if chosen.strict else SLACK
        scalars = _check_names(program, feed_dict)
        fed = _feed_all(program, feed_dict, slack)
        registers: Registers = [0] * program.registers
        for slot, number in scalars.items():
            registers[slot] = number
        shapes = [tuple(getter(size)(registers) for size in tensor.shape) for tensor in program.outputs]
        for tensor, shape in zip(program.outputs, shapes):
            if tensor.buffer not in fed:
                tensor.buffer.array = _zeros(tensor, shape, slack)
        listed = {*fed, *(tensor.buffer for tensor in program.outputs)}
        for buffer in program.global_buffers:
            if buffer not in listed:
                buffer.array = _scratch(buffer, slack)
        try:
            _run(program, scalars, chosen)
        finally:
            for buffer, array in fed.items():
                if array.flags.writeable and buffer.array is not None:
                    array[...] = buffer.array[: array.size]
        return [
            tensor.buffer.array[: int(np.prod(shape))].reshape(shape) for tensor, shape in zip(program.outputs, shapes)
        ] or [[0]]

    def debug_print(self, expression: str) -> None:
        """Shows a Python expression over the names of its caller each time this point of the kernel is reached."""
        caller = sys._getframe(1)
        names = {**caller.f_globals, **caller.f_locals}
        self._tik.emit(Print(shower(expression, names), kernel_line()))


def _run(program: Program, scalars: dict[int, Any], chosen: options.Options) -> None:
    order = None
    if chosen.core_seed is not None:
        order = np.random.default_rng(chosen.core_seed).permutation(program.block_num).tolist()
    linker = _watched(program, chosen) if chosen.trace or chosen.strict else None
    interpreter.run(program, scalars, order, linker)


def _watched(program: Program, chosen: options.Options) -> interpreter.Linker:
    """What runs a kernel under the eyes of the trace and of strict mode."""
    # Imported only here: most runs are not watched, and a script should not wait for what it does not use.
    from autotune.kernels.davinci.strictness import Checker
    from autotune.kernels.davinci.trace import Tracer
    from autotune.kernels.davinci.watch import WatchedLinker, Watcher

    watchers: list[Watcher] = []
    if chosen.trace:
        watchers.append(Tracer(chosen.trace, program.scalar_names))
    if chosen.strict:
        check_lifetimes(program.body)
        watchers.append(Checker(program.block_num))
    return WatchedLinker(program.soc.saturates, watchers, chosen.strict)


def _check_names(program: Program, feed_dict: Mapping[str, Any]) -> dict[int, Any]:
    """The registers of InputScalars. Raises FeedError where names or numbers are not what the kernel takes."""
    names = [one.name for one in program.inputs]
    if sorted(names) != sorted(feed_dict):
        raise FeedError(f"feed_dict has {sorted(feed_dict)}; the kernel's inputs are {sorted(names)}")
    scalars = {}
    for one in program.inputs:
        if isinstance(one, Scalar):
            number = np.asarray(feed_dict[one.name])
            if number.size != 1 or number.dtype.kind not in "iufb":
                raise FeedError(f"input {one.name} is a {one.dtype} number, not {feed_dict[one.name]!r}")
            scalars[one.slot] = round_to(one.dtype, number.item())
    return scalars


def _feed_all(program: Program, feed_dict: Mapping[str, Any], slack: int) -> dict[Buffer, np.ndarray]:
    """Fills GM and returns the callers' arrays, flat. An array that is fed twice is one and the same in GM too."""
    fed: dict[Buffer, np.ndarray] = {}
    for tensor in program.inputs:
        if isinstance(tensor, Tensor):
            array = _feed(tensor, feed_dict[tensor.name], slack)
            for other, earlier in fed.items():
                if earlier.ctypes.data == array.ctypes.data and earlier.size == array.size == tensor.buffer.size:
                    tensor.buffer.array = other.array
            fed[tensor.buffer] = array
    return fed


def _feed(tensor: Tensor, value: Any, slack: int) -> np.ndarray:
    """Puts the caller's numbers in GM, and returns his array, flat. Raises FeedError."""
    array, declared = np.ascontiguousarray(value), tensor.buffer.size
    if array.dtype != NUMPY[tensor.dtype]:
        raise FeedError(f"input {tensor.name} is {array.dtype}; the kernel takes {tensor.dtype}")
    exact = tensor.shape == array.shape or not declared
    if (declared and array.size > declared) or (not exact and not slack and array.size != declared):
        raise FeedError(f"input {tensor.name} has shape {array.shape}; the kernel takes {tensor.shape}")
    filled = declared if declared * array.itemsize <= LARGEST_PADDING else 0
    memory = np.zeros(max(array.size, filled) + slack // array.itemsize, array.dtype)
    memory[: array.size] = array.reshape(-1)
    tensor.buffer.array = memory
    return array.reshape(-1)


def _zeros(tensor: Tensor, shape: tuple[int, ...], slack: int) -> np.ndarray:
    dtype, size = NUMPY[tensor.dtype], int(np.prod(shape, dtype=object))
    if size * dtype.itemsize > LARGEST_TENSOR:
        raise FeedError(f"output {tensor.name} has {size} elements as declared: too many to give out")
    return np.zeros(size + slack // dtype.itemsize, dtype)


def _scratch(buffer: Buffer, slack: int) -> np.ndarray | None:
    """A workspace or initialised tensor; None for a GM tensor that is neither."""
    dtype = NUMPY[buffer.dtype]
    if buffer.initial is not None:
        return np.pad(np.asarray(buffer.initial, dtype), (0, slack // dtype.itemsize))
    return poison(dtype, False, buffer.size + slack // dtype.itemsize).copy() if buffer.workspace else None
