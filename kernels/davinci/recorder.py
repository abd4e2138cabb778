"""Recording: statements, blocks, lifetimes and the budget of every memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autotune.kernels.davinci.errors import (
    AlignmentError,
    CapacityError,
    DataTypeError,
    RangeError,
    ScopeError,
    ShapeError,
    TikError,
    kernel_line,
)
from autotune.kernels.davinci.expr import (
    Expr,
    Value,
    Variable,
    as_value,
    describe_shape,
    is_float,
)
from autotune.kernels.davinci.lifetimes import Life
from autotune.kernels.davinci.limits import Limit
from autotune.kernels.davinci.memory import (
    GM,
    MEMORIES,
    SIZES,
    UB,
    Buffer,
    charged_bytes,
    start_alignment,
)
from autotune.kernels.davinci.program import (
    Access,
    Block,
    Declare,
    Instruction,
    Loop,
    Program,
    Statement,
)
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.tensor import Scalar, Tensor, product, round_to

if TYPE_CHECKING:
    from autotune.kernels.davinci.isa import Row
    from autotune.kernels.davinci.soc import SoC

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a tensor or kernel may be called (tik_api.md 2.1)."""
RESERVED_NAME = "__fake_tensor"
SCALAR_STORES = {"dav-c220": (UB, GM)}
"""Memories that a scalar store reaches, by architecture; UB alone on the others (tik_api.md 2.1)."""
SCALAR_LOADS = {"dav-m200": (UB, GM), "dav-c220": (UB, GM)}
"""Memories that a Scalar reads an element of, by architecture; UB alone on the others (tik_api.md 2.2)."""

CORE_REGISTER, ATOMIC_REGISTER = 0, 1
"""Registers every program has: the index of the running core, and set_atomic_add's mode."""


class Frame:
    """An open block: its statements, the tensors declared in it, and how its loops multiply their buffers.

    index: the variable of the innermost loop. loop_threads: that loop's thread_num; most_threads: the largest of all
    loops around. A loop of constant zero turns multiplies nothing. life: alive until the block is closed. unreached:
    known while it is recorded never to be executed.
    """

    __slots__ = (
        "block", "buffers", "dead", "index", "kind", "life", "loop", "loop_threads", "most_threads", "unreached",
    )  # fmt: skip

    def __init__(
        self, kind: str, block: Block, outer: Frame | None, loop: OpenLoop | None = None, unreached: bool = False
    ) -> None:
        self.kind, self.block, self.loop = kind, block, loop
        self.life = loop.life if loop is not None else Life()
        self.buffers: list[Buffer] = []
        self.index: Expr | None = None
        self.dead, self.loop_threads, self.most_threads = False, 1, 1
        self.unreached: bool = unreached or (loop is not None and loop.empty) or (outer is not None and outer.unreached)
        if outer is not None:
            self.dead, self.index = outer.dead, outer.index
            self.loop_threads, self.most_threads = outer.loop_threads, outer.most_threads
        if loop is not None:
            self.dead |= loop.empty
            self.index, self.loop_threads = loop.index, loop.thread_num
            self.most_threads = max(self.most_threads, loop.thread_num)

    @property
    def copies(self) -> int:
        """How often a tensor declared here is charged: once, or in a loop with n buffers the largest n around it."""
        return self.most_threads if self.loop_threads > 1 and not self.dead else 1


@dataclass(frozen=True)
class OpenLoop:
    """What a loop means to what is declared in it; ``empty``: its bounds are equal constants. statement: the loop."""

    index: Expr
    thread_num: int
    empty: bool
    life: Life
    statement: Loop


