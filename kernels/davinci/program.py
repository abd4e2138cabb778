"""A recorded kernel: a tree of statements over buffers, registers and symbolic numbers.

::

    Program    = Block, registers, inputs, outputs
    Block      = [Statement]
    Statement  = Instruction | Declare | SetScalar | Loop | Branch | Leave | Print
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from autotune.kernels.davinci.errors import Where
from autotune.kernels.davinci.expr import Value, describe
from autotune.kernels.davinci.memory import MEMORIES, Buffer, charged_bytes

if TYPE_CHECKING:
    from autotune.kernels.davinci.isa import Row
    from autotune.kernels.davinci.limits import Limit
    from autotune.kernels.davinci.soc import SoC


class Access:
    """Elements that one operand touches: ``shape`` and ``strides`` in elements of ``dtype``, from element ``offset``.

    Numbers may be symbolic. A zero in the shape means that nothing is touched, and nothing is checked.
    multiple: what a symbolic offset must be a multiple of when the program runs.
    """

    __slots__ = ("buffer", "dtype", "multiple", "offset", "shape", "strides")

    def __init__(
        self,
        buffer: Buffer,
        dtype: str,
        offset: Value,
        shape: tuple[Value, ...],
        strides: tuple[Value, ...],
        multiple: int = 1,
    ) -> None:
        self.buffer, self.dtype, self.offset, self.shape, self.strides = buffer, dtype, offset, shape, strides
        self.multiple = multiple

    def __repr__(self) -> str:
        shape = " x ".join(describe(size) for size in self.shape)
        return f"{self.buffer.name}[{describe(self.offset)}] {shape} {self.dtype}"


class Instruction:
    """One call: its row of the instruction table, what it writes and reads, and its other arguments.

    mask: None where every element counts, else which do: a bool array over the axes after the first, or the
    symbolic number of lanes. limits: what its symbolic numbers must keep.
    """

    __slots__ = ("immediates", "inputs", "limits", "mask", "outputs", "row", "where")

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
        self.limits: tuple[Limit, ...] = ()


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
    """if_scope with its elif_scopes and else_scope: the first arm whose condition holds is run.

    complete: it has its else_scope, and takes no further arm.
    """

    __slots__ = ("arms", "complete", "where")

    def __init__(self, arms: list[tuple[Value, Block]], where: Where) -> None:
        self.arms, self.where = arms, where
        self.complete = False


@dataclass(frozen=True)
class Leave:
    """tik_break, tik_continue or tik_return."""

    kind: str
    where: Where


@dataclass(frozen=True)
class Print:
    """debug_print: ``show`` takes a function that gives Scalars, Exprs and Tensors their present values."""

    show: Callable[[Callable[[Any], Any]], None]
    where: Where


Statement: TypeAlias = "Instruction | Declare | SetScalar | Loop | Branch | Leave | Print"
Block: TypeAlias = list[Statement]


@dataclass
class Program:
    """A kernel as BuildCCE leaves it.

    peak_bytes: the most bytes in use at once, for each memory. peak_tensors: for each memory, the buffers of the
    blocks open at that moment, and how many of each block's list there were. scalar_names: registers by their slot.
    """

    soc: SoC
    body: Block = field(default_factory=list)
    registers: int = 0
    kernel_name: str = ""
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    global_buffers: list[Buffer] = field(default_factory=list)
    block_num: int = 1
    peak_bytes: dict[str, int] = field(default_factory=dict)
    peak_tensors: dict[str, list[tuple[list[Buffer], int]]] = field(default_factory=dict)
    scalar_names: list[str] = field(default_factory=list)
    statements: int = 0

    def summary(self) -> str:
        """The kernel in a few lines: its size, and for each memory the most bytes in use and by which tensors."""
        lines = [f"{self.kernel_name} for {self.soc.name}: {self.statements} statements, block_num {self.block_num}"]
        for scope, peak in self.peak_bytes.items():
            if peak:
                total = MEMORIES[scope].size(self.soc)
                lines.append(f"{MEMORIES[scope].title}: at most {peak} of {total} bytes ({peak / total:.0%})")
                alive = [b for buffers, count in self.peak_tensors[scope] for b in buffers[:count] if b.scope == scope]
                lines += [_charge(b) for b in sorted(alive, key=charged_bytes, reverse=True)]
        return "\n".join(lines)


def _charge(buffer: Buffer) -> str:
    copies = f" ({buffer.copies} copies)" if buffer.copies > 1 else ""
    file, line = buffer.where
    return f"  {charged_bytes(buffer):>8}  {buffer.name} {buffer.dtype}{copies}  {file}:{line}"
