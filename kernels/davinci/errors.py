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
    ├── UninitialisedRead   memory or a Scalar is read that nothing wrote (strict mode)
    ├── OverlapError        an instruction overwrites what it has yet to read (strict mode)
    ├── RaceError           two cores write the same bytes of GM (strict mode)
    └── FeedError           start_debug was fed other arrays than BuildCCE named
    NotEmulated (NotImplementedError): a documented call that this emulator does not run

Every message ends with the file and line of the kernel statement.
"""

from __future__ import annotations

import os
import sys
from typing import Any

Where = tuple[str, int]
"""File name and line number of a kernel statement."""

_HERE = os.path.dirname(os.path.abspath(__file__))


def kernel_line() -> Where:
    """File and line of the innermost caller that is no part of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class TikError(RuntimeError):
    """A TIK program is wrong. ``where`` is the kernel statement's file and line: by default the one being recorded."""

    def __init__(self, message: str, where: Where | None = None) -> None:
        self.where = where or kernel_line()
        super().__init__(f"{message} ({self.where[0]}:{self.where[1]})")


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


class UninitialisedRead(TikError):
    """Something is read that was never written; the message names it and the first such element."""


class Undefined(ArithmeticError):
    """Raised by the value of a Scalar that nothing set; the statement that uses it raises UninitialisedRead."""


class OverlapError(TikError):
    """Source and destination of one instruction overlap in a way that the documentation forbids."""


class RaceError(TikError):
    """Two cores write the same bytes of GM without atomic addition; ``where`` is the second write."""


class FeedError(TikError):
    """start_debug was fed other arrays than BuildCCE named."""


class NotEmulated(NotImplementedError):
    """A documented TIK call that this emulator does not run."""

    def __init__(self, api: str, detail: Any = "") -> None:
        self.where = kernel_line()
        reason = f": {detail}" if detail else ""
        super().__init__(f"tik.{api} is not emulated{reason} ({self.where[0]}:{self.where[1]})")
