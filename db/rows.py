"""Between vocabulary values and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping

from autotune.errors import InvalidInput, StoreError
from autotune.outcome import BestPlan, Timed, Timing, Trial, outcome_from_json, outcome_to_json
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

Row = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """A question without an exact answer. device: hardware name. count: how often it was asked. last_at: UTC."""

    problem: AttentionProblem
    device: str
    count: int
    last_at: str


def target_kind(target: str) -> str:
    """``emulated`` of ``emulated:Ascend910A``: results of one kind are interchangeable on the same hardware."""
    return target.split(":", 1)[0]


def family(problem: AttentionProblem) -> str:
    """The key at the unit shape: equal for problems that differ in nothing but their shape."""
    return problem.with_shape((1, 1, 1, 1, 1)).key


def problem_row(problem: AttentionProblem) -> Row:
    return {"key": problem.key, "family": family(problem), "body": problem.to_json()}


def trial_row(trial: Trial) -> Row:
    """Without its two foreign keys."""
    return {
        "target": trial.target,
        "fingerprint": trial.fingerprint,
        "plan_key": trial.plan.key,
        "plan": trial.plan.to_json(),
        "status": outcome_to_json(trial.outcome)["status"],
        "time_us": trial.outcome.timing.time_us if isinstance(trial.outcome, Timed) else None,
        "outcome": outcome_to_json(trial.outcome),
        "sweep": trial.sweep,
        "at": trial.at,
    }


def history_row(best: BestPlan) -> Row:
    """Without its two foreign keys and its revision, which the database counts."""
    return {
        "target": best.target,
        "fingerprint": best.fingerprint,
        "plan": best.plan.to_json(),
        "time_us": best.timing.time_us,
        "timing": best.timing.to_json(),
        "error": best.error,
        "default_time_us": best.default_time_us,
        "trials": best.trials,
        "sweep": best.sweep,
        "measured_at": best.measured_at,
    }


def to_problem(body: Any) -> AttentionProblem:
    """Raises StoreError when this version cannot read what a later one stored."""
    try:
        return AttentionProblem.from_json(body)
    except (InvalidInput, AttributeError, TypeError) as error:
        raise _unreadable("problem", error) from error


def to_trial(row: RowMapping, problem: AttentionProblem, device: str) -> Trial:
    """The inverse of ``trial_row``. Raises StoreError when this version cannot read what a later one stored."""
    try:
        plan, outcome = TilingPlan.from_json(row["plan"]), outcome_from_json(row["outcome"])
    except (InvalidInput, AttributeError, KeyError, TypeError) as error:
        raise _unreadable(f"trial {row['id']}", error) from error
    return Trial(problem, device, row["target"], row["fingerprint"], plan, outcome, row["sweep"], row["at"])


_COPIED = ("target", "fingerprint", "error", "default_time_us", "trials", "sweep", "measured_at", "revision")


def to_best(row: RowMapping, problem: AttentionProblem, device: str) -> BestPlan:
    """The inverse of ``history_row``. Raises StoreError when this version cannot read what a later one stored."""
    try:
        plan, timing = TilingPlan.from_json(row["plan"]), Timing.from_json(row["timing"])
    except (InvalidInput, AttributeError, KeyError, TypeError) as error:
        raise _unreadable(f"plan of revision {row['revision']}", error) from error
    return BestPlan(problem, device, plan=plan, timing=timing, **{name: row[name] for name in _COPIED})


def _unreadable(what: str, error: Exception) -> StoreError:
    return StoreError(f"this version cannot read the database's {what} ({error}); upgrade autotune", field="db")
