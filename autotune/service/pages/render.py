"""Templates become pages here and nowhere else: escaped, and with a policy that lets nothing in from elsewhere.

No page has a script or an inline style, so that the policy needs no exception.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autotune import text

POLICY = (
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "img-src data:"  # a browser asks for an icon otherwise
)
_TEMPLATES = Path(__file__).parent / "templates"
_STYLE = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
_PER_UNIT = ((86400, "d"), (3600, "h"), (60, "min"))


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page that a template makes of these values."""
    content = _ENVIRONMENT.get_template(template).render(values)
    return HTMLResponse(content, status, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})


def style() -> Response:
    """The style sheet of all pages."""
    return Response(_STYLE, media_type="text/css", headers={"Cache-Control": "max-age=3600"})


def age(instant: str, now: datetime | None = None) -> str:
    """``3 d``, ``5 h`` or ``2 min`` since a UTC instant; the text itself where it is none."""
    try:
        then = datetime.fromisoformat(instant)
    except ValueError:
        return instant
    seconds = ((now or datetime.now(UTC)) - then).total_seconds() if then.tzinfo else 0.0
    return next((f"{seconds // size:.0f} {unit}" for size, unit in _PER_UNIT if seconds >= size), "now")


def is_number(words: str) -> bool:
    """Whether a cell of a table is set to the right."""
    return words.strip("%").replace(".", "", 1).isdigit() or not words


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "age": age,
    "problem": text.of_problem,
    "plan": text.of_plan,
    "time": text.of_time,
    "speedup": text.of_speedup,
}
_ENVIRONMENT.tests["numeric"] = is_number
