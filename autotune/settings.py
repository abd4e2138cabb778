"""The settings a user can make once, as one table: name, default, unit, help.

A setting is read here and nowhere else, by ``cli`` and passed on as an argument. An option on the command line outranks
its AUTOTUNE_* variable, which outranks the default. ``python -m autotune.settings`` prints docs/settings.md.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from autotune.errors import InvalidInput

Value = TypeVar("Value", str, int)


@dataclass(frozen=True)
class Setting(Generic[Value]):
    """One row of the table. ``parse`` makes a value of a variable's text; it raises ValueError saying what must be."""

    name: str
    default: Value
    unit: str
    help: str
    parse: Callable[[str], Value]

    @property
    def variable(self) -> str:
        """The environment variable, e.g. AUTOTUNE_DB."""
        return f"AUTOTUNE_{self.name.upper()}"

    def exported(self, value: Value) -> dict[str, str]:
        """The environment of a process for which this is the setting's value."""
        return {**os.environ, self.variable: str(value)}

    def value(self) -> Value:
        """The variable's value, or the default where it is unset or empty. Raises InvalidInput."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise InvalidInput(f"{self.variable} is {text[:60]!r}; it must be {error}", self.variable) from error


def _whole_number(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else -1
        if not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return parse


def _workers(text: str) -> str:
    if text != AUTO:
        try:
            _whole_number(0, 1024)(text)
        except ValueError as error:
            raise ValueError(f"{AUTO} or {error}") from error
    return text


def _http_address(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("an address that starts with http:// or https://")
    return text.rstrip("/")


AUTO = "auto"
"""Of ``workers``: as many as suit the device."""

DB = Setting("db", "sqlite:///autotune.db", "URL", "database that a sweep writes and the service reads", str)
URL = Setting("url", "http://127.0.0.1:8321", "URL", "service that clients ask", _http_address)
HOST = Setting("host", "127.0.0.1", "address", "address that the service listens on", str)
PORT = Setting("port", 8321, "TCP port", "port that the service listens on", _whole_number(1, 65535))
DEVICE = Setting("device", "emulated:Ascend910A", "target", "where a sweep runs and a question is about", str)
TRIALS = Setting("trials", 40, "plans", "plans that a sweep tries for each problem", _whole_number(1, 1_000_000))
SEED = Setting("seed", 0, "none", "start of the search's random numbers", _whole_number(0, 2**32 - 1))
WORKERS = Setting(
    "workers", AUTO, "processes", "processes that run a sweep's trials; 0: none, the sweep runs them itself", _workers
)

SETTINGS: tuple[Setting[Any], ...] = (DB, URL, HOST, PORT, DEVICE, TRIALS, SEED, WORKERS)


def cache_folder() -> Path:
    """Where built kernels are kept: ``autotune`` in the user's cache folder (XDG base directories, version 0.8)."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "autotune"


def page() -> str:
    """docs/settings.md: the table in Markdown."""
    return _TOP + "".join(
        f"| `{setting.name}` | `{setting.variable}` | `{setting.default}` | {setting.unit} | {setting.help} |\n"
        for setting in SETTINGS
    )


_TOP = """\
# Settings

Each setting has a default, an environment variable that replaces the default and, on the commands where it matters, an
option that replaces both (`--db`, `--port`, ...). A variable that is empty counts as unset; one that makes no sense is
refused with exit code 2 and a sentence that names it. `autotune/client.py` reads `AUTOTUNE_URL` by itself, and asks no
service where that is unset.

This page is written by `python -m autotune.settings > docs/settings.md`; do not edit it by hand.

| setting | variable | default | unit | meaning |
|---|---|---|---|---|
"""

if __name__ == "__main__":
    sys.stdout.write(page())
