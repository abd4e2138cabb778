"""What is typed on the command line, and the values it becomes. A refusal is an InvalidInput that names the option."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from autotune.errors import InvalidInput, UnknownName
from autotune.problem import ATTN_MASKS, DTYPES, OPS, SHAPE_FORM, AttentionProblem, parse_shape, parse_window
from autotune.settings import DB, DEVICE, HOST, PORT, SEED, TRIALS, WORKERS, Setting, Value


def _option(flag: str, metavar: str, text: str, setting: Setting[Any] | None = None) -> Any:
    where = f" [{setting.variable}, else {setting.default}]" if setting else ""
    return typer.Option(flag, metavar=metavar, help=text + where, show_default=False)


Shape: TypeAlias = Annotated[str, _option("--shape", "B,H,Nq,N,D", f"{SHAPE_FORM}.")]
Shapes: TypeAlias = Annotated[list[str] | None, _option("--shape", "B,H,Nq,N,D", f"{SHAPE_FORM}. Several: repeat.")]
Workload: TypeAlias = Annotated[Path | None, _option("--workload", "FILE", "Problems in a .yaml, .json or .csv file.")]
FromConfig: TypeAlias = Annotated[
    Path | None, _option("--from-config", "FILE", "A model's config.json, at each of --lengths.")
]
Lengths: TypeAlias = Annotated[str | None, _option("--lengths", "LIST", "Tokens, for --from-config: 512,2048")]
Batches: TypeAlias = Annotated[str, _option("--batches", "LIST", "Sequences, for --from-config: 1,8 [1]")]
Wanted: TypeAlias = Annotated[
    bool, typer.Option("--wanted", help="What the service was asked for on the device and had no plan of.")
]
Op: TypeAlias = Annotated[str, _option("--op", "NAME", f"{' or '.join(OPS)} [{OPS[0]}]")]
AttnMask: TypeAlias = Annotated[str, _option("--attn-mask", "NAME", f"{', '.join(ATTN_MASKS)} [none]")]
Dropout: TypeAlias = Annotated[bool, typer.Option("--dropout", help="Dropout on the probabilities.")]
Alibi: TypeAlias = Annotated[bool, typer.Option("--alibi", help="A bias for each key and head.")]
Window: TypeAlias = Annotated[str | None, _option("--window", "PREV,NEXT", "Keys seen around each query, in tokens.")]
BlockWindow: TypeAlias = Annotated[
    str | None, _option("--block-window", "PREV,NEXT", "The same in blocks of 128 tokens.")
]
HighPrecision: TypeAlias = Annotated[bool, typer.Option("--high-precision", help="Scores and sums in fp32.")]
DType: TypeAlias = Annotated[str, _option("--dtype", "NAME", f"{' or '.join(DTYPES)} [float16]")]

Device: TypeAlias = Annotated[str | None, _option("--device", "KIND:NAME", "See `autotune devices`.", DEVICE)]
Strategies: TypeAlias = Annotated[
    list[str] | None,
    _option("--strategy", "NAME", "Who proposes plans; repeat for several [all; see `autotune strategies`]"),
]
Trials: TypeAlias = Annotated[str | None, _option("--trials", "N", "Plans to try for each problem.", TRIALS)]
Budget: TypeAlias = Annotated[
    str | None, _option("--budget", "TIME", "Time for all problems: 8h, 90m, 30s. Without --trials it alone limits.")
]
Until: TypeAlias = Annotated[str | None, _option("--until", "HH:MM", "The same as a local time, the next one: 07:00.")]
Seed: TypeAlias = Annotated[str | None, _option("--seed", "N", "Start of the search's random numbers.", SEED)]
SweepName: TypeAlias = Annotated[
    str | None, _option("--name", "TEXT", "What the sweep is called in what it records [date, time and four digits]")
]
Workers: TypeAlias = Annotated[
    str | None, _option("--workers", "N", "Processes for trials; 0: in the sweep's own.", WORKERS)
]
Db: TypeAlias = Annotated[str | None, _option("--db", "URL", "The database, sqlite:///FILE or postgresql://...", DB)]
Url: TypeAlias = Annotated[str | None, _option("--url", "URL", "Ask this service instead of the database.")]
Allow: TypeAlias = Annotated[str | None, _option("--allow", "LIST", "Rungs that may answer [all]")]
Host: TypeAlias = Annotated[str | None, _option("--host", "ADDRESS", "Address to listen on.", HOST)]
Port: TypeAlias = Annotated[str | None, _option("--port", "N", "Port to listen on.", PORT)]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]

UNTIL_FORM = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
BUDGET_FORM = re.compile(r"(\d{1,6})([smh])", re.ASCII)
SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class ProblemOptions:
    """The options of a problem but its shape, as they were typed."""

    op: str
    attn_mask: str
    dropout: bool
    alibi: bool
    window: str | None
    block_window: str | None
    high_precision: bool
    dtype: str

    def problem(self, shape: str) -> AttentionProblem:
        """The problem at a shape. Raises ProblemError."""
        return self.of(parse_shape(shape))

    def of(self, shape: Sequence[int]) -> AttentionProblem:
        """The problem at a shape of four or five numbers. Raises ProblemError."""
        return AttentionProblem.from_json({**self.to_json(), "shape": tuple(shape)})

    def to_json(self) -> dict[str, Any]:
        """Everything but the shape, by the names of a problem's fields. Raises ProblemError."""
        windows = {"window": self.window, "block_window": self.block_window}
        return {**asdict(self), **{name: text and parse_window(name, text) for name, text in windows.items()}}


