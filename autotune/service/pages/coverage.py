"""The first page: a question, and what was swept so far."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from fastapi.responses import HTMLResponse

from autotune.db.rows import Listed, Page
from autotune.db.store import rank
from autotune.service.device import Devices
from autotune.service.pages import links
from autotune.service.pages.forms import choices
from autotune.service.pages.render import page

GAINS = (1.02, 1.2, 1.5)
"""Where one mark of gain over the default ends and the next begins."""


def coverage_page(
    devices: Devices,
    found: Page | None = None,
    paged: bool = False,
    fault: str = "",
    status: int = 200,
) -> HTMLResponse:
    """A row a problem, a column a chip. paged: these are not the latest problems. fault: why there is none."""
    listed = found.listed if found else []
    swept = {each.best.device for each in listed}
    chips = [name for name in devices if name in swept] + sorted(swept - set(devices))
    by_problem: dict[str, dict[str, list[Listed]]] = {}
    for each in listed:
        by_problem.setdefault(each.best.problem.key, {}).setdefault(each.best.device, []).append(each)
    rows = [_row(places, chips, devices) for places in by_problem.values()]
    return page(
        "coverage.html",
        status,
        title="Which tiling is the fastest?",
        given={},
        options=choices(list(devices)),
        fault=fault,
        chips=chips,
        rows=rows,
        next=found and found.next,
        paged=paged,
    )


def _row(places: Mapping[str, list[Listed]], chips: list[str], devices: Devices) -> dict[str, Any]:
    problem = next(iter(places.values()))[0].best.problem
    return {"problem": problem, "cells": [_cell(places[chip], devices) if chip in places else None for chip in chips]}


def _cell(listed: list[Listed], devices: Devices) -> dict[str, Any]:
    """Of the plans of one problem on one chip, that which /best prefers; links to it where the chip is served here."""
    best = max((each.best for each in listed), key=rank)
    device = devices.get(best.device)
    return {
        "best": best,
        "query": links.query(best.problem, best.device),
        "pinned": any(each.pinned is not None for each in listed),
        "stale": device is not None and device.is_stale(best),
        "level": bisect_right(GAINS, best.speedup_over_default or 0.0),
    }
