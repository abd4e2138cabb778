"""What a sweep is asked to tune besides shapes: a file of problems, a model's config.json, and what users missed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from autotune.cli.options import ProblemOptions
from autotune.errors import InvalidInput
from autotune.problem import SHAPE_NAMES, AttentionProblem, parse_shape, parse_window

MOST_BYTES = 1 << 20
"""Largest file that is read."""
MOST_PROBLEMS = 10_000
HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
HEAD_DIM = ("head_dim", "d_kv")
"""Names of one size in config.json files of Hugging Face's Transformers, of Llama, GPT-2, T5 and DistilBERT in turn."""
YES_NO = {"true": True, "false": False}

Entry = Mapping[str, Any]


def read_problems(path: Path, options: ProblemOptions) -> list[AttentionProblem]:
    """The problems of a .yaml, .yml, .json or .csv file; what an entry does not say is as the options say.

    An entry has ``shape``, as text or a list (in CSV also columns B, H, Nq, N, D), and any field of a problem.
    Raises InvalidInput naming the file and the entry.
    """
    parse = _FORMATS.get(path.suffix.lower())
    if parse is None:
        raise InvalidInput(f"--workload {path}: its name must end with {', '.join(_FORMATS)}", "workload")
    text = _read(path, "workload")
    try:
        entries = parse(text)
    except (ValueError, yaml.YAMLError, csv.Error, RecursionError) as error:
        raise InvalidInput(f"--workload {path} cannot be read: {error}", "workload") from error
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidInput(f"--workload {path} must be a list of problems, each with a shape", "workload")
    if len(entries) > MOST_PROBLEMS:
        raise InvalidInput(f"--workload {path} has {len(entries)} problems; at most {MOST_PROBLEMS}", "workload")
    return [_problem(path, number, entry, options) for number, entry in enumerate(entries, 1)]


def read_config(path: Path, lengths: str | None, batches: str, options: ProblemOptions) -> list[AttentionProblem]:
    """A model's attention at each length (Nq = N) and batch, from its config.json.

    Heads are those of the queries: grouped keys and values are read as if repeated. Raises InvalidInput, ProblemError.
    """
    if lengths is None:
        raise InvalidInput("--from-config needs --lengths, for example --lengths 512,2048", "lengths")
    sizes = [(batch, length) for batch in _numbers("batches", batches) for length in _numbers("lengths", lengths)]
    text = _read(path, "from-config")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--from-config {path} is no JSON: {error}", "from-config") from error
    if not isinstance(config, dict):
        raise InvalidInput(f"--from-config {path} must be one JSON object", "from-config")
    nested = config.get("text_config")  # of models that also see or hear
    heads, head_dim = _attention({**config, **nested} if isinstance(nested, dict) else config, path)
    return [options.of((batch, heads, length, head_dim)) for batch, length in sizes]


def supported(
    problems: Iterable[AttentionProblem], check: Callable[[AttentionProblem], None]
) -> tuple[list[AttentionProblem], list[str]]:
    """The problems that pass the check, and why the others do not: nobody typed those, so they stop nothing."""
    passing, reasons = [], []
    for problem in problems:
        try:
            check(problem)
            passing.append(problem)
        except InvalidInput as error:
            reasons.append(str(error))
    return passing, reasons


def _read(path: Path, option: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InvalidInput(f"--{option} {path} is larger than {MOST_BYTES} bytes", option)
        return content.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"--{option}: cannot read {path}: {error.strerror}", option) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"--{option} {path} is no text in UTF-8", option) from error


def _rows(text: str) -> list[Entry]:
    """The lines of a CSV file by the names in its first; empty cells are left out."""
    rows = csv.DictReader(StringIO(text), strict=True, skipinitialspace=True)
    return [_row(row, rows.line_num) for row in rows]


def _row(row: Mapping[str | None, Any], line: int) -> Entry:
    if None in row:
        raise ValueError(f"line {line} has more cells than the first; a shape with commas needs quotes")
    said = {str(name).strip(): cell.strip() for name, cell in row.items() if cell and cell.strip()}
    columns = [said.pop(name) for name in SHAPE_NAMES if name in said]
    if columns:
        said.setdefault("shape", ",".join(columns))
    return {name: YES_NO.get(cell.lower(), cell) for name, cell in said.items()}


_FORMATS: Mapping[str, Callable[[str], Any]] = {
    ".yaml": yaml.safe_load,
    ".yml": yaml.safe_load,
    ".json": json.loads,
    ".csv": _rows,
}


def _problem(path: Path, number: int, entry: Entry, options: ProblemOptions) -> AttentionProblem:
    try:
        said = {name: _value(name, value) for name, value in entry.items()}
        return AttentionProblem.from_json({**options.to_json(), **said})
    except (InvalidInput, TypeError) as error:
        raise InvalidInput(f"--workload {path}: problem {number}: {error}", "workload") from error


def _value(name: str, value: Any) -> Any:
    if isinstance(value, str) and name == "shape":
        return parse_shape(value)
    if isinstance(value, str) and name in ("window", "block_window"):
        return parse_window(name, value)
    return value


def _numbers(option: str, text: str) -> list[int]:
    parts = [part.strip(" ") for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 12 for part in parts):
        raise InvalidInput(f"--{option} is {text[:60]!r}; write whole numbers with commas, as 512,2048", option)
    return [int(part) for part in parts]


def _attention(config: Entry, path: Path) -> tuple[int, int]:
    """Query heads and head_dim; where the file has no head_dim, the width over the heads."""
    heads, head_dim, width = (_size(config, names) for names in (HEADS, HEAD_DIM, WIDTH))
    if heads and head_dim:
        return heads, head_dim
    if not (heads and width):
        raise InvalidInput(
            f"--from-config {path} must have num_attention_heads, and head_dim or hidden_size, as whole numbers",
            "from-config",
        )
    if width % heads:
        raise InvalidInput(f"--from-config {path}: width {width} is not a multiple of {heads} heads", "from-config")
    return heads, width // heads


def _size(config: Entry, names: Sequence[str]) -> int | None:
    found = (config[name] for name in names if config.get(name) is not None)
    value = next(found, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
