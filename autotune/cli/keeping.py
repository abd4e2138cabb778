"""Plans after the sweep: ``autotune history``, ``pin``, ``unpin``, ``rollback``, ``export`` and ``import``."""

from __future__ import annotations

import getpass
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from autotune.cli import options
from autotune.cli.commands import NOTHING_FOUND, app
from autotune.errors import InvalidInput
from autotune.problem import OPS
from autotune.settings import DB, DEVICE

if TYPE_CHECKING:
    from autotune.db.pins import Decision

Revision: TypeAlias = Annotated[
    int, typer.Argument(metavar="REVISION", help="As `autotune history` lists it.", min=1, max=10**18)
]
Reason: TypeAlias = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept forever.")]
Actor: TypeAlias = Annotated[
    str | None, typer.Option("--actor", metavar="NAME", help="Who decides [your user name].", show_default=False)
]
OnlyDevice: TypeAlias = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="Only plans of this chip or target [all].", show_default=False),
]
OutputFile: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="[standard output]", show_default=False)
]
InputFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="What `autotune export` wrote.")]
Apply: TypeAlias = Annotated[bool, typer.Option("--apply", help="Do it; without, only say what would happen.")]


@app.command()
def history(
    shape: options.Shape,
    device: options.Device = None,
    op: options.Op = OPS[0],
    attn_mask: options.AttnMask = "none",
    dropout: options.Dropout = False,
    alibi: options.Alibi = False,
    window: options.Window = None,
    block_window: options.BlockWindow = None,
    high_precision: options.HighPrecision = False,
    dtype: options.DType = "float16",
    db: options.Db = None,
    as_json: options.AsJson = False,
) -> int:
    """Lists the plans that a problem was served, oldest first, and every pin with who set it and why.

    \b
    Examples:
      autotune history --shape 2,16,1024,1024,64
      autotune history --shape 2,16,1024,1024,64 --attn-mask causal --json
    """
    from autotune.cli import composition, tables
    from autotune.db.store import Store
    from autotune.service.device import find_device
    from autotune.service.records import record

    asked = options.ProblemOptions(op, attn_mask, dropout, alibi, window, block_window, high_precision, dtype)
    problem, name = asked.problem(shape), options.chosen(DEVICE, device)
    known = composition.devices(name)
    chip, target = find_device(known, name)
    store = Store.open(options.chosen(DB, db), create=False)
    place = (problem, chip.hardware.name, target)
    found = {
        "history": [record(best, known) for best in store.history(*place)],
        "decisions": [asdict(decision) for decision in store.decisions(*place)],
    }
    store.close()
    if not found["history"]:
        typer.echo(f"autotune: nothing was ever found for {problem.key} on {name}", err=True)
        return NOTHING_FOUND
    if as_json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        tables.show_history(found)
    return 0


@app.command()
def pin(revision: Revision, reason: Reason, actor: Actor = None, db: options.Db = None) -> None:
    """Serves a revision of the history for its problem and device, whatever wins later.

    \b
    Examples:
      autotune pin 17 --reason "18 is wrong on our board"
    """
    from autotune.db.store import Store

    store = Store.open(options.chosen(DB, db), create=False)
    store.pin(revision, _decision(actor, reason))
    store.close()
    typer.echo(f"Revision {revision} is served until it is unpinned.", err=True)


@app.command()
def unpin(revision: Revision, reason: Reason, actor: Actor = None, db: options.Db = None) -> int:
    """Takes the pin off a revision, so that the best plan is served again.

    \b
    Examples:
      autotune unpin 17 --reason "fixed"
    """
    from autotune.db.store import Store

    store = Store.open(options.chosen(DB, db), create=False)
    gone = store.unpin(revision, _decision(actor, reason))
    store.close()
    if not gone:
        typer.echo(f"autotune: revision {revision} is not pinned", err=True)
        return NOTHING_FOUND
    typer.echo("The best plan is served again.", err=True)
    return 0


@app.command()
def rollback(revision: Revision, reason: Reason, actor: Actor = None, db: options.Db = None) -> None:
    """Takes back the revision that is served: pins the one that was published before it.

    \b
    Examples:
      autotune rollback 18 --reason "wrong on our board"
    """
    from autotune.db.store import Store

    store = Store.open(options.chosen(DB, db), create=False)
    earlier = store.roll_back(revision, _decision(actor, reason))
    store.close()
    typer.echo(f"Revision {earlier} is served until it is unpinned.", err=True)


@app.command()
def export(file: OutputFile = None, device: OnlyDevice = None, db: options.Db = None) -> None:
    """Writes the plans that are served as one JSON file, for kernel builds and other databases.

    \b
    Examples:
      autotune export plans.json
      autotune export --device Ascend910A
    """
    from autotune.cli import composition
    from autotune.db.store import Store
    from autotune.service import bundle
    from autotune.service.device import find_device

    chip, target = None, None
    if device is not None:
        found, target = find_device(composition.devices(device), device)
        chip = found.hardware.name
    store = Store.open(options.chosen(DB, db), create=False)
    content = bundle.dump(store, chip, target)
    store.close()
    if file is None:
        sys.stdout.write(content.decode())
        return
    try:
        file.write_bytes(content)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}", "file") from error


@app.command("import")
def import_(file: InputFile, apply: Apply = False, db: options.Db = None, as_json: options.AsJson = False) -> int:
    """Offers a file's plans to a database; the better plan stays, as with every publication.

    \b
    Examples:
      autotune import plans.json
      autotune import plans.json --apply
    """
    from autotune.cli import composition
    from autotune.db.store import Store
    from autotune.service import bundle

    try:
        with file.open("rb") as source:
            content = source.read(bundle.MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}", "file") from error
    store = Store.open(options.chosen(DB, db))
    loaded = bundle.load(store, content, composition.devices(DEVICE.value()), dry_run=not apply)
    store.close()
    if as_json:
        sys.stdout.write(json.dumps(loaded.to_json(), indent=2) + "\n")
    else:
        for sentence in loaded.rejected:
            typer.echo(f"warning: {sentence}", err=True)
        verb = "are" if apply else "would be"
        typer.echo(
            f"{loaded.accepted} plans {verb} taken in, {loaded.kept} no better than what is there, "
            f"{len(loaded.rejected)} refused.{'' if apply else ' Nothing was changed: add --apply.'}"
        )
    return 0


def _decision(actor: str | None, reason: str) -> Decision:
    from autotune.db.pins import Decision

    return Decision(actor or _user(), reason, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:  # a user without a name, as in containers
        raise InvalidInput("you have no user name here; say who decides with --actor", "actor") from error
