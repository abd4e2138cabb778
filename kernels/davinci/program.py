"""A recorded kernel: a tree of statements over buffers, registers and symbolic numbers.

::

    Program    = Block, registers, inputs, outputs
    Block      = [Statement]
    Statement  = Instruction | Declare | SetScalar | Loop | Branch | Leave
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from autotune.kernels.davinci.errors import Where
from autotune.kernels.davinci.expr import Value, describe
from autotune.kernels.davinci.memory import Buffer

if TYPE_CHECKING:
    from autotune.kernels.davinci.isa import Row
    from autotune.kernels.davinci.soc import SoC


class Access:
    """Elements that one operand touches: ``shape`` and ``strides`` in elements of ``dtype``, from element ``offset``.

    Numbers may be symbolic. A zero in the shape means that nothing is touched, and nothing is checked.
    """

    __slots__ = ("buffer", "dtype", "offset", "shape", "strides")

    def __init__(
        self, buffer: Buffer, dtype: str, offset: Value, shape: tuple[Value, ...], strides: tuple[Value, ...]
    ) -> None:
        self.buffer, self.dtype, self.offset, self.shape, self.strides = buffer, dtype, offset, shape, strides

    def __repr__(self) -> str:
        shape = " x ".join(describe(size) for size in self.shape)
        return f"{self.buffer.name}[{describe(self.offset)}] {shape} {self.dtype}"


class Instruction:
    """One call: its row of the instruction table, what it writes and reads, and its other arguments.

    mask: None where every element counts, else which do: a bool array over the axes after the first, or the
    symbolic number of lanes.
    """

    __slots__ = ("immediates", "inputs", "mask", "outputs", "row", "where")

    def __init__(
        self,
        row: Row,
        outputs: tuple[Access, ...],
        inputs: tuple[Access, ...],
        immediates: tuple[Any, ...],
        where: Where,
        mask: Any = None,
    ) -> None:
        self.row, self.outputs, self.inputs, self.immediates, self.where = row, outputs, inputs, immediates, where
        self.mask = mask


class Declare:
    """A local tensor begins to live: its contents are undefined again."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer


class SetScalar:
    """A register takes a value: a number, an Expr, or one element of a tensor."""

    __slots__ = ("dtype", "slot", "value", "where")

    def __init__(self, slot: int, dtype: str, value: Value | Access, where: Where) -> None:
        self.slot, self.dtype, self.value, self.where = slot, dtype, value, where


class Loop:
    """for_range. ``block_num`` over 1 makes it the loop over cores; ``thread_num`` counts its buffers in turn."""

    __slots__ = ("block_num", "body", "slot", "start", "stop", "thread_num", "where")

    def __init__(
        self, slot: int, start: Value, stop: Value, thread_num: int, block_num: int, body: Block, where: Where
    ) -> None:
        self.slot, self.start, self.stop, self.body, self.where = slot, start, stop, body, where
        self.thread_num, self.block_num = thread_num, block_num


class Branch:
    """if_scope with its elif_scopes and else_scope: the first arm whose condition holds is run."""

    __slots__ = ("arms", "where")

    def __init__(self, arms: list[tuple[Value, Block]], where: Where) -> None:
        self.arms, self.where = arms, where


@dataclass(frozen=True)
class Leave:
    """tik_break, tik_continue or tik_return."""

    kind: str
    where: Where


Statement: TypeAlias = "Instruction | Declare | SetScalar | Loop | Branch | Leave"
Block: TypeAlias = list[Statement]


@dataclass
class Program:
    """A kernel as BuildCCE leaves it."""

    soc: SoC
    body: Block = field(default_factory=list)
    registers: int = 0
    kernel_name: str = ""
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    global_buffers: list[Buffer] = field(default_factory=list)
    block_num: int = 1
    peak_bytes: dict[str, int] = field(default_factory=dict)
    statements: int = 0
