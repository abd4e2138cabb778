"""The page of one problem: the plan that is served, the map of everything that was tried, the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi.responses import HTMLResponse

from autotune import text
from autotune.db.store import Store
from autotune.plan import TilingPlan
from autotune.service.ladder import DEFAULT, OWN, Answer, Bests, answer
from autotune.service.pages import heatmap, links, tables
from autotune.service.pages.forms import choices
from autotune.service.pages.render import page
from autotune.service.questions import Question

MOST_TRIALS = 5000
"""Trials that are drawn; the page says where there are more."""


def problem_page(
    given: Mapping[str, str],
    devices: Sequence[str],
    found: Mapping[str, Any] | None = None,
    fault: str = "",
    status: int = 200,
) -> HTMLResponse:
    """given: what was typed, shown again. found: of ``about``. fault: why there is nothing to show."""
    values: dict[str, Any] = {"title": "The fastest plan of a problem", "given": given, "fault": fault}
    if found is not None:
        served = found["answer"]
        values["title"] = f"{text.of_problem(served.problem)} on {served.device}"
        values |= {"tiling": served.plan.tiling(served.problem), "levels": heatmap.levels()}
    return page("problem.html", status, **values, options=choices(devices), found=found)


def about(question: Question, found: Answer, store: Store, bests: Bests, url: str) -> dict[str, Any]:
    """What the page shows of an answer. bests: where the ladder reads. url: the service's own. Raises StoreError."""
    problem, device, source = question.problem, question.device, found.source
    own = found.match in OWN
    target, fingerprint = next(iter(device.fingerprints.items()))
    if source is not None and own:
        target, fingerprint = source.target, source.fingerprint
    trials = store.trials(problem, found.device, target, fingerprint, limit=MOST_TRIALS)
    whole = heatmap.large(trials, problem, found.plan, device.check)
    default = answer(problem, device, bests, (DEFAULT,))
    place = (problem, found.device, question.target)
    return {
        "answer": found,
        "own": own,
        "query": links.query(problem, question.target or found.device),
        "source_query": source and links.query(source.problem, found.device),
        "key": quote(problem.key, safe=""),
        "call": links.call(problem, found.device, url),
        "command": links.command(problem, target),
        "explains": device.explain is not None,
        "target": target,
        "trials": len(trials),
        "cut": len(trials) == MOST_TRIALS,
        "map": whole,
        "small": heatmap.small(trials, whole) if whole else [],
        "best_place": _place(found.plan),
        "default_place": _place(default.plan) if default else None,
        "fastest": tables.fastest(trials),
        "failures": tables.failures(trials),
        "history": store.history(*place),
        "decisions": [(d.at, f"{d.action} {d.revision}", d.actor, d.reason) for d in store.decisions(*place)],
    }


def _place(plan: TilingPlan) -> tuple[int, int]:
    return plan.Br, plan.Bc