def chosen(setting: Setting[Value], given: str | None) -> Value:
    """The option's value where it was given, otherwise the setting's. Raises InvalidInput."""
    if given is None:
        return setting.value()
    try:
        return setting.parse(given)
    except ValueError as error:
        raise InvalidInput(f"--{setting.name} is {given[:60]!r}; it must be {error}", setting.name) from error


def seconds(time: str, option: str = "budget") -> int:
    """``8h``, ``90m`` or ``30s`` in seconds. Raises InvalidInput."""
    form = BUDGET_FORM.fullmatch(time)
    if form is None or int(form[1]) == 0:
        raise InvalidInput(f"--{option} is {time[:60]!r}; write a time as 8h, 90m or 30s", option)
    return int(form[1]) * SECONDS[form[2]]


def seconds_until(until: str, now: datetime) -> float:
    """From now to the next local time ``HH:MM``. Raises InvalidInput."""
    form = UNTIL_FORM.fullmatch(until)
    if form is None:
        raise InvalidInput(f"--until is {until[:60]!r}; write a time of day as 07:00", "until")
    end = now.replace(hour=int(form[1]), minute=int(form[2]), second=0, microsecond=0)
    return ((end if end > now else end + timedelta(days=1)) - now).total_seconds()


def time_limit(budget: str | None, until: str | None, now: datetime) -> float | None:
    """Seconds that a sweep may take, None where neither limits it. Raises InvalidInput."""
    if budget is not None and until is not None:
        raise InvalidInput("--budget and --until exclude each other: both say when the sweep ends", "until")
    if until is not None:
        return seconds_until(until, now)
    return None if budget is None else seconds(budget)


def sweep_name(given: str | None) -> str:
    """What a sweep is called: as given, else after the time. Raises InvalidInput."""
    if given is None:
        return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}"
    if not given.strip() or len(given) > 100 or not given.isprintable():
        raise InvalidInput("--name must be a line of 1 to 100 characters", "name")
    return given


def check_names(names: Iterable[str], known: Sequence[str], option: str) -> None:
    """Raises UnknownName for the first that is not known; the sentence lists those that are, the likeliest first."""
    for name in names:
        if name not in known:
            by_lower_case = {other.lower(): other for other in known}
            close = get_close_matches(name.lower(), by_lower_case, n=1)
            meant = f"did you mean {by_lower_case[close[0]]}? " if close else ""
            raise UnknownName(f"--{option} {name[:60]!r} is unknown; {meant}known: {', '.join(known)}", option)


def rungs(allow: str | None, known: Sequence[str]) -> Sequence[str]:
    """The rungs in a list with commas, all where none is given. Raises UnknownName."""
    if allow is None:
        return known
    names = allow.split(",")
    check_names(names, known, "allow")
    return names
