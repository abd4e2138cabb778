"""Whether numbers are used where they live: a loop's variable, and what was computed from it, inside the loop only."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.kernels.davinci.errors import ScopeError
from autotune.kernels.davinci.expr import Expr, Value, Variable, describe, variables
from autotune.kernels.davinci.program import Access, Block, Branch, Declare, Instruction, Loop, SetScalar, Statement


class Life:
    """Whether a block is still open: what is declared in it ends with it."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = False


class LoopIndex(Expr):
    """A loop's variable, which means nothing outside its loop."""

    __slots__ = ("life",)

    def __init__(self, variable: Variable, life: Life) -> None:
        super().__init__(((variable, 1),), 0, variable.dtype)
        self.life = life

    def expr(self) -> Expr:
        """This Expr. Raises ScopeError outside the loop."""
        if self.life.ended:
            raise ScopeError(f"loop variable {describe(self)} is used outside its loop")
        return self


def check_lifetimes(block: Block, open_slots: frozenset[int] = frozenset(), closed: set[int] | None = None) -> None:
    """Raises ScopeError where a statement of the block uses the variable of a loop that it does not stand in."""
    left = set() if closed is None else closed
    for statement in block:
        for variable in _used(statement):
            if variable.slot in left and variable.slot not in open_slots:
                where = None if isinstance(statement, Declare) else statement.where
                raise ScopeError(f"a number made of loop variable {variable.name} is used outside its loop", where)
        if isinstance(statement, Loop):
            check_lifetimes(statement.body, open_slots | {statement.slot}, left)
            left.add(statement.slot)
        elif isinstance(statement, Branch):
            for _, arm in statement.arms:
                check_lifetimes(arm, open_slots, left)


def _used(statement: Statement) -> Iterator[Variable]:
    for value in _numbers(statement):
        yield from variables(value)


def _numbers(statement: Statement) -> Iterator[Value]:
    if isinstance(statement, Instruction):
        yield from statement.immediates
        for access in (*statement.outputs, *statement.inputs):
            yield from _of(access)
    elif isinstance(statement, SetScalar):
        yield from _of(statement.value) if isinstance(statement.value, Access) else (statement.value,)
    elif isinstance(statement, Loop):
        yield from (statement.start, statement.stop)
    elif isinstance(statement, Branch):
        yield from (condition for condition, _ in statement.arms)


def _of(access: Access) -> Iterator[Value]:
    yield access.offset
    yield from access.shape
    yield from access.strides
