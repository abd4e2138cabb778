"""Trials as rows of text: the fastest, and what went wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from autotune import text
from autotune.outcome import Timed, Trial, outcome_to_json

MOST_ROWS = 20
NUMBER = re.compile(r"\d+(\.\d+)?")


def fastest(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """Time, its ratio to the least, plan, error, who proposed it, sweep."""
    timed = [(trial.outcome, trial) for trial in trials if isinstance(trial.outcome, Timed)]
    timed.sort(key=lambda pair: pair[0].timing.time_us)
    return [
        (
            text.of_time(outcome.timing.time_us),
            f"{outcome.timing.time_us / timed[0][0].timing.time_us:.3f} x",
            text.of_plan(trial.plan),
            f"{outcome.error:.1e}",
            trial.plan.strategy,
            trial.sweep,
        )
        for outcome, trial in timed[:MOST_ROWS]
    ]


def failures(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """How many trials had a reason in common but for its numbers, the reason, and one plan that had it."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for trial in trials:
        if not isinstance(trial.outcome, Timed):
            status, words = outcome_to_json(trial.outcome)["status"], text.of_outcome(trial.outcome)
            reason = f"{'' if status == 'rejected' else 'failed to '}{NUMBER.sub('…', words)}"
            counts[reason] += 1
            examples.setdefault(reason, text.of_plan(trial.plan))
    return [(str(count), reason, examples[reason]) for reason, count in counts.most_common(MOST_ROWS)]
