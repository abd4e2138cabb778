"""Control flow, tensors and scalars of the TIK language (tik_api.md 2)."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any

import numpy as np

from autotune.kernels.davinci import tensor
from autotune.kernels.davinci.errors import (
    DataTypeError,
    RangeError,
    ScopeError,
    TikError,
)
from autotune.kernels.davinci.expr import Expr, Symbolic, Value, Variable, as_value, condition, describe, variables
from autotune.kernels.davinci.lifetimes import Life, LoopIndex
from autotune.kernels.davinci.memory import GM, SIZES
from autotune.kernels.davinci.program import Block, Branch, Leave, Loop, SetScalar
from autotune.kernels.davinci.recorder import (
    ATOMIC_REGISTER,
    CORE_REGISTER,
    Frame,
    OpenLoop,
    Recorder,
)
from autotune.kernels.davinci.soc import ATOMIC_TYPES, SoC
from autotune.kernels.davinci.tensor import Tensor

MAX_INIT_ELEMENTS = 256 * 1024
"""Most elements of a tensor with init_value (tik_api.md 2.1)."""


UNSYNCHRONISED = "unsynchronised"
"""The kind of a block that new_stmt_scope(disable_sync=True) opens."""
MOST_ARMS = 400
"""Most arms of a chain of if_scope, elif_scope and else_scope (tik_api.md 2.4)."""
NO_CONDITION = {"dav-m100": ("float16", "float32"), "dav-c220": ()}
"""Types of a Scalar that cannot stand in a condition, by architecture; float16 on the others (tik_api.md 2.4)."""
SCALAR_TYPES = tuple(name for name in SIZES if name not in ("bool", "bfloat16"))
"""What a Scalar may be (tik_api.md 2.2)."""


class _Scope:
    """A with-block of the kernel; ``as`` binds a loop's index."""

    def __init__(
        self, recorder: Recorder, kind: str, block: Block, loop: OpenLoop | None = None, unreached: bool = False
    ) -> None:
        self._recorder, self._kind, self._block, self._loop = recorder, kind, block, loop
        self._unreached = unreached

    def __enter__(self) -> Any:
        self._recorder.open(self._kind, self._block, self._loop, self._unreached)
        return self._loop.index if self._loop else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.close()


def _always(truth: Value) -> bool:
    """Whether a condition is known to hold while the kernel is recorded."""
    return not isinstance(truth, Expr) and bool(truth)


def _never(truth: Value) -> bool:
    return not isinstance(truth, Expr) and not truth


