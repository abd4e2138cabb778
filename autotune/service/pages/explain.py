"""The page that says where the time of a plan goes: a form, and what ``autotune explain`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi.responses import HTMLResponse

from autotune import explained
from autotune.explain import Explained
from autotune.service.pages.forms import choices
from autotune.service.pages.render import page

TITLE = "Where the time of a plan goes"


def explain_page(
    given: Mapping[str, str],
    devices: Sequence[str],
    found: Explained | None = None,
    chosen: str = "",
    fault: str = "",
    status: int = 200,
) -> HTMLResponse:
    """given: what was typed, shown again. chosen: where the plan comes from. fault: why there is nothing to show."""
    tables = (explained.pipes(found), *explained.stalls(found), explained.moved(found)) if found else ()
    return page(
        "explain.html",
        status,
        title=TITLE,
        given=given,
        options=choices(devices),
        fault=fault,
        sentences=explained.sentences(found, chosen) if found else (),
        tables=tables,
    )
