"""What can be wrong with a TIK program, told at record time where TIK tells it, else when it runs.

::

    TikError (RuntimeError)
    ├── CapacityError       a tensor does not fit in what is left of its memory
    ├── ScopeError          a tensor or scalar is used outside the block it lives in, or in the wrong memory
    ├── RangeError          a number is outside the range its instruction allows
    ├── AlignmentError      a start address is not aligned as its memory needs
    ├── DataTypeError       operand types an instruction does not take
    ├── ShapeError          a shape, slice or index that cannot be
    ├── OutOfBounds         an executed instruction reaches beyond its tensor
    └── FeedError           start_debug was fed other arrays than BuildCCE named
    NotEmulated (NotImplementedError): a documented call that this emulator does not run

Every message ends with the file and line of the kernel statement, where there is one.
"""

from __future__ import annotations

from typing import Any

Where = tuple[str, int]
"""File name and line number of a kernel statement."""


class TikError(RuntimeError):
    """A TIK program is wrong. ``where`` is the kernel statement's file and line."""

    def __init__(self, message: str, where: Where | None = None) -> None:
        super().__init__(f"{message} ({where[0]}:{where[1]})" if where else message)
        self.where = where


class CapacityError(TikError):
    """A tensor does not fit in its memory; the message names both sizes and what else is alive."""


class ScopeError(TikError):
    """Something is used outside the block it lives in, or sits in a memory the instruction cannot reach."""


class RangeError(TikError):
    """A number is outside its instruction's range; the message names the range and the number."""


class AlignmentError(TikError):
    """A constant start address is not aligned as its memory needs."""


class DataTypeError(TikError):
    """Operand types that an instruction does not take."""


class ShapeError(TikError):
    """A shape, slice or index that cannot be."""


class OutOfBounds(TikError):
    """An executed instruction reaches beyond its tensor."""


class FeedError(TikError):
    """start_debug was fed other arrays than BuildCCE named."""


class NotEmulated(NotImplementedError):
    """A documented TIK call that this emulator does not run."""

    def __init__(self, api: str, detail: Any = "") -> None:
        super().__init__(f"tik.{api} is not emulated{': ' + str(detail) if detail else ''}")