class Control(Recorder):
    """Blocks, loops, branches and declarations."""

    def __init__(self, soc: SoC) -> None:
        super().__init__(soc)
        self._multi_core = False

    def new_stmt_scope(self, disable_sync: bool = False) -> _Scope:
        """A block: what is declared in it dies with it."""
        if any(frame.kind == UNSYNCHRONISED for frame in self.frames):
            raise TikError("new_stmt_scope(disable_sync=True) takes no new_stmt_scope inside")
        return _Scope(self, UNSYNCHRONISED if disable_sync else "scope", self.frames[-1].block)

    def for_range(
        self,
        begint: Any,
        endt: Any,
        name: str = "i",
        thread_num: int = 1,
        thread_type: str = "whole",
        block_num: Any = 1,
        dtype: str = "int32",
        for_type: str = "serial",
        **ignored: Any,
    ) -> _Scope:
        """A loop; with block_num over 1 the loop over cores (tik_api.md 2.6)."""
        start, stop = self._bound("begint", begint), self._bound("endt", endt)
        if isinstance(start, int) and isinstance(stop, int) and stop < start:
            raise RangeError(f"for_range from {start} to {stop} runs backwards", self.where())
        if not isinstance(thread_num, int):
            raise RangeError(f"thread_num is {thread_num!r}; it must be a Python int")
        threads = self.number("thread_num", thread_num, 0, 4)
        cores = as_value(1 if block_num is None else block_num)
        body: Block = []
        if isinstance(cores, Expr) or self.number("block_num", cores, 1, 65535) > 1:
            most = self._check_core_loop(start, stop, cores, threads)
            return self._loop("cores", Variable(CORE_REGISTER, name, dtype), start, stop, 1, most, body)
        return self._loop("for", self.new_variable(name, dtype), start, stop, max(threads, 1), 1, body)

    def _loop(
        self, kind: str, variable: Variable, start: Value, stop: Value, threads: int, cores: int, body: Block
    ) -> _Scope:
        loop = Loop(variable.slot, start, stop, threads, cores, body, self.where())
        self.emit(loop)
        empty = isinstance(start, int) and isinstance(stop, int) and start == stop
        life = Life()
        return _Scope(self, kind, body, OpenLoop(LoopIndex(variable, life), threads, empty, life, loop))

    def _check_core_loop(self, start: Value, stop: Value, cores: Value, threads: int) -> int:
        """The number of cores; all of the chip's where a symbolic block_num tells only later how many have work."""
        if self._multi_core or any(frame.kind in ("for", "cores") for frame in self.frames):
            raise TikError("a kernel has one loop over cores, outside every other loop")
        beyond = stop - cores
        if not isinstance(start, int) or start or isinstance(beyond, Expr) or beyond != 0 or threads > 1:
            raise RangeError(f"a loop over {describe(cores)} cores runs from 0 to block_num with thread_num 1")
        self._multi_core = True
        self.program.block_num = cores if isinstance(cores, int) else self.program.soc.cores
        return self.program.block_num

    def _bound(self, name: str, value: Any) -> Value:
        if isinstance(value, Tensor):
            value = value.loaded()
        bound = as_value(value)
        if isinstance(bound, float):
            bound = int(bound)
        if isinstance(bound, int) and not 0 <= bound < 1 << 31:
            raise RangeError(f"for_range: {name} is {bound}; it must be 0 to 2**31 - 1", self.where())
        return bound

    def if_scope(self, cond: Any) -> _Scope:
        """The first arm of a branch."""
        body: Block = []
        truth = self._truth(cond)
        self.emit(Branch([(truth, body)], self.where()))
        return _Scope(self, "if", body, unreached=_never(truth))

    def elif_scope(self, cond: Any) -> _Scope:
        """A further arm; must directly follow an if_scope or elif_scope."""
        return self._further_arm("elif_scope", self._truth(cond))

    def else_scope(self) -> _Scope:
        """The last arm; must directly follow an if_scope or elif_scope."""
        return self._further_arm("else_scope", True)

    def _further_arm(self, api: str, cond: Value) -> _Scope:
        block = self.frames[-1].block
        loads = len(block)
        while loads and isinstance(load := block[loads - 1], SetScalar) and load.slot in self.temporaries:
            loads -= 1
        branch = block[loads - 1] if loads else None
        if not isinstance(branch, Branch) or branch.complete:
            raise TikError(f"{api} does not directly follow an if_scope or elif_scope")
        if len(branch.arms) == MOST_ARMS:
            raise RangeError(f"{api}: a chain has at most {MOST_ARMS} arms")
        # Elements that the condition reads are read where the chain begins: no arm runs before them.
        block[loads - 1 :] = [*block[loads:], branch]
        branch.complete = api == "else_scope"
        body: Block = []
        unreached = _never(cond) or any(_always(earlier) for earlier, _ in branch.arms)
        branch.arms.append((cond, body))
        return _Scope(self, "if", body, unreached=unreached)

    def _truth(self, cond: Any) -> Value:
        if isinstance(cond, Tensor):
            cond = cond.loaded()
        value = as_value(cond)
        if not isinstance(value, Expr):
            return value
        excluded = NO_CONDITION.get(self.program.soc.arch, ("float16",))
        for variable in variables(value):
            if variable.dtype in excluded and variable.slot not in self.temporaries:
                raise DataTypeError(f"{variable.dtype} Scalar {variable.name} cannot stand in a condition")
        return value if value.dtype == "bool" else condition("!=", value, 0)

    def tik_break(self) -> None:
        """Leaves the innermost loop."""
        self._leave("break")

    def tik_continue(self) -> None:
        """Goes on with the innermost loop's next turn."""
        self._leave("continue")

    def tik_return(self) -> None:
        """Ends the kernel on this core."""
        self.emit(Leave("return", self.where()))

    def _leave(self, kind: str) -> None:
        loops = [frame for frame in self.frames if frame.loop is not None]
        if not loops:
            raise TikError(f"tik_{kind} stands outside every for_range")
        if loops[-1].kind == "cores":
            raise TikError(f"tik_{kind} cannot leave the loop over cores: use tik_return")
        self._single_buffered(f"tik_{kind}", loops[-1])
        self.emit(Leave(kind, self.where()))

    def _single_buffered(self, api: str, frame: Frame) -> None:
        """A loop that may be left early does not take its buffers in turn (tik_api.md 2.6)."""
        if frame.loop is None or frame.loop.statement.thread_num == 1:
            return
        frame.loop.statement.thread_num = 1
        for inner in self.frames[self.frames.index(frame) :]:
            inner.loop_threads = 1
        message = f"{api} in a loop with thread_num > 1: thread_num is taken as 1"
        warnings.warn_explicit(message, UserWarning, *self.where())

    def Tensor(
        self,
        dtype: str,
        shape: Any,
        scope: str | None = None,
        name: str | None = None,
        enable_buffer_reuse: bool = False,
        no_reuse_list: Any = None,
        reuse_list: Any = None,
        is_workspace: bool = False,
        is_atomic_add: bool = False,
        max_mem_size: int | None = None,
        init_value: Any = None,
        is_global_tensor: bool = False,
        start_addr: int | None = None,
    ) -> Tensor:
        """A tensor that lives in the innermost open block (tik_api.md 2.1)."""
        if scope is None or name is None:
            raise TikError("a Tensor needs a scope and a name", self.where())
        if (is_workspace or is_atomic_add or init_value is not None) and scope != GM:
            raise ScopeError(f"tensor {name}: only a GM tensor is a workspace, atomic or initialised", self.where())
        declared = self.declare(dtype, shape, scope, name, max_mem_size)
        buffer = declared.buffer
        buffer.workspace, buffer.atomic = is_workspace, is_atomic_add
        if init_value is not None:
            if buffer.size > MAX_INIT_ELEMENTS:
                raise RangeError(f"tensor {name}: at most {MAX_INIT_ELEMENTS} initialised elements", self.where())
            buffer.initial = np.broadcast_to(np.asarray(init_value, dtype), declared.shape).reshape(-1)
        return declared

    def Scalar(self, dtype: str = "int64", name: str = "reg_buf", init_value: Any = None) -> tensor.Scalar:
        """A register; undefined until it is set."""
        self._scalar_type(dtype, name)
        scalar = tensor.Scalar(self, dtype, name)
        if init_value is not None:
            scalar.set_as(init_value)
        return scalar

    def InputScalar(self, dtype: str = "int64", name: str = "input_scalar") -> tensor.Scalar:
        """A register that the caller of the kernel fills."""
        self._scalar_type(dtype, name)
        return tensor.Scalar(self, dtype, name)

    def _scalar_type(self, dtype: str, name: str) -> None:
        if dtype not in SCALAR_TYPES:
            raise DataTypeError(f"Scalar {name}: no type {dtype!r}; there are {', '.join(SCALAR_TYPES)}")

    def set_atomic_add(self, mode: Any) -> None:
        """From now on this core's moves to GM add (ATOMIC_TYPES by number from 1 on, or by name) or overwrite (0).

        Raises DataTypeError for what the chip cannot add (tik_api.md 1.15).
        """
        known = ATOMIC_TYPES[: self.program.soc.atomics]
        if isinstance(mode, str) and mode in known:
            mode = known.index(mode) + 1
        if not isinstance(mode, Symbolic) and mode not in range(len(known) + 1):
            modes = ", ".join(f"{name} ({number})" for number, name in enumerate(known, 1)) or "nothing at all"
            raise DataTypeError(f"set_atomic_add({mode!r}): {self.program.soc.name} adds {modes}; 0 is off")
        self.emit(SetScalar(ATOMIC_REGISTER, "int64", as_value(mode), self.where()))
