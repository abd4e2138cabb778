"""What the scripts in this folder share: their options, their bars, and how they end.

Imported before numpy: it keeps the linear algebra below numpy on one thread, so that times are of one core.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"

Report = dict[str, Any]
"""What a script measured; its ``bars`` are {name: {value, bar, ok}}."""


def parser(script: str | None, quick: str) -> argparse.ArgumentParser:
    """With --quick, which does ``quick``, and --json; ``script`` is the docstring of the script."""
    parser = argparse.ArgumentParser(description=(script or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return parser


def at_most(value: float, bar: float) -> dict[str, Any]:
    """A bar that is met from below."""
    return {"value": value, "bar": bar, "ok": value <= bar}


def at_least(value: float, bar: float) -> dict[str, Any]:
    """A bar that is met from above."""
    return {"value": value, "bar": bar, "ok": value >= bar}


def lines(report: Report) -> list[str]:
    """One line for each bar."""
    return [
        f"{name}: {bar['value']:.3g} (bar {bar['bar']}) {'ok' if bar['ok'] else 'MISSED'}"
        for name, bar in report["bars"].items()
    ]


def finish(report: Report, as_json: bool, text: Callable[[Report], str]) -> int:
    """Prints the report, as JSON or as its text, and gives the exit code: 1 where a bar is missed."""
    print(json.dumps(report, indent=2) if as_json else text(report))
    return 0 if all(bar["ok"] for bar in report["bars"].values()) else 1
