"""Control flow, tensors and scalars of the TIK language (tik_api.md 2)."""

from __future__ import annotations

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
from autotune.kernels.davinci.expr import Expr, Value, Variable, as_value, condition
from autotune.kernels.davinci.memory import GM
from autotune.kernels.davinci.program import Block, Branch, Leave, Loop, SetScalar
from autotune.kernels.davinci.recorder import (
    ATOMIC_REGISTER,
    CORE_REGISTER,
    OpenLoop,
    Recorder,
)
from autotune.kernels.davinci.soc import SoC
from autotune.kernels.davinci.tensor import Tensor

MAX_INIT_ELEMENTS = 256 * 1024
"""Most elements of a tensor with init_value (tik_api.md 2.1)."""


class _Scope:
    """A with-block of the kernel; ``as`` binds a loop's index."""

    def __init__(self, recorder: Recorder, kind: str, block: Block, loop: OpenLoop | None = None) -> None:
        self._recorder, self._kind, self._block, self._loop = recorder, kind, block, loop

    def __enter__(self) -> Any:
        self._recorder.open(self._kind, self._block, self._loop)
        return self._loop.index if self._loop else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.close()


class Control(Recorder):
    """Blocks, loops, branches and declarations."""

    def __init__(self, soc: SoC) -> None:
        super().__init__(soc)
        self._multi_core = False

    def new_stmt_scope(self, disable_sync: bool = False) -> _Scope:
        """A block: what is declared in it dies with it."""
        return _Scope(self, "scope", self.frames[-1].block)

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
        if block_num is None:
            block_num = 1
        cores = self.number("block_num", block_num, 1, 65535)
        if isinstance(cores, Expr):
            raise RangeError("block_num must be a Python int on the emulated core", self.where())
        threads = self.number("thread_num", thread_num, 0, 4)
        if isinstance(threads, Expr):
            raise RangeError("thread_num must be a Python int", self.where())
        body: Block = []
        if cores > 1:
            self._check_core_loop(start, stop, cores, threads)
            index = Expr(((Variable(CORE_REGISTER, name, dtype), 1),), 0, dtype)
            self.emit(Loop(CORE_REGISTER, start, stop, 1, cores, body, self.where()))
            return _Scope(self, "cores", body, OpenLoop(index, 1, False))
        variable = self.new_variable(name, dtype)
        index = Expr(((variable, 1),), 0, dtype)
        self.emit(Loop(variable.slot, start, stop, max(threads, 1), 1, body, self.where()))
        empty = isinstance(start, int) and isinstance(stop, int) and start == stop
        return _Scope(self, "for", body, OpenLoop(index, max(threads, 1), empty))

    def _check_core_loop(self, start: Value, stop: Value, cores: int, threads: int) -> None:
        if self._multi_core or any(frame.kind in ("for", "cores") for frame in self.frames):
            raise TikError("a kernel has one loop over cores, outside every other loop", self.where())
        if start != 0 or stop != cores or threads > 1:
            raise RangeError(f"a loop over {cores} cores runs from 0 to block_num with thread_num 1", self.where())
        self._multi_core = True
        self.program.block_num = cores

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
        self.emit(Branch([(self._truth(cond), body)], self.where()))
        return _Scope(self, "if", body)

    def elif_scope(self, cond: Any) -> _Scope:
        """A further arm; must directly follow an if_scope or elif_scope."""
        return self._further_arm("elif_scope", self._truth(cond))

    def else_scope(self) -> _Scope:
        """The last arm; must directly follow an if_scope or elif_scope."""
        return self._further_arm("else_scope", True)

    def _further_arm(self, api: str, cond: Value) -> _Scope:
        block = self.frames[-1].block
        branch = block[-1] if block else None
        if not isinstance(branch, Branch):
            raise TikError(f"{api} does not directly follow an if_scope", self.where())
        body: Block = []
        branch.arms.append((cond, body))
        return _Scope(self, "if", body)

    def _truth(self, cond: Any) -> Value:
        if isinstance(cond, Tensor):
            cond = cond.loaded()
        value = as_value(cond)
        return value if not isinstance(value, Expr) or value.dtype == "bool" else condition("!=", value, 0)

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
        loops = [frame.kind for frame in self.frames if frame.kind in ("for", "cores")]
        if not loops or loops[-1] == "cores":
            raise TikError(f"tik_{kind} stands outside every for_range", self.where())
        self.emit(Leave(kind, self.where()))

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
        scalar = tensor.Scalar(self, dtype, name)
        if init_value is not None:
            scalar.set_as(init_value)
        return scalar

    def InputScalar(self, dtype: str = "int64", name: str = "input_scalar") -> tensor.Scalar:
        """A register that the caller of the kernel fills."""
        return tensor.Scalar(self, dtype, name)

    def set_atomic_add(self, mode: Any) -> None:
        """From now on moves to GM add (1: float32) or overwrite (0), on this core (tik_api.md 1.15)."""
        if mode not in (0, 1):
            raise DataTypeError(
                f"set_atomic_add({mode!r}): {self.program.soc.name} adds float32 (1) or nothing (0)", self.where()
            )
        self.emit(SetScalar(ATOMIC_REGISTER, "int64", mode, self.where()))
