"""A night's report as sections of sentences and tables, on a terminal and in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.table import Table

from autotune import text
from autotune.night import Night, Trouble, Tuned
from autotune.outcome import BestPlan

MOST_TROUBLES = 12
"""Causes of failure that are listed; the others are counted."""
MOST_WANTED = 20
MOST_WORDS = 160
"""Characters of a reason."""
MARKS = "▁▂▃▄▅▆▇█"
MOST_MARKS = 16
"""Characters of a curve."""

CHANGES = {
    "new": "new",
    "faster": "faster",
    "same": "unchanged",
    "stale": "of another kernel or clock",
    "none": "without a plan that works",
}
"""In the order of the headline."""


@dataclass(frozen=True)
class Section:
    """A title, a sentence or two, and a table; rows may be none."""

    title: str
    words: str
    headings: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()


def headline(night: Night) -> str:
    """The night in a few sentences."""
    if not night.tuned:
        return f"Nothing was tried since {night.since}."
    statuses = night.statuses
    chips = ", ".join(sorted({each.device for each in night.tuned}))
    parts = ", ".join(f"{statuses[name]} {name}" for name in ("timed", "rejected", "failed") if statuses[name])
    worked = f"{_count(len(night.tuned), 'problem')} on {chips}: {_count(statuses.total(), 'trial')} ({parts})"
    gain = f" Geometric mean of the gains over the default: {night.mean_gain:.2f} x." if night.mean_gain else ""
    changes = Counter(each.changed for each in night.tuned)
    changed = ", ".join(f"{changes[name]} {words}" for name, words in CHANGES.items() if changes[name])
    return f"{worked} in {text.of_seconds(_seconds(night))}.{gain} Since last time: {changed}."


def sections(night: Night, curves: bool = True) -> list[Section]:
    """What was tuned, what failed, what is wanted; curves: with the course of each best time in characters."""
    return [section for section in (_tuned(night, curves), _troubles(night), _wanted(night)) if section]


def show(night: Night, console: Console) -> None:
    """On a terminal."""
    console.print(headline(night), markup=False, highlight=False, soft_wrap=True)
    for section in sections(night):
        console.print()
        console.print(section.title, style="bold", markup=False)
        console.print(section.words, markup=False, highlight=False, soft_wrap=True)
        table = Table(*section.headings, highlight=False)
        for row in section.rows:
            table.add_row(*row)
        console.print(table, markup=False)


def markdown(night: Night) -> str:
    """A page in Markdown."""
    parts = [f"# {title(night)}", headline(night)]
    for section in sections(night):
        parts += [f"## {section.title}", section.words]
        lines = [section.headings, tuple("---" for _ in section.headings), *section.rows]
        parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
    return "\n\n".join(part for part in parts if part) + "\n"


def title(night: Night) -> str:
    """With the day on which the night ended."""
    return f"Tuning report of {(night.last or night.since)[:10]}"


def _tuned(night: Night, curves: bool) -> Section | None:
    if not night.tuned:
        return None
    chips = len({each.device for each in night.tuned}) > 1
    clocks = sorted({f"{b.timing.kind} times, {b.timing.clock}" for b in _bests(night)})
    headings = ("problem", *(["chip"] if chips else []), "default", "best", "gain", "plan", "sure", "trials")
    headings = (*headings, *(["best time, trial by trial"] if curves else []), "since last time")
    order = sorted(night.tuned, key=lambda each: -(each.gain or 0.0))
    rows = [_row(each, chips, curves) for each in order]
    words = f"Clock: {'; '.join(clocks) or 'no plan works'}."
    return Section("What was tuned", words, headings, rows)


def _row(tuned: Tuned, chip: bool, curve: bool) -> tuple[str, ...]:
    best = tuned.best
    return (
        text.of_problem(tuned.problem),
        *([tuned.device] if chip else []),
        text.of_time(best.default_time_us) if best and best.default_time_us else "fails",
        text.of_time(best.timing.time_us) if best else "-",
        text.of_speedup(tuned.gain),
        text.of_plan(best.plan) if best else "-",
        _sure(best),
        _trials(tuned.statuses),
        *([_marks(tuned.best_us)] if curve else []),
        _since(tuned),
    )


def _sure(best: BestPlan | None) -> str:
    """Emulated: how often the plan stays the fastest. Measured: half of the runs lie within so much of the time."""
    if best is None or (best.timing.stays_best is None and not best.timing.samples):
        return "-"
    if best.timing.stays_best is not None:
        return f"{best.timing.stays_best:.0%}"
    return f"±{best.timing.spread_us / best.timing.time_us / 2:.1%}"


def _trials(statuses: dict[str, int]) -> str:
    others = [f"{statuses[name]} {name}" for name in ("rejected", "failed") if statuses.get(name)]
    return ", ".join([str(sum(statuses.values())), *others])


def _since(tuned: Tuned) -> str:
    goes_on = "; not finished" if tuned.best and not tuned.best.finished else ""
    words = CHANGES[tuned.changed]
    if tuned.before and tuned.gain_since:
        words = f"{tuned.gain_since:.2f} x faster, was {text.of_plan(tuned.before.plan)}"
    return words + goes_on


def _marks(best_us: Sequence[float | None]) -> str:
    """The course of the best time, in at most MOST_MARKS characters: the highest is the slowest."""
    known = [time for time in best_us if time is not None]
    if not known:
        return ""
    chosen = [best_us[index * len(best_us) // MOST_MARKS] for index in range(min(MOST_MARKS, len(best_us)))]
    if len(best_us) <= MOST_MARKS:
        chosen = list(best_us)
    low, high = min(known), max(known)
    scale = (len(MARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if time is None else MARKS[round((time - low) * scale)] for time in chosen)


def _troubles(night: Night) -> Section | None:
    if not night.troubles:
        return None
    listed, left = night.troubles[:MOST_TROUBLES], night.troubles[MOST_TROUBLES:]
    more = f" {_count(sum(each.trials for each in left), 'trial')} more for {len(left)} other reasons." if left else ""
    words = f"Reasons that differ in their numbers alone count as one; the plan is the first that met it.{more}"
    headings = ("trials", "problems", "at", "why", "plan")
    return Section("What failed, and why", words, headings, [_trouble(each) for each in listed])


def _trouble(trouble: Trouble) -> tuple[str, ...]:
    reason = " ".join(trouble.example.split())
    reason = reason if len(reason) <= MOST_WORDS else reason[: MOST_WORDS - 3] + "..."
    return str(trouble.trials), str(trouble.problems), trouble.stage, reason, text.of_plan(trouble.plan)


def _wanted(night: Night) -> Section | None:
    if not night.wanted:
        return None
    words = "Asked of /best, and no finished sweep has an answer; autotune sweep --wanted takes these."
    rows = [
        (text.of_problem(each.problem), each.device, str(each.count), each.last_at)
        for each in night.wanted[:MOST_WANTED]
    ]
    if len(night.wanted) > len(rows):
        words += f" The {len(rows)} most asked of {len(night.wanted)}."
    return Section("What is still wanted", words, ("problem", "chip", "times asked", "last"), rows)


def _bests(night: Night) -> list[BestPlan]:
    return [each.best for each in night.tuned if each.best]


def _seconds(night: Night) -> float:
    """From the first trial's end to the last one's."""
    if night.first is None or night.last is None:
        return 0.0
    return (datetime.fromisoformat(night.last) - datetime.fromisoformat(night.first)).total_seconds()


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
