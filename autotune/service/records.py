"""What is stored, in the wire format of lists and histories."""

from __future__ import annotations

from typing import Any

from autotune.db.rows import Listed
from autotune.db.store import Store
from autotune.outcome import BestPlan, Timed, Trial, outcome_to_json
from autotune.service.device import Devices
from autotune.service.refusals import NotFound


def record(best: BestPlan, devices: Devices) -> dict[str, Any]:
    """A result as lists and histories show it; times in microseconds."""
    device = devices.get(best.device)
    return {
        "problem": best.problem.to_json(),
        "device": best.device,
        "plan": best.plan.tiling(best.problem)._asdict() | best.plan.to_json(),
        "time_us": best.timing.time_us,
        "kind": best.timing.kind,
        "clock": best.timing.clock,
        "default_time_us": best.default_time_us,
        "speedup_over_default": best.speedup_over_default,
        "error": best.error,
        "stale": device is not None and device.is_stale(best),
        "provenance": {name: getattr(best, name) for name in PROVENANCE},
        "revision": best.revision,
    }


def of_plan(listed: Listed, devices: Devices) -> dict[str, Any]:
    """A plan that is served."""
    return {"id": listed.id, "key": listed.best.problem.key, "pinned": listed.pinned} | record(listed.best, devices)


def find_plan(store: Store, number: int) -> Listed:
    """The served plan with that id. Raises NotFound."""
    listed = store.plan(number)
    if listed is None:
        raise NotFound(f"there is no plan with the id {number}; GET /plans lists them", "plan")
    return listed


def tried(trial: Trial) -> dict[str, Any]:
    """A trial as lists show it; times in microseconds."""
    outcome = trial.outcome
    timed = outcome if isinstance(outcome, Timed) else None
    return {
        "device": trial.device,
        "target": trial.target,
        "fingerprint": trial.fingerprint,
        "plan": trial.plan.tiling(trial.problem)._asdict() | trial.plan.to_json(),
        "status": outcome_to_json(outcome)["status"],
        "time_us": timed.timing.time_us if timed else None,
        "kind": timed.timing.kind if timed else None,
        "error": timed.error if timed else None,
        "stage": getattr(outcome, "stage", None),
        "reason": getattr(outcome, "reason", None),
        "sweep": trial.sweep,
        "at": trial.at,
    }


PROVENANCE = ("target", "fingerprint", "trials", "sweep", "measured_at")
