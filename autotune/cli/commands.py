"""The commands. Each imports what it needs by itself, so that help and ``best`` load neither optuna nor fastapi."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import typer

from autotune.cli import options
from autotune.errors import InvalidInput
from autotune.problem import OPS, AttentionProblem
from autotune.settings import DB, DEVICE, HOST, PORT, SEED, TRIALS, URL, WORKERS

NOTHING_FOUND, INTERRUPTED = 3, 130
"""Exit codes beside 0, and those of errors (see ``main``)."""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""Finds, keeps and serves the fastest tiling plan of attention kernels on Ascend NPUs.

\b
Examples:
  autotune sweep --shape 2,16,1024,1024,64
  autotune best --shape 2,16,1024,1024,64 --json
  autotune serve

\b
Exit codes: 0 done; 1 failed; 2 wrong usage or input; 3 nothing found;
130 interrupted. A setting in brackets can be made once as AUTOTUNE_*.""",
)


@app.command()
def sweep(
    shape: options.Shapes = None,
    workload: options.Workload = None,
    from_config: options.FromConfig = None,
    lengths: options.Lengths = None,
    batches: options.Batches = "1",
    wanted: options.Wanted = False,
    device: options.Device = None,
    op: options.Op = OPS[0],
    attn_mask: options.AttnMask = "none",
    dropout: options.Dropout = False,
    alibi: options.Alibi = False,
    window: options.Window = None,
    block_window: options.BlockWindow = None,
    high_precision: options.HighPrecision = False,
    dtype: options.DType = "float16",
    strategy: options.Strategies = None,
    trials: options.Trials = None,
    budget: options.Budget = None,
    until: options.Until = None,
    workers: options.Workers = None,
    seed: options.Seed = None,
    name: options.SweepName = None,
    db: options.Db = None,
    as_json: options.AsJson = False,
) -> int:
    """Tries tiling plans on a device and keeps the fastest right one.

    Every trial is compiled, verified against float64, timed and recorded, the failed ones with their reason. Ctrl-C
    loses nothing: the same command goes on where it stopped, and adds nothing when it had finished.

    \b
    Examples:
      autotune sweep --shape 2,16,1024,1024,64
      autotune sweep --shape 2,16,1024,1024,64 --shape 1,8,4096,4096,128 --attn-mask causal
      autotune sweep --shape 2,16,16384,16384,128 --budget 8h --db sqlite:///night.db
      autotune sweep --workload shapes.yaml --wanted --until 07:00
      autotune sweep --from-config config.json --lengths 512,2048 --batches 1,8 --attn-mask causal
      autotune sweep --shape 8,12,384,384,64 --strategy sparse --strategy wukong --json
    """
    from rich.console import Console

    from autotune.cli import composition, progress, tables
    from autotune.cli.workload import read_config, read_problems, supported
    from autotune.db.store import Store
    from autotune.strategies.registry import names
    from autotune.sweep import Sweep
    from autotune.tuning import Effort

    asked = options.ProblemOptions(op, attn_mask, dropout, alibi, window, block_window, high_precision, dtype)
    named = [asked.problem(each) for each in shape or ()]
    if workload:
        named += read_problems(workload, asked)
    if from_config:
        named += read_config(from_config, lengths, batches, asked)
    elif lengths is not None:
        raise InvalidInput("--lengths belongs to --from-config", "lengths")
    if not (named or wanted):
        raise InvalidInput("nothing to tune: give --shape, --workload, --from-config or --wanted", "shape")
    where = options.chosen(DEVICE, device)
    composition.check_supported(named, where)
    options.check_names(strategy or (), names(), "strategy")
    limit = options.time_limit(budget, until, datetime.now())
    tries = None if trials is None and limit is not None else options.chosen(TRIALS, trials)
    effort = Effort(tries, limit, options.chosen(SEED, seed))
    target = composition.open_target(where)
    executing = composition.executor(target, options.chosen(WORKERS, workers))
    store = Store.open(options.chosen(DB, db))
    missed = [miss.problem for miss in store.wanted() if miss.device == target.hardware.name] if wanted else []
    possible, reasons = supported(missed, lambda problem: composition.check_supported([problem], where))
    for reason in reasons:
        typer.echo(f"warning: wanted, and left out: {reason}", err=True)
    problems = list(dict.fromkeys([*named, *possible]))
    # What ends a job politely ends a sweep as Ctrl-C does: the best plan is published first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with composition.reserved(target), executing as executor, progress.shown(Console(stderr=True)) as notify:
        report = Sweep(
            name=options.sweep_name(name),
            target=target,
            store=store,
            executor=executor,
            effort=effort,
            strategies=strategy or (),
            check=composition.kernel_check(target),
            window=composition.window(target),
            notify=notify,
        ).run(problems)
    store.close()
    if as_json:
        print_json(report.to_json())
    else:
        tables.show_report(report)
    if report.interrupted:
        typer.echo("Stopped. What was found is kept, and the same command goes on from here.", err=True)
        return INTERRUPTED
    return 0 if all(result.best for result in report.results) else NOTHING_FOUND


