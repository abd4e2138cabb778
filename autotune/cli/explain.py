"""``autotune explain``: where the time of one plan goes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from autotune.cli import options
from autotune.cli.commands import app
from autotune.errors import InvalidInput, PlanError, StoreError
from autotune.plan import TilingPlan
from autotune.problem import OPS, AttentionProblem
from autotune.settings import DB, DEVICE

if TYPE_CHECKING:
    from autotune.kernels.targets.base import Recorded, Target

PLAN_FORM = "Br=128,Bc=256 and, if wanted, core_split=balanced,double_buffer=true"

Plan: TypeAlias = Annotated[
    str | None, typer.Option("--plan", metavar="LIST", help=f"{PLAN_FORM} [the best stored one, else the default's]")
]
Trace: TypeAlias = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="Write every instruction of a core, for ui.perfetto.dev.")
]
Core: TypeAlias = Annotated[
    int | None, typer.Option("--core", metavar="N", min=0, help="The core of --trace [the slowest]")
]
Sensitivity: TypeAlias = Annotated[
    bool, typer.Option("--sensitivity", help="Say how often the best plan stays best when uncertain numbers vary.")
]
Profile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--profile", metavar="FILE", help="Numbers of the timing model, from `autotune calibrate`."),
]
Plot: TypeAlias = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw time over (Br, Bc), as FILE.png or FILE.svg.")
]


@app.command()
def explain(
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
    plan: Plan = None,
    sensitivity: Sensitivity = False,
    trace: Trace = None,
    core: Core = None,
    plot: Plot = None,
    profile: Profile = None,
    db: options.Db = None,
    as_json: options.AsJson = False,
) -> int:
    """Tells where the emulated time of a plan goes.

    Says for the slowest core how busy each pipe is, what it waits for at which line of the kernel, the bytes moved on
    each route, and how far the plan is from the bound that its work sets.

    \b
    Examples:
      autotune explain --shape 2,16,4096,4096,64
      autotune explain --shape 2,16,4096,4096,64 --plan Br=64,Bc=512 --trace core.json
      autotune explain --shape 2,16,1024,1024,64 --attn-mask causal --plot blocks.png
    """
    from autotune import explain as explaining
    from autotune.cli import composition, explained, heatmap

    asked = options.ProblemOptions(op, attn_mask, dropout, alibi, window, block_window, high_precision, dtype)
    problem = asked.problem(shape)
    composition.check_supported([problem], options.chosen(DEVICE, device))
    if plot is not None:
        heatmap.check(plot)
    target = composition.open_target(options.chosen(DEVICE, device), profile)
    known = [] if plan and not sensitivity else _known(problem, target, db)
    given = parse_plan(plan) if plan else known[0] if known else explaining.default_plan(problem, target)
    found = explaining.explain(target, problem, given)
    if trace is not None:
        _write_trace(explaining.record(target, problem, given), core, trace)
    check = composition.kernel_check(target)
    cells = list(explaining.time_map(target, problem, given, check)) if plot or (sensitivity and not known) else []
    if plot is not None:
        with writing("plot", plot):
            heatmap.draw(plot, f"{problem.key}\non {target.name}", cells, (given.Br, given.Bc))
    stable = None
    if sensitivity:
        stable = explaining.stability(target, problem, [given, *known, *explaining.fastest(cells, given)])
    if as_json:
        value = found.to_json() | {"sensitivity": stable and stable.to_json()}
        sys.stdout.write(json.dumps(value, indent=2) + "\n")
    else:
        explained.show(found, "as given" if plan else "the best stored one" if known else "the default's", stable)
    return 0


def parse_plan(text: str) -> TilingPlan:
    """``Br=128,Bc=256`` with any other fields of a plan; ``core_split`` is a rule's name. Raises PlanError."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (item.strip() for item in part.partition("="))
        if not equals or name in given:
            raise PlanError(f"--plan is {text[:60]!r}; write it as {PLAN_FORM}", "plan")
        given[name] = (
            int(value) if value.isascii() and value.isdigit() and len(value) < 10 else _WORDS.get(value, value)
        )
    given["core_split"] = {"rule": given.get("core_split", "even")}
    return TilingPlan.from_json(given)


_WORDS = {"true": True, "false": False}


def _known(problem: AttentionProblem, target: Target, db: str | None) -> list[TilingPlan]:
    """The best stored plan and the fastest trials; none, with a word on stderr, where there is no database."""
    from autotune.db.store import Store
    from autotune.outcome import Timed

    try:
        store = Store.open(options.chosen(DB, db), create=False)
    except StoreError as error:
        if db is not None:
            raise
        typer.echo(f"autotune: {error}; the default's plan is explained", err=True)
        return []
    best = store.best(problem, target.hardware.name, target.name)
    trials = store.trials(problem, target.hardware.name, target.name, target.fingerprint)
    store.close()
    timed = [(t.outcome.timing.time_us, t.plan) for t in trials if isinstance(t.outcome, Timed)]
    fastest = [plan for _, plan in sorted(timed, key=lambda pair: pair[0])]
    return [best.plan, *fastest] if best else []


def _write_trace(kernel: Recorded, core: int | None, path: Path) -> None:
    from autotune.kernels.davinci.timeline import timeline

    cores = kernel.program.block_num
    if core is not None and core >= cores:
        raise InvalidInput(f"--core is {core}; this plan uses the cores 0 to {cores - 1}", "core")
    found = timeline(kernel.program, core, profile=kernel.profile)
    with writing("trace", path):
        found.write(path)
    if found.cut:
        typer.echo(f"autotune: {path} holds the first {len(found.events)} events of core {found.core} only", err=True)


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """Around whatever writes the file of an option. Raises InvalidInput where that fails."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"--{option}: cannot write {path}: {error.strerror}", option) from error
