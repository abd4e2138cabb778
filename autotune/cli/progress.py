"""A sweep's progress on stderr: a live bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from autotune import text
from autotune.problem import AttentionProblem
from autotune.report import Begun, Event, Notify, Result, Tried, Warned, time_us

LINE_SECONDS = 5.0
"""Between two lines that say nothing new."""
MOST_BARS = 12
"""Of problems at a time: a terminal has few lines."""


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
    """A bar for each problem that is being tuned, of those that wait those seen last, and one for all."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._all = progress.add_task("problems", total=None, says="")
        self._bars: dict[AttentionProblem, TaskID] = {}

    def __call__(self, event: Event) -> None:
        progress = self._progress
        match event:
            case Begun():
                name = text.of_problem(event.problem)
                self._bars[event.problem] = progress.add_task(name, total=None, completed=event.known, says="")
                self._show_few()
                progress.update(self._all, total=event.total)
            case Tried():
                bar = self._bars.pop(event.trial.problem)
                self._bars[event.trial.problem] = bar  # the last one now
                progress.update(bar, total=event.planned, completed=event.done, says=_standing(event), visible=True)
                self._show_few()
                progress.update(self._all, says=_left(event))
            case Warned():
                progress.console.print(f"warning: {event.text}", markup=False, highlight=False)
            case Result():
                progress.console.print(_ended(event), markup=False, highlight=False, soft_wrap=True)
                progress.remove_task(self._bars.pop(event.problem))
                progress.advance(self._all)

    def _show_few(self) -> None:
        for bar in list(self._bars.values())[:-MOST_BARS]:
            self._progress.update(bar, visible=False)


class Lines:
    """A line for each problem, each better plan, and now and then; with the problem's number where there are more."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._said_at = -LINE_SECONDS
        self._numbers: dict[AttentionProblem, str] = {}
        self._bests: dict[AttentionProblem, float | None] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case Begun():
                self._numbers[event.problem] = f"{event.number}: " if event.total > 1 else ""
                known = f", {event.known} known" if event.known else ""
                of = f"problem {event.number} of {event.total}"
                self._say(f"{of}: {text.of_problem(event.problem)}: {event.candidates} candidates{known}")
            case Tried():
                self._tried(event)
            case Warned():
                self._say(f"warning: {event.text}")
            case Result():
                self._say(f"  {self._numbers[event.problem]}done: {event.tried} new trials")

    def _tried(self, event: Tried) -> None:
        problem, best = event.trial.problem, time_us(event.best.outcome) if event.best else None
        if best != self._bests.get(problem) or self._clock() - self._said_at >= LINE_SECONDS:
            tried = f"{text.of_plan(event.trial.plan)}: {text.of_outcome(event.trial.outcome)}"
            where = f"{self._numbers.get(problem, '')}{event.done}/{event.planned}"
            self._say(f"  {where}  {tried}  ({_standing(event)}, {_left(event)})")
        self._bests[problem] = best

    def _say(self, line: str) -> None:
        self._said_at = self._clock()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _standing(event: Tried) -> str:
    """Best so far, and how much faster than the default."""
    best = time_us(event.best.outcome) if event.best else None
    gain = f", {event.default_time_us / best:.2f} x the default" if best and event.default_time_us else ""
    return f"best {text.of_time(best)}{gain}"


def _left(event: Tried) -> str:
    return f"{text.of_seconds(event.seconds_left)} left"


def _ended(result: Result) -> str:
    best = result.best
    if best is None:
        return f"{text.of_problem(result.problem)}: no plan works"
    gain = f" ({text.of_speedup(best.speedup_over_default)})" if best.speedup_over_default else ""
    return f"{text.of_problem(result.problem)}: {text.of_time(best.timing.time_us)}{gain}"