@app.command()
def best(
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
    allow: options.Allow = None,
    db: options.Db = None,
    url: options.Url = None,
    as_json: options.AsJson = False,
) -> int:
    """Answers with the fastest known plan of a problem, from a database or a running service.

    Where the very problem was never swept, the plan of the nearest one answers, or the default's; --allow says which
    of these may. The answer says which it is, and is the same object that the service's /best gives.

    \b
    Examples:
      autotune best --shape 2,16,1024,1024,64
      autotune best --shape 2,16,1024,1024,64 --attn-mask causal --allow exact --json
      autotune best --shape 2,16,1024,1024,64 --url http://127.0.0.1:8321
    """
    from autotune.service.ladder import RUNGS

    asked = options.ProblemOptions(op, attn_mask, dropout, alibi, window, block_window, high_precision, dtype)
    problem = asked.problem(shape)
    rungs = options.rungs(allow, RUNGS)
    where = options.chosen(DEVICE, device)
    if url is not None and db is not None:
        raise InvalidInput("--db and --url exclude each other: name the database or the service", "url")
    answer = _ask_database(problem, where, rungs, db) if url is None else _ask_service(problem, where, rungs, url)
    if answer is None:
        typer.echo(f"autotune: no legal plan for {problem.key} on {where} from the rungs {','.join(rungs)}", err=True)
        return NOTHING_FOUND
    if as_json:
        print_json(answer)
    else:
        from autotune.cli import tables

        tables.show_answer(answer)
    return 0


@app.command()
def serve(host: options.Host = None, port: options.Port = None, db: options.Db = None) -> int:
    """Answers /best over HTTP from a database, until Ctrl-C.

    The database is made where there is none: every answer is the default's until a sweep fills it. Reading needs no
    key; an address that other machines can reach is refused while `autotune keys add` has made none.

    \b
    Examples:
      autotune serve
      autotune serve --host 0.0.0.0 --port 8000 --db sqlite:////var/lib/autotune/plans.db
    """
    from autotune.cli import composition, keys, server
    from autotune.db.store import Store
    from autotune.service.app import create_app

    address, number, url = options.chosen(HOST, host), options.chosen(PORT, port), options.chosen(DB, db)
    with server.listen(address, number) as listener:
        store = Store.open(url)
        hosts = server.names(address)
        if hosts is None:
            keys.require(store, address)
        served = create_app(store, composition.devices(DEVICE.value()), hosts, server.runs(url))
        typer.echo(f"Serving plans on http://{address}:{number}/best, documented on /docs; Ctrl-C stops.", err=True)
        server.serve(served, listener)
        store.close()
    return 0


@app.command()
def devices(as_json: options.AsJson = False) -> None:
    """Lists the devices that plans can be tried on.

    \b
    Examples:
      autotune devices
      autotune devices --json
    """
    from autotune.cli import composition, tables

    usable, reasons = composition.targets()
    if as_json:
        found = [
            {"name": target.name, "fingerprint": target.fingerprint, "hardware": target.hardware.to_json()}
            for target in usable
        ]
        print_json({"devices": found, "unavailable": reasons})
    else:
        tables.show_targets(usable, reasons)


@app.command()
def strategies(as_json: options.AsJson = False) -> None:
    """Lists the strategies that propose plans, with what was installed beside ours.

    \b
    Examples:
      autotune strategies
      autotune strategies --json
    """
    from autotune.cli import tables
    from autotune.strategies import registry

    for complaint in registry.load():
        typer.echo(f"warning: {complaint}", err=True)
    found = registry.listing()
    if as_json:
        print_json({"strategies": [info._asdict() for info in found]})
    else:
        tables.show_strategies(found)


def _ask_database(
    problem: AttentionProblem, device: str, rungs: Sequence[str], db: str | None
) -> dict[str, Any] | None:
    from autotune.cli import composition
    from autotune.db.store import Store
    from autotune.service.device import find_device
    from autotune.service.ladder import answer

    composition.check_supported([problem], device)
    chip, target = find_device(composition.devices(device), device)
    store = Store.open(options.chosen(DB, db), create=False)
    found = answer(problem, chip, store, rungs, target)
    store.close()
    return found.to_json() if found else None


def _ask_service(problem: AttentionProblem, device: str, rungs: Sequence[str], url: str) -> dict[str, Any] | None:
    from autotune.cli import remote

    return remote.ask(options.chosen(URL, url), remote.query(problem, device, rungs))


def print_json(value: Any) -> None:
    """One object on stdout."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
