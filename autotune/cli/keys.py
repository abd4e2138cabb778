"""``autotune keys``: who may write over HTTP."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from autotune.cli import options
from autotune.cli.commands import NOTHING_FOUND, app
from autotune.errors import InvalidInput
from autotune.settings import DB

if TYPE_CHECKING:
    from autotune.db.store import Store

keys = typer.Typer(rich_markup_mode=None, help="Makes, lists and ends the keys for writing over HTTP.")
app.add_typer(keys, name="keys")

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is; decisions are kept under it.")]
Prefix: TypeAlias = Annotated[str, typer.Argument(metavar="PREFIX", help="As `autotune keys list` shows it.")]
Scopes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", metavar="NAME", help="pins:write, plans:write or sweeps:write; repeat [all].", show_default=False
    ),
]
Days: TypeAlias = Annotated[
    int | None,
    typer.Option("--days", metavar="N", help="Until it ends [never].", min=1, max=36500, show_default=False),
]


@keys.command()
def add(name: Name, scope: Scopes = None, days: Days = None, db: options.Db = None) -> None:
    """Makes a key and prints it, once: the database keeps only a hash.

    \b
    Examples:
      autotune keys add night-shift --scope plans:write --days 90
    """
    from autotune.db.keys import SCOPES
    from autotune.db.store import Store

    store = Store.open(options.chosen(DB, db))
    expires = None if days is None else _instant(time.time() + 86400 * days)
    text = store.add_key(name, tuple(scope) if scope else SCOPES, _instant(time.time()), expires)
    store.close()
    typer.echo(text)


@keys.command("list")
def list_(db: options.Db = None, as_json: options.AsJson = False) -> None:
    """Lists the keys by their prefixes.

    \b
    Examples:
      autotune keys list
    """
    from autotune.db.store import Store

    store = Store.open(options.chosen(DB, db), create=False)
    found = store.list_keys()
    store.close()
    if as_json:
        sys.stdout.write(json.dumps({"keys": [asdict(key) for key in found]}, indent=2) + "\n")
        return
    for key in found:
        end = f"revoked {key.revoked_at}" if key.revoked_at else f"expires {key.expires_at or 'never'}"
        typer.echo(f"{key.prefix}  {key.name}  {','.join(key.scopes)}  made {key.created_at}  {end}")


@keys.command()
def revoke(prefix: Prefix, db: options.Db = None) -> int:
    """Ends a key.

    \b
    Examples:
      autotune keys revoke 1f3a9c02
    """
    from autotune.db.store import Store

    store = Store.open(options.chosen(DB, db), create=False)
    gone = store.revoke_key(prefix, _instant(time.time()))
    store.close()
    if not gone:
        typer.echo(f"autotune: there is no key {prefix[:40]!r} that could be revoked", err=True)
        return NOTHING_FOUND
    return 0


def require(store: Store, address: str) -> None:
    """Raises InvalidInput where there is no key that could be used."""
    now = _instant(time.time())
    if not any(key.is_good(now) for key in store.list_keys()):
        raise InvalidInput(
            f"{address} can be reached from other machines and the database has no key; make one with "
            "`autotune keys add NAME`, or listen on 127.0.0.1",
            "host",
        )


def _instant(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
