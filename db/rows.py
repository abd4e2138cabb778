"""Between vocabulary values and rows."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Any

from sqlalchemy import RowMapping

from autotune.errors import InvalidInput, StoreError
from autotune.outcome import EMULATED, MEASURED, BestPlan, Timed, Timing, Trial, outcome_from_json, outcome_to_json
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

Row = dict[str, Any]


@dataclass(frozen=True)
class Listed:
    """A best plan as a row. id: of its problem on its device and target kind; a faster plan keeps it.

    pinned: the pinned revision of that place, None where nobody pinned one.
    """

    id: int
    best: BestPlan
    pinned: int | None = None


@dataclass(frozen=True)
class Page:
    """Some best plans in the order of their ids. next: the id after which the next page starts; None at the end."""

    listed: list[Listed]
    next: int | None


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
    op, _, *options = problem.key.split(";")
    return ";".join((op, "1,1,1,1,1", *options))


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
        "finished": best.finished,
    }


def to_problem(key: str, body: Any) -> AttentionProblem:
    """Raises StoreError when the row is damaged, or of a later version."""
    try:
        problem = AttentionProblem.from_json(body)
    except (InvalidInput, AttributeError, TypeError) as error:
        raise _unreadable(f"problem {str(key)[:100]!r}", error) from error
    if problem.key != key:
        raise _unreadable(f"problem {str(key)[:100]!r}", f"its body is {problem.key}")
    return problem


def to_trial(row: RowMapping, problem: AttentionProblem, device: str) -> Trial:
    """The inverse of ``trial_row``. Raises StoreError when the row is damaged, or of a later version."""
    try:
        plan, outcome = TilingPlan.from_json(row["plan"]), outcome_from_json(row["outcome"])
    except (InvalidInput, AttributeError, KeyError, TypeError) as error:
        raise _unreadable(f"trial {row['id']}", error) from error
    return Trial(problem, device, row["target"], row["fingerprint"], plan, outcome, row["sweep"], row["at"])


_COPIED = ("target", "fingerprint", "error", "default_time_us", "trials", "sweep", "measured_at", "revision")


def to_best(row: RowMapping | Row, problem: AttentionProblem, device: str) -> BestPlan:
    """The inverse of ``history_row``. Raises StoreError when the row is damaged, or of a later version."""
    what = f"plan of revision {row['revision']}"
    try:
        plan, timing = TilingPlan.from_json(row["plan"]), Timing.from_json(row["timing"])
    except (InvalidInput, AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(what, error) from error
    wrong = [name for name, kind in _KINDS.items() if not isinstance(row[name], kind)]
    if wrong:
        raise _unreadable(what, f"{wrong[0]} is {row[wrong[0]]!r}")
    if timing.time_us != row["time_us"] or timing.kind not in (EMULATED, MEASURED) or not isinstance(timing.clock, str):
        raise _unreadable(what, f"its timing does not belong to {row['time_us']!r} us")
    copied = {name: row[name] for name in _COPIED}
    return BestPlan(problem, device, plan=plan, timing=timing, finished=bool(row["finished"]), **copied)


_KINDS: dict[str, type | tuple[type, ...]] = {
    "target": str,
    "fingerprint": str,
    "error": float,
    "default_time_us": (float, NoneType),
    "trials": int,
    "sweep": str,
    "measured_at": str,
    "finished": int,
}
"""What SQLite, which keeps any value in any column, has to have kept."""


def _unreadable(what: str, error: object) -> StoreError:
    return StoreError(f"this version cannot read the database's {what} ({error}); upgrade autotune", field="db")
