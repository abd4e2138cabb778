"""The pages of sweeps: those of late, and one with its problems, its failures and its last words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import HTMLResponse

from autotune import text
from autotune.db.sweeps import Numbered
from autotune.outcome import Timed, Trial
from autotune.service.device import Devices
from autotune.service.pages import links, tables
from autotune.service.pages.render import page
from autotune.service.runs import RUNNING

REFRESH_S = 3
"""Of the page of a sweep that runs."""
LAST = 15
CURVE = WIDTH, HEIGHT = 300, 90


def progress_page(
    url: str, sweeps: Sequence[Mapping[str, Any]] = (), fault: str = "", status: int = 200
) -> HTMLResponse:
    """url: the service's own. sweeps: as GET /sweeps lists them. fault: why there is nothing to show."""
    return page("progress.html", status, title="Sweeps", url=url, sweeps=sweeps, fault=fault)


def sweep_page(sweep: Mapping[str, Any], found: Sequence[Numbered], devices: Devices) -> HTMLResponse:
    """sweep: as GET /sweeps/{name} shows it. found: its trials, in order."""
    trials = [each.trial for each in found]
    by_problem: dict[str, list[Trial]] = {}
    for trial in trials:
        by_problem.setdefault(trial.problem.key, []).append(trial)
    last = [
        (t.at, text.of_problem(t.problem), text.of_plan(t.plan), text.of_outcome(t.outcome)) for t in trials[-LAST:]
    ]
    return page(
        "sweep.html",
        title=f"Sweep {sweep['name']}",
        sweep=sweep,
        refresh=REFRESH_S if sweep["state"] == RUNNING else None,
        problems=[_problem(each, devices) for each in by_problem.values()],
        failures=tables.failures(trials),
        last=last[::-1],
        curve=CURVE,
    )


def _problem(trials: Sequence[Trial], devices: Devices) -> dict[str, Any]:
    first = trials[0]
    times = [trial.outcome.timing.time_us for trial in trials if isinstance(trial.outcome, Timed)]
    best = min((t for t in trials if isinstance(t.outcome, Timed)), key=_time_us, default=None)
    return {
        "problem": first.problem,
        "device": first.device,
        "query": links.query(first.problem, first.device) if first.device in devices else None,
        "trials": len(trials),
        "timed": len(times),
        "best": best,
        "time_us": min(times, default=None),
        "points": _steps(trials),
    }


def _time_us(trial: Trial) -> float:
    return trial.outcome.timing.time_us if isinstance(trial.outcome, Timed) else float("inf")


def _steps(trials: Sequence[Trial]) -> str:
    """The fastest time so far over the trials, as the points of an SVG line that falls from the first to the best."""
    best, falls = float("inf"), list[tuple[int, float]]()
    for number, trial in enumerate(trials):
        if _time_us(trial) < best:
            best = _time_us(trial)
            falls.append((number, best))
    if not falls:
        return ""
    (_, worst), span = falls[0], max(len(trials) - 1, 1)
    high = worst - best or 1.0
    places = [(number / span * WIDTH, (worst - time_us) / high * HEIGHT) for number, time_us in falls]
    points = [places[0]]
    for x, y in places[1:]:
        points += [(x, points[-1][1]), (x, y)]
    points.append((WIDTH, points[-1][1]))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
