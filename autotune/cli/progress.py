"""A sweep's progress on stderr: a live bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from autotune import text
from autotune.report import Begun, Event, Notify, Result, Tried, Warned, time_us

LINE_SECONDS = 5.0
"""Between two lines that say nothing new."""


@contextmanager
def shown(console: Console) -> Iterator[Notify]:
    """Takes a sweep's events and shows them on the console until it is left."""
    if not console.is_terminal:
        yield Lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TextColumn("{task.fields[says]}"))
    with Progress(*columns, console=console) as progress:
        yield Bars(progress)


class Bars:
    """One bar for each problem."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, event: Event) -> None:
        match event:
            case Begun():
                self._progress.add_task(text.of_problem(event.problem), total=None, completed=event.known, says="")
            case Tried():
                bar = self._progress.task_ids[-1]
                self._progress.update(bar, total=event.planned, completed=event.done, says=_standing(event))
            case Warned():
                self._progress.console.print(f"warning: {event.text}", markup=False, highlight=False)
            case Result():
                self._progress.update(self._progress.task_ids[-1], total=sum(event.statuses.values()))


class Lines:
    """A line for each problem, each better plan, and now and then."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._said_at = -LINE_SECONDS
        self._best: float | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case Begun():
                known = f", {event.known} known" if event.known else ""
                of = f"problem {event.number} of {event.total}"
                self._say(f"{of}: {text.of_problem(event.problem)}: {event.candidates} candidates{known}")
                self._best = None
            case Tried():
                self._tried(event)
            case Warned():
                self._say(f"warning: {event.text}")
            case Result():
                self._say(f"  done: {event.tried} new trials")

    def _tried(self, event: Tried) -> None:
        best = time_us(event.best.outcome) if event.best else None
        if best != self._best or self._clock() - self._said_at >= LINE_SECONDS:
            tried = f"{text.of_plan(event.trial.plan)}: {text.of_outcome(event.trial.outcome)}"
            self._say(f"  {event.done}/{event.planned}  {tried}  ({_standing(event)})")
        self._best = best

    def _say(self, line: str) -> None:
        self._said_at = self._clock()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _standing(event: Tried) -> str:
    """Best so far, how much faster than the default, time left."""
    best = time_us(event.best.outcome) if event.best else None
    gain = f", {event.default_time_us / best:.2f} x the default" if best and event.default_time_us else ""
    return f"best {text.of_time(best)}{gain}, {text.of_seconds(event.seconds_left)} left"
