"""How long the emulated core takes to build and run a kernel that we did not write, on one core of the host.

python benchmarks/emulator.py [--quick] [--json]      exit code 1 where a bar is missed

The kernel is the forward of the PyPI package flash-attention 1.0.0, unmodified: N = 1024, D = 64, one head, strategy
``sparse``. Plain float32 attention in numpy is timed in turn with it, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"
sys.path.append(str(Path(__file__).parents[1]))

import numpy as np

from tests.real import public_kernels
from tests.real.public_cases import Case, inputs, relative_error, truth

CASE = Case((1, 1, 1024, 1024, 64))
BARS = {"forward_build_and_run_seconds": 0.15, "relative_error_of_o": 2e-3}
"""The most that each value may be."""


def main() -> int:
    """The script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="5 repeats instead of 25")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    report = measure(repeats=5 if options.quick else 25)
    print(json.dumps(report, indent=2) if options.json else text(report))
    return 0 if all(bar["ok"] for bar in report["bars"].values()) else 1


def measure(repeats: int) -> dict[str, Any]:
    """Medians in seconds over ``repeats`` interleaved rounds, after one first round that is reported apart."""
    given = inputs(CASE)
    first = one_round(given)
    rounds = [one_round(given) for _ in range(repeats)]
    median = {name: statistics.median(r[name] for r in rounds) for name in first}
    values = {
        "forward_build_and_run_seconds": statistics.median(r["build"] + r["run"] for r in rounds),
        "relative_error_of_o": relative_error(public_kernels.forward(CASE, given)[0], truth(CASE, given).o),
    }
    return {
        "bars": {name: {"value": values[name], "bar": bar, "ok": values[name] <= bar} for name, bar in BARS.items()},
        "figures": {
            "repeats": repeats,
            "build_seconds": median["build"],
            "run_seconds": median["run"],
            "first_build_and_run_seconds": first["build"] + first["run"],
            "least_build_and_run_seconds": min(r["build"] + r["run"] for r in rounds),
            "numpy_float32_seconds": median["numpy"],
            "times_numpy": statistics.median((r["build"] + r["run"]) / r["numpy"] for r in rounds),
        },
    }


def one_round(given: Any) -> dict[str, float]:
    """Seconds to build the kernel, to run it, and of the same attention in plain numpy."""
    built, build = timed(lambda: public_kernels.build_forward(CASE, given))
    _, run = timed(built.run)
    q, k, v = (array[0, 0].astype(np.float32) for array in (given.q, given.k, given.v))
    _, plain = timed(lambda: numpy_attention(q, k, v))
    return {"build": build, "run": run, "numpy": plain}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What ``work`` returns, and its seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def numpy_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Softmax(q k^T) v of one head."""
    scores = q @ k.T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    o: np.ndarray = (p @ v) / p.sum(axis=1, keepdims=True)
    return o


def text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    lines = [f"{name}: {value:.4g}" for name, value in report["figures"].items()]
    for name, bar in report["bars"].items():
        lines.append(f"{name}: {bar['value']:.4g} (bar {bar['bar']}) {'ok' if bar['ok'] else 'MISSED'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
