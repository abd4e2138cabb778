"""How programs are run besides what they say themselves: strictly, traced, cores in another order.

::

    with davinci.strict(), davinci.traced("kernel.trace"):
        tik_instance.tikdb.start_debug(feed_dict, False)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from autotune.kernels.davinci.program import Program


@dataclass(frozen=True)
class Options:
    """strict: report what only a real chip would make go wrong. trace: where each executed instruction is written.
    core_seed: run the cores in an order drawn from it. built: called with each program that BuildCCE ends."""

    strict: bool = False
    trace: TextIO | None = None
    core_seed: int | None = None
    built: Callable[[Program], None] | None = None


_current: ContextVar[Options] = ContextVar("options")


def current() -> Options:
    """The options in force."""
    return _current.get(Options())


@contextmanager
def using(**changes: Any) -> Iterator[None]:
    """Other options for a while: the fields of Options."""
    token = _current.set(replace(current(), **changes))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def strict() -> Iterator[None]:
    """Reports reads of what nothing wrote, overlaps, races between cores, and GM arrays shorter than declared.

    Many times slower. The errors are UninitialisedRead, OverlapError, RaceError, OutOfBounds and FeedError.
    """
    with using(strict=True):
        yield


@contextmanager
def traced(path: str) -> Iterator[None]:
    """Writes a line for each executed instruction to a file: core, pipe, instruction, operands, kernel line."""
    with open(path, "w", encoding="utf-8") as file, using(trace=file):
        yield


@contextmanager
def shuffled_cores(seed: int) -> Iterator[None]:
    """Runs the cores in an order drawn from ``seed``, to see what atomic additions in another order change."""
    with using(core_seed=seed):
        yield
