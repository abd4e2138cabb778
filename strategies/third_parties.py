"""Strategies that other people's packages bring, by entry point ``autotune.strategies``.

Their code may raise anything: this is the one place that catches everything, and it turns it into a sentence.
Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from importlib import metadata
from itertools import islice
from typing import Callable, Dict, Iterable, Iterator, List, Tuple

from autotune.errors import InvalidInput, PlanError
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

GROUP = "autotune.strategies"
"""The entry point's value names a module or a class whose import registers the strategy."""
BUILT_IN = "built-in"
MAX_PLANS = 1 << 17
"""Plans taken from one third-party strategy: a generator without end must not stop a sweep."""
MAX_SECONDS = 20.0
"""For the plans of one third-party strategy for one problem."""

_distributions: Dict[str, str] = {}
"""Top-level module to the distribution whose entry point named it."""


def load() -> Tuple[str, ...]:
    """Imports what the entry points name. Returns one sentence for each that raised."""
    warnings: List[str] = []
    for distribution, point in _entry_points():
        _distributions[point.value.partition(":")[0].partition(".")[0]] = distribution
        try:
            point.load()
        except Exception as error:  # noqa: BLE001  other people's code may raise anything
            warnings.append(f"strategy {point.name!r} of {distribution} cannot be imported: {_text(error)}")
    return tuple(warnings)


def origin(strategy: type) -> str:
    """``built-in``, or the distribution that brought the strategy; its module where no entry point named it."""
    if strategy.__module__.startswith("autotune.strategies."):
        return BUILT_IN
    return _distributions.get(strategy.__module__.partition(".")[0], strategy.__module__)


def guarded(
    name: str, plans: Callable[[], Iterable[TilingPlan]], problem: AttentionProblem
) -> Tuple[List[TilingPlan], List[str]]:
    """The legal plans of a third-party strategy up to its first error, and that error as a sentence."""
    found: List[TilingPlan] = []
    try:
        with _interrupted_after(MAX_SECONDS):
            for plan in islice(plans(), MAX_PLANS + 1):
                _check(plan, len(found), problem)
                found.append(plan)
    except Exception as error:  # noqa: BLE001  other people's code may raise anything
        return found, [f"strategy {name!r} stopped after {len(found)} plan(s): {_text(error)}"]
    return found, []


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the block, and again each second for code that catches it.

    Python interrupts the main thread alone, and no loop in C. A timer that was set before goes on afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise TimeoutError(f"it takes more than {seconds:g} s")

    handler = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _check(plan: object, position: int, problem: AttentionProblem) -> None:
    if position == MAX_PLANS:
        raise InvalidInput(f"it yields more than {MAX_PLANS} plans")
    if not isinstance(plan, TilingPlan):
        raise PlanError(f"it yielded {plan!r:.80}, which is no TilingPlan")
    plan.check_lengths(problem)


def _entry_points() -> Iterator[Tuple[str, metadata.EntryPoint]]:
    """Our group's entry points with their distribution's name; one found twice on the path counts once."""
    seen = set()
    for distribution in metadata.distributions():
        for point in distribution.entry_points:
            if point.group == GROUP and (point.name, point.value) not in seen:
                seen.add((point.name, point.value))
                yield distribution.metadata["Name"], point


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
