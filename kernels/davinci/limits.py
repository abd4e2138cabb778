"""Numbers that are known only when the kernel runs, and the ranges they must then keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci.errors import RangeError, Where
from autotune.kernels.davinci.expr import Expr, Registers, describe, evaluator


@dataclass(frozen=True)
class Limit:
    """An argument of an instruction given as ``value``; it must then be ``low`` to ``high``.

    A repeat or burst of 0 does nothing when the kernel runs, though no constant may say so.
    """

    name: str
    value: Expr
    low: int
    high: int

    def check(self, number: int, api: str, where: Where) -> None:
        """Raises RangeError where the number is outside the range."""
        if number and not self.low <= number <= self.high:
            raise RangeError(
                f"{api}: {self.name} = {describe(self.value)} is {number} here; it must be {self.low} to {self.high}",
                where,
            )


def guarded(limits: tuple[Limit, ...], api: str, where: Where, step: Callable[[Registers], Any]) -> Any:
    """The step, preceded by a check of its numbers."""
    checks = [(limit, evaluator(limit.value)) for limit in limits]

    def checked(r: Registers) -> Any:
        for limit, value in checks:
            limit.check(value(r), api, where)
        return step(r)

    return checked
