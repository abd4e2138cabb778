"""Times over Br and Bc as a map: which cells there are, what is known of each, and where each is drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autotune import text
from autotune.errors import PlanRejected
from autotune.outcome import Failed, Rejected, Timed, Trial
from autotune.plan import TILE, TilingPlan, pad
from autotune.problem import AttentionProblem

LEVELS = (1.01, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
"""Where a colour ends, as multiples of the fastest time: finer where plans are close."""
MOST_SIZES = 24
"""Block heights of either side; more would be cells too small to read."""
MOST_SMALL = 12
"""Small maps beside the large one."""

TIMED, ILLEGAL, FAILED, UNTRIED = "timed", "illegal", "failed", "untried"

Check = Callable[[AttentionProblem, TilingPlan], None]


@dataclass(frozen=True)
class Cell:
    """A pair of block heights. state: TIMED, ILLEGAL, FAILED or UNTRIED; ``words`` says what there is to say.

    level: 0 for the fastest to len(LEVELS), None where nothing was timed.
    """

    Br: int
    Bc: int
    state: str
    words: str
    time_us: float | None = None
    level: int | None = None


@dataclass(frozen=True)
class HeatMap:
    """The cells of every Br (from above, the smallest first) and Bc (from the left)."""

    title: str
    Br: Sequence[int]
    Bc: Sequence[int]
    cells: Sequence[Cell]

    @cached_property
    def rows(self) -> list[list[Cell]]:
        """The cells of each Br."""
        return [[cell for cell in self.cells if cell.Br == Br] for Br in self.Br]

    @property
    def fastest(self) -> Cell | None:
        """The cell with the least time."""
        return min((c for c in self.cells if c.time_us is not None), key=lambda c: c.time_us or 0.0, default=None)


def levels() -> list[str]:
    """What each colour means, the fastest first."""
    ends = [f"up to {LEVELS[0]:g} x the fastest", *(f"{end:g} x" for end in LEVELS[1:])]
    return [*ends, f"above {LEVELS[-1]:g} x"]


def large(trials: Sequence[Trial], problem: AttentionProblem, plan: TilingPlan, check: Check) -> HeatMap | None:
    """Of each (Br, Bc) the best of all trials; where there was none, whether the blocks of ``plan`` would fit there.

    None without a trial.
    """
    if not trials:
        return None
    rows = _sizes(Counter(trial.plan.Br for trial in trials), pad(problem.Nq))
    columns = _sizes(Counter(trial.plan.Bc for trial in trials), pad(problem.N))

    def untried(Br: int, Bc: int) -> Cell:
        try:
            check(problem, replace(plan, Br=Br, Bc=Bc))
        except PlanRejected as error:
            return Cell(Br, Bc, ILLEGAL, str(error))
        return Cell(Br, Bc, UNTRIED, "not tried")

    return _map("all plans", trials, rows, columns, untried, _fastest(trials))


def small(trials: Sequence[Trial], whole: HeatMap) -> list[HeatMap]:
    """A map of the same size for each setting of the other knobs, the most tried first; none where there is one."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(other_knobs(trial.plan), []).append(trial)
    if len(groups) < 2:
        return []
    most_tried = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_SMALL]
    fastest = _fastest(trials)
    return [
        _map(title, found, whole.Br, whole.Bc, lambda Br, Bc: Cell(Br, Bc, UNTRIED, "not tried"), fastest)
        for title, found in most_tried
    ]


def other_knobs(plan: TilingPlan) -> str:
    """Everything of a plan but its blocks and the number of cores, which follows from them."""
    parts = [
        plan.core_split.rule,
        f"slices of {plan.slice_rows}" if plan.slice_rows else "",
        f"{plan.exp} exp" if plan.exp != "float32" else "",
        "double buffer" if plan.double_buffer else "",
    ]
    return ", ".join(part for part in parts if part)


def _sizes(tried: Counter[int], longest: int) -> list[int]:
    """What was tried, the powers of two between, and one beyond the largest."""
    powers = [size for k in range(longest.bit_length()) if (size := TILE << k) <= longest] + [longest]
    beyond = [size for size in powers if size > max(tried)][:1]
    found = sorted({*tried, *beyond, *(size for size in powers if size < max(tried))})
    if len(found) > MOST_SIZES:
        found = sorted(size for size, _ in tried.most_common(MOST_SIZES))
    return found


def _map(
    title: str,
    trials: Iterable[Trial],
    rows: Sequence[int],
    columns: Sequence[int],
    untried: Callable[[int, int], Cell],
    fastest: float | None,
) -> HeatMap:
    best: dict[tuple[int, int], Trial] = {}
    for trial in trials:
        place = (trial.plan.Br, trial.plan.Bc)
        if place not in best or _order(trial) < _order(best[place]):
            best[place] = trial
    cells = [
        _cell(best[Br, Bc], fastest or 1.0) if (Br, Bc) in best else untried(Br, Bc) for Br in rows for Bc in columns
    ]
    return HeatMap(title, rows, columns, cells)


def _order(trial: Trial) -> tuple[int, float]:
    """Timed ones by their time, then those that failed, then those that were rejected."""
    if isinstance(trial.outcome, Timed):
        return 0, trial.outcome.timing.time_us
    return (1 if isinstance(trial.outcome, Failed) else 2), 0.0


def _cell(trial: Trial, fastest: float) -> Cell:
    Br, Bc, outcome = trial.plan.Br, trial.plan.Bc, trial.outcome
    if isinstance(outcome, Timed):
        time_us = outcome.timing.time_us
        words = f"{text.of_time(time_us)}, {time_us / fastest:.2f} x the fastest, {other_knobs(trial.plan)}"
        return Cell(Br, Bc, TIMED, words, time_us, bisect_right(LEVELS, time_us / fastest))
    return Cell(Br, Bc, ILLEGAL if isinstance(outcome, Rejected) else FAILED, text.of_outcome(outcome))


def _fastest(trials: Iterable[Trial]) -> float | None:
    return min((trial.outcome.timing.time_us for trial in trials if isinstance(trial.outcome, Timed)), default=None)
