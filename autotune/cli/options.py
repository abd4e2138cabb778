"""What is typed on the command line, and the values it becomes. A refusal is an InvalidInput that names the option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias

import typer

from autotune.errors import InvalidInput, UnknownName
from autotune.problem import ATTN_MASKS, DTYPES, OPS, SHAPE_FORM, AttentionProblem, parse_shape, parse_window
from autotune.settings import DB, DEVICE, HOST, PORT, SEED, TRIALS, Setting, Value


def _option(flag: str, metavar: str, text: str, setting: Setting[Any] | None = None) -> Any:
    where = f" [{setting.variable}, else {setting.default}]" if setting else ""
    return typer.Option(flag, metavar=metavar, help=text + where, show_default=False)


Shape: TypeAlias = Annotated[str, _option("--shape", "B,H,Nq,N,D", f"{SHAPE_FORM}.")]
Shapes: TypeAlias = Annotated[list[str], _option("--shape", "B,H,Nq,N,D", f"{SHAPE_FORM}. Several: repeat.")]
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
Seed: TypeAlias = Annotated[str | None, _option("--seed", "N", "Start of the search's random numbers.", SEED)]
Db: TypeAlias = Annotated[str | None, _option("--db", "URL", "The database, sqlite:///FILE.", DB)]
Url: TypeAlias = Annotated[str | None, _option("--url", "URL", "Ask this service instead of the database.")]
Allow: TypeAlias = Annotated[str | None, _option("--allow", "LIST", "Rungs that may answer [all]")]
Host: TypeAlias = Annotated[str | None, _option("--host", "ADDRESS", "Address to listen on.", HOST)]
Port: TypeAlias = Annotated[str | None, _option("--port", "N", "Port to listen on.", PORT)]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]

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
        return AttentionProblem.of(
            parse_shape(shape),
            op=self.op,
            dtype=self.dtype,
            attn_mask=self.attn_mask,
            dropout=self.dropout,
            alibi=self.alibi,
            window=self.window and parse_window("window", self.window),
            block_window=self.block_window and parse_window("block_window", self.block_window),
            high_precision=self.high_precision,
        )

    def problems(self, shapes: Sequence[str]) -> list[AttentionProblem]:
        """The problems at these shapes, each once. Raises ProblemError."""
        return list(dict.fromkeys(self.problem(shape) for shape in shapes))


def chosen(setting: Setting[Value], given: str | None) -> Value:
    """The option's value where it was given, otherwise the setting's. Raises InvalidInput."""
    if given is None:
        return setting.value()
    try:
        return setting.parse(given)
    except ValueError as error:
        raise InvalidInput(f"--{setting.name} is {given[:60]!r}; it must be {error}", setting.name) from error


def seconds(budget: str) -> int:
    """``8h``, ``90m`` or ``30s`` in seconds. Raises InvalidInput."""
    form = BUDGET_FORM.fullmatch(budget)
    if form is None or int(form[1]) == 0:
        raise InvalidInput(f"--budget is {budget[:60]!r}; write a time as 8h, 90m or 30s", "budget")
    return int(form[1]) * SECONDS[form[2]]


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
