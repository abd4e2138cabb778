"""Profiles of the timing model as JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from autotune.kernels.davinci.constants import CONSTANTS
from autotune.kernels.davinci.costs import Profile
from autotune.kernels.davinci.soc import Rates
from autotune.kernels.davinci.table import ROWS

FORMAT = 1


def write(profile: Profile, path: Path) -> None:
    """Raises OSError."""
    value = {
        "format": FORMAT,
        "name": profile.name,
        "constants": dict(profile.constants),
        "slopes": {name: list(pair) for name, pair in profile.slopes.items()},
        "rates": profile.rates and asdict(profile.rates),
    }
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def read(path: Path) -> Profile:
    """Raises OSError, and ValueError with a sentence where the file is no profile of this model."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no JSON file: {error}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValueError(f"it is no profile of format {FORMAT}, as `autotune calibrate` writes it")
    constants = _numbers(value, "constants", CONSTANTS)
    slopes = {name: _pair(name, pair) for name, pair in _table(value, "slopes", {row.name for row in ROWS}).items()}
    return Profile(str(value.get("name")), constants, slopes, _rates(value))


def _rates(value: Mapping[str, Any]) -> Rates | None:
    if value.get("rates") is None:
        return None
    texts = {"source", "confidence"}
    rates = _table(value, "rates", {field.name for field in fields(Rates)})
    numbers = {name: rates.get(name) for name in rates.keys() - texts}
    missing = {field.name for field in fields(Rates)} - texts - numbers.keys()
    if missing:
        raise ValueError(f"its rates lack {', '.join(sorted(missing))}")
    for name, number in numbers.items():
        _whole("rates", name, number, 1)
    found: dict[str, Any] = numbers | {name: str(rates[name]) for name in texts & rates.keys()}
    return Rates(**found)


def _numbers(value: Mapping[str, Any], part: str, known: Mapping[str, object]) -> dict[str, int]:
    return {name: _whole(part, name, number, 0) for name, number in _table(value, part, set(known)).items()}


def _table(value: Mapping[str, Any], part: str, known: set[str]) -> dict[str, Any]:
    table = value.get(part, {})
    if not isinstance(table, dict):
        raise ValueError(f"its {part} are no object")
    unknown = sorted(table.keys() - known)
    if unknown:
        raise ValueError(f"its {part} name {', '.join(unknown)}, which this version does not know")
    return table


def _whole(part: str, name: str, number: Any, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise ValueError(f"its {part} say {number!r} for {name}; it must be a whole number, at least {least}")
    return number


def _pair(name: str, pair: Any) -> tuple[float, float]:
    numbers = pair if isinstance(pair, list) else []
    if len(numbers) != 2 or not all(isinstance(n, (int, float)) and 0 <= n < 1e6 for n in numbers):
        raise ValueError(f"its slopes say {pair!r} for {name}; they must be two numbers, of 16-bit and 32-bit elements")
    return (numbers[0], numbers[1])