class Recorder:
    """Takes down a kernel's statements while its Python runs once."""

    def __init__(self, soc: SoC) -> None:
        self.program = Program(soc)
        self.program.registers = 2
        self.program.scalar_names = ["core index", "atomic mode"]
        self.temporaries: set[int] = set()
        self._limits: list[Limit] = []
        self.frames = [Frame("kernel", self.program.body, None)]
        self.used_bytes = dict.fromkeys(MEMORIES, 0)
        self.program.peak_bytes = dict.fromkeys(MEMORIES, 0)

    where = staticmethod(kernel_line)
    """File and line of the kernel statement that is being recorded."""

    def emit(self, statement: Statement) -> None:
        """Appends a statement to the innermost open block. An instruction takes the limits of its symbolic numbers."""
        self.frames[-1].block.append(statement)
        self.program.statements += 1
        if self._limits and isinstance(statement, Instruction):
            statement.limits = tuple(self._limits)
            self._limits.clear()

    def instruction(
        self, row: Row, outputs: tuple[Access, ...], inputs: tuple[Access, ...], immediates: tuple[Any, ...] = ()
    ) -> None:
        """Records one call."""
        self.emit(Instruction(row, outputs, inputs, immediates, self.where()))

    def new_variable(self, name: str, dtype: str) -> Variable:
        """A fresh register."""
        self.program.registers += 1
        self.program.scalar_names.append(name)
        return Variable(self.program.registers - 1, name, dtype)

    # Blocks.

    def open(self, kind: str, block: Block, loop: OpenLoop | None = None, unreached: bool = False) -> None:
        """Opens a block; what is declared from now on lives in it."""
        self.frames.append(Frame(kind, block, self.frames[-1], loop, unreached))

    def close(self) -> None:
        """Closes the innermost block: its tensors are dead and their bytes are free again."""
        frame = self.frames.pop()
        frame.life.ended = True
        for buffer in frame.buffers:
            buffer.alive = False
            self.used_bytes[buffer.scope] -= charged_bytes(buffer)

    # Tensors.

    def shape(self, shape: Any) -> tuple[Value, ...]:
        """A shape as a tuple of ints and Exprs. Raises ShapeError."""
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        values = tuple(int(size) if isinstance(size, float) else as_value(size) for size in sizes)
        if not values or len(values) > 8 or any(not isinstance(v, Expr) and v < 1 for v in values):
            raise ShapeError(f"a shape has 1 to 8 axes of at least 1, not {describe_shape(values)}", self.where())
        return values

    def declare(self, dtype: str, shape: Any, scope: str, name: str, max_bytes: int | None = None) -> Tensor:
        """A tensor in the innermost block. Raises CapacityError, ShapeError, ScopeError, DataTypeError."""
        if dtype not in SIZES:
            raise DataTypeError(f"tensor {name}: no data type {dtype!r}; there are {', '.join(SIZES)}", self.where())
        if not isinstance(name, str) or not NAME.fullmatch(name) or name == RESERVED_NAME:
            raise TikError(f"a tensor cannot be called {name!r}: letters, digits and _ only, no digit first")
        sizes = self.shape(shape)
        elements = product(sizes)
        if scope == GM:
            return self._declare_global(dtype, sizes, elements, name)
        if scope not in MEMORIES:
            raise ScopeError(f"tensor {name}: no memory is called {scope!r}", self.where())
        if isinstance(elements, Expr):
            if max_bytes is None:
                raise ShapeError(f"tensor {name}: a symbolic shape needs max_mem_size", self.where())
            elements = max_bytes // SIZES[dtype]
        frame = self.frames[-1]
        buffer = Buffer(name, dtype, elements, scope, self.where(), frame.copies)
        if frame.copies > 1 and frame.index is not None:
            buffer.turn = frame.index % frame.loop_threads
        self._charge(buffer)
        self.emit(Declare(buffer))
        return Tensor(self, buffer, dtype, sizes)

    def _declare_global(self, dtype: str, sizes: tuple[Value, ...], elements: Value, name: str) -> Tensor:
        if any(frame.kind in ("for", "cores") for frame in self.frames):
            raise ScopeError(f"GM tensor {name} is declared inside a loop", self.where())
        buffer = Buffer(name, dtype, elements if isinstance(elements, int) else 0, GM, self.where())
        self.program.global_buffers.append(buffer)
        return Tensor(self, buffer, dtype, sizes)

    def _charge(self, buffer: Buffer) -> None:
        memory = MEMORIES[buffer.scope]
        total = memory.size(self.program.soc)
        used, needed = self.used_bytes[buffer.scope], charged_bytes(buffer)
        if used + needed > total:
            alive = [f"{b.name} {charged_bytes(b)}" for f in self.frames for b in f.buffers if b.scope == buffer.scope]
            raise CapacityError(
                f"{memory.title}: tensor {buffer.name} needs {needed} bytes, {total - used} of {total} are left; "
                f"alive there: {', '.join(alive) or 'nothing'}",
                self.where(),
            )
        buffer.address = used
        self.used_bytes[buffer.scope] = used + needed
        self.frames[-1].buffers.append(buffer)
        if used + needed > self.program.peak_bytes[buffer.scope]:
            self.program.peak_bytes[buffer.scope] = used + needed
            self.program.peak_tensors[buffer.scope] = [(frame.buffers, len(frame.buffers)) for frame in self.frames]

    # Checks that every family of calls shares.

    def number(self, name: str, value: Any, low: int, high: int) -> Value:
        """An int or symbolic number within its range. Raises RangeError."""
        if isinstance(value, Tensor):
            value = value.loaded()
        checked = as_value(value)
        if isinstance(checked, Expr):
            self._limits.append(Limit(name, checked, low, high))
            return checked
        if checked != int(checked) or not low <= checked <= high:
            raise RangeError(f"{name} is {checked}; it must be {low} to {high}", self.where())
        return int(checked)

    def aligned(self, tensor: Tensor) -> None:
        """Raises AlignmentError where a constant start address is not aligned to its memory's block.

        A symbolic one that is not seen to be a multiple is checked when the program runs.
        """
        if tensor.scope == GM:
            return
        needed, offset = start_alignment(tensor.scope), tensor.offset
        multiple = needed // SIZES[tensor.dtype]
        if isinstance(offset, Expr):
            if offset.const % multiple or any(factor % multiple for _, factor in offset.terms):
                tensor.multiple = multiple
        elif offset % multiple:
            raise AlignmentError(
                f"{tensor.name} is addressed at byte {offset * SIZES[tensor.dtype]}, which is no multiple of {needed}"
            )

    def same_dtype(self, api: str, *tensors: Tensor) -> str:
        """The data type that all operands share. Raises DataTypeError."""
        if len({tensor.dtype for tensor in tensors}) != 1:
            raise DataTypeError(
                f"{api}: operands differ in type: {', '.join(f'{t.name} {t.dtype}' for t in tensors)}", self.where()
            )
        return tensors[0].dtype

    def in_scope(self, api: str, scopes: tuple[str, ...], *tensors: Tensor) -> None:
        """Raises ScopeError where an operand lies in another memory."""
        for tensor in tensors:
            if tensor.scope not in scopes:
                raise ScopeError(
                    f"{api}: {tensor.name} lies in {tensor.scope}, not in {' or '.join(scopes)}", self.where()
                )

    def operand_value(self, api: str, value: Any, dtype: str) -> Value:
        """A scalar operand of a vector call: an immediate rounded to the type, or a register of that type."""
        if isinstance(value, Tensor):
            value = value.loaded()
        taken = as_value(value)
        if isinstance(taken, Expr):
            return taken
        if dtype not in ("float16", "float32") and is_float(taken) and taken != int(taken):
            raise DataTypeError(f"{api}: {taken} is no {dtype}", self.where())
        return round_to(dtype, taken)

    def check_load(self, tensor: Tensor, name: str) -> None:
        """Raises ScopeError where no Scalar can read an element of the tensor."""
        soc = self.program.soc
        if tensor.scope not in SCALAR_LOADS.get(soc.arch, (UB,)):
            raise ScopeError(f"Scalar {name} of {soc.name} cannot read an element of {tensor.name} in {tensor.scope}")

    def store_element(self, tensor: Tensor, value: Any) -> None:
        """Records a scalar store of one element (t[i] = v, t[i].set_as(v))."""
        soc = self.program.soc
        if tensor.scope not in SCALAR_STORES.get(soc.arch, (UB,)):
            raise ScopeError(f"{soc.name} cannot store a single element of {tensor.name} in {tensor.scope}")
        if isinstance(value, Tensor):
            taken: Value = value.loaded()
        else:
            taken = self.operand_value("set_as", value, tensor.dtype)
        if tensor.dtype == "float16" and isinstance(taken, Expr) and not isinstance(value, (Scalar, Tensor)):
            raise DataTypeError(f"an Expr cannot be stored in an element of {tensor.name}, which is float16")
        self.instruction(STORE_ELEMENT, (tensor.pattern((1,), (1,)),), (), (taken,))

    def fail(self, message: str) -> TikError:
        """A TikError at the present statement."""
        return TikError(message, self.where())
