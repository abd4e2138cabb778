"""A stored result in the wire format of lists and histories."""

from __future__ import annotations

from typing import Any

from autotune.outcome import BestPlan
from autotune.service.device import Devices


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


PROVENANCE = ("target", "fingerprint", "trials", "sweep", "measured_at")
