"""The page of what was asked for and never swept."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi.responses import HTMLResponse

from autotune.db.rows import Wanted
from autotune.service.device import Devices
from autotune.service.pages import links
from autotune.service.pages.render import page


def missing_page(devices: Devices, wanted: Sequence[Wanted] = (), fault: str = "", status: int = 200) -> HTMLResponse:
    """fault: why there is nothing to show."""
    rows = [
        {"wanted": each, "query": links.query(each.problem, each.device) if each.device in devices else None}
        for each in wanted
    ]
    return page("missing.html", status, title="Wanted, and never swept", fault=fault, rows=rows)
