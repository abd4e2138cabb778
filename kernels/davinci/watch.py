"""Running a program while somebody watches: every statement on its own, its operands at their concrete places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import Undefined, Where
from autotune.kernels.davinci.expr import Registers
from autotune.kernels.davinci.interpreter import Linker, Step
from autotune.kernels.davinci.masks import lane_mask
from autotune.kernels.davinci.memory import SIZES, Buffer
from autotune.kernels.davinci.operands import getter
from autotune.kernels.davinci.program import (
    Access,
    Block,
    Declare,
    Instruction,
    Loop,
    Program,
    SetScalar,
    Statement,
)
from autotune.kernels.davinci.recorder import ATOMIC_REGISTER, CORE_REGISTER


@dataclass(frozen=True)
class Touched:
    """An operand of an executed instruction: elements of ``dtype``, shape and strides in elements."""

    buffer: Buffer
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def cells(self, flags: np.ndarray, start: int = 0) -> np.ndarray:
        """This operand's bytes, as its shape with an axis for the bytes of an element, in an array of one flag a byte.

        start: the byte that the first flag stands for.
        """
        size = SIZES[self.dtype]
        strides = (*(stride * size for stride in self.strides), 1)
        return np.ndarray((*self.shape, size), flags.dtype, flags, self.offset * size - start, strides)

    def span(self) -> tuple[int, int]:
        """First byte, and the one behind the last."""
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides)]
        low, high = (self.offset + sum(clip(0, step) for step in reach) for clip in (min, max))
        return low * SIZES[self.dtype], (high + 1) * SIZES[self.dtype]

    def element(self, position: Sequence[Any]) -> int:
        """The element of the buffer at a position of the shape."""
        return self.offset + sum(int(at) * stride for at, stride in zip(position, self.strides))

    def __str__(self) -> str:
        axes = [f"{n}@{stride}" for n, stride in zip(self.shape, self.strides) if n > 1]
        return f"{self.buffer.name}[{self.offset}] {' x '.join(axes) or '1'} {self.dtype}"


@dataclass(frozen=True)
class Executed:
    """One executed call. mask: which positions of the axes after the first count; None where all do.

    atomic: whether moves to GM add. numbers: its immediates.
    """

    name: str
    where: Where
    core: int
    instruction: Instruction | SetScalar
    outputs: tuple[Touched, ...]
    inputs: tuple[Touched, ...]
    mask: np.ndarray | None
    atomic: bool
    numbers: tuple[Any, ...]


class Watcher:
    """Is told what happens. Operands without elements, as of a repeat of 0, are not told."""

    def declare(self, buffer: Buffer) -> None:
        """A local tensor begins to live."""

    def before(self, executed: Executed) -> None:
        """A call, or a Scalar taking a value, is about to happen."""

    def after(self, executed: Executed) -> None:
        """It has happened."""


class Unset:
    """The value of a Scalar that nothing set: any use of it raises Undefined."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _use(self, *others: Any) -> Any:
        raise Undefined(f"Scalar {self._name} is used before anything set it")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __array__ = _use
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _use
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __abs__ = __float__ = __int__ = _use
    __index__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __trunc__ = _use
    __hash__ = None  # type: ignore[assignment]


class WatchedLinker(Linker):
    """Tells watchers of each statement. unset_scalars: a Scalar has no value before it is set."""

    def __init__(self, saturate: bool, watchers: Sequence[Watcher], unset_scalars: bool) -> None:
        super().__init__(saturate)
        self._watchers, self._unset_scalars = watchers, unset_scalars

    def registers(self, program: Program) -> Registers:
        """The registers of a core before its first statement."""
        if not self._unset_scalars:
            return super().registers(program)
        registers: Registers = [Unset(name) for name in program.scalar_names]
        registers[ATOMIC_REGISTER] = 0
        return registers

    def statements(self, block: Block) -> Iterator[Statement]:
        """Every statement on its own."""
        return iter(block)

    def whole_loop(self, loop: Loop) -> Any:
        """None: every turn on its own."""
        return None

    def declare(self, statement: Declare) -> Step:
        """Undefined contents for a local tensor."""
        step = super().declare(statement)

        def declare(r: Registers) -> None:
            step(r)
            for watcher in self._watchers:
                watcher.declare(statement.buffer)

        return declare

    def set_scalar(self, statement: SetScalar) -> Step:
        """A register takes a value."""
        loads = (statement.value,) if isinstance(statement.value, Access) else ()
        numbers = () if loads else (statement.value,)
        link = super().set_scalar
        return self._watched("set_as", statement, lambda: link(statement), (), loads, numbers)

    def instruction(self, instruction: Instruction) -> Step:
        """One call."""
        name, link = instruction.row.name, super().instruction
        accesses = (instruction.outputs, instruction.inputs)
        return self._watched(name, instruction, lambda: link(instruction), *accesses, instruction.immediates)

    def _watched(
        self,
        name: str,
        statement: Instruction | SetScalar,
        link: Callable[[], Step],
        outputs: tuple[Access, ...],
        inputs: tuple[Access, ...],
        numbers: tuple[Any, ...],
    ) -> Step:
        places, mask = [*map(_place, (*outputs, *inputs))], _mask_of(statement)
        values = [getter(number) for number in numbers]
        linked: list[Step] = []

        def watched(r: Registers) -> None:
            touched = [place(r) for place in places]
            if not all(map(all, (one.shape for one in touched))):
                return
            executed = Executed(
                name, statement.where, r[CORE_REGISTER], statement, tuple(touched[: len(outputs)]),
                tuple(touched[len(outputs) :]), mask(r, touched), bool(r[ATOMIC_REGISTER]),
                tuple(_known(value(r)) for value in values),
            )  # fmt: skip
            for watcher in self._watchers:
                watcher.before(executed)
            if not linked:
                linked.append(link())
            linked[0](r)
            for watcher in self._watchers:
                watcher.after(executed)

        return watched


def _known(value: Any) -> Any:
    """The value. Raises Undefined for one that nothing set."""
    if isinstance(value, Unset):
        bool(value)
    return value


def _place(access: Access) -> Callable[[Registers], Touched]:
    numbers = [getter(number) for number in (access.offset, *access.shape, *access.strides)]
    rank = len(access.shape)

    def place(r: Registers) -> Touched:
        offset, *rest = [index(number(r)) for number in numbers]
        shape = tuple(max(size, 0) for size in rest[:rank])
        return Touched(access.buffer, access.dtype, offset, shape, tuple(rest[rank:]))

    return place


def _mask_of(statement: Instruction | SetScalar) -> Callable[[Registers, list[Touched]], np.ndarray | None]:
    mask = lane_mask(statement.mask) if isinstance(statement, Instruction) else None
    if mask is None:
        return lambda r, touched: None
    lanes = mask
    return lambda r, touched: lanes(r, touched[-1].shape[1:])
