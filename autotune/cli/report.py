"""The command ``autotune report``: what the night's sweeps brought."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from autotune.cli import options
from autotune.cli.commands import NOTHING_FOUND, app, print_json
from autotune.errors import InvalidInput
from autotune.settings import DB

Since: TypeAlias = Annotated[
    str, typer.Option("--since", metavar="TIME", help="How far back: 24h, 90m [24h]", show_default=False)
]
Markdown: TypeAlias = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write it there in Markdown.", show_default=False)
]
Html: TypeAlias = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write it there as a page with plots.", show_default=False)
]


@app.command()
def report(
    since: Since = "24h",
    markdown: Markdown = None,
    html: Html = None,
    db: options.Db = None,
    as_json: options.AsJson = False,
) -> int:
    """Says what sweeps brought: what was tuned, what changed, what failed and why, what is still wanted.

    It reads the record, so that it covers every sweep of that time, those that were killed too. The page is one file
    that loads nothing.

    \b
    Examples:
      autotune report
      autotune report --since 12h --html report.html --markdown report.md
      autotune report --json
    """
    from autotune.cli import report_page, report_text, tables
    from autotune.db.store import Store
    from autotune.night import Night, night

    start = datetime.now(UTC) - timedelta(seconds=options.seconds(since, "since"))
    store = Store.open(options.chosen(DB, db), create=False)
    found = night(store, start.strftime("%Y-%m-%dT%H:%M:%SZ"))
    store.close()
    writers: list[tuple[str, Path | None, Callable[[Night], str]]] = [
        ("markdown", markdown, report_text.markdown),
        ("html", html, report_page.page),
    ]
    for option, path, write in writers:
        if path:
            _write(option, path, write(found))
    if as_json:
        print_json(found.to_json())
    else:
        report_text.show(found, tables.console())
    return 0 if found.tuned else NOTHING_FOUND


def _write(option: str, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--{option}: cannot write {path}: {error.strerror}", option) from error
