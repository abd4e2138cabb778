"""How long the emulated core takes to build and run kernels that we did not write, on one core of the host.

python benchmarks/emulator.py [--quick] [--json]      exit code 1 where a bar is missed

The kernels are forward and backward of the PyPI package flash-attention 1.0.0, unmodified: D = 64, one head, strategy
``sparse``. Plain float32 attention in numpy is timed in turn with them, so that both see the same machine.
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np

from autotune.kernels.davinci import options as davinci_options
from benchmarks import bars
from tests.real import public_kernels
from tests.real.public_cases import Case, inputs, relative_error, truth

SHORT, LONG = Case((1, 1, 1024, 1024, 64)), Case((1, 1, 2048, 2048, 64))
BARS = {
    "forward_1024_seconds": 0.15,
    "forward_2048_times_numpy": 7.0,
    "backward_2048_times_numpy": 7.0,
    "relative_error_of_o": 2e-3,
}
"""The most that each value may be. Seconds and ratios are of building and running."""


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "5 repeats instead of 25").parse_args()
    report = measure(repeats=5 if options.quick else 25)
    return bars.finish(report, options.json, text)


def measure(repeats: int) -> dict[str, Any]:
    """Medians in seconds over ``repeats`` interleaved rounds, after one first round that is reported apart."""
    benches = {
        "forward_1024": Bench(SHORT, False),
        "forward_2048": Bench(LONG, False),
        "backward_2048": Bench(LONG, True),
    }
    first = {name: bench.round() for name, bench in benches.items()}
    rounds = [{name: bench.round() for name, bench in benches.items()} for _ in range(repeats)]
    middle = {name: middle_of([one[name] for one in rounds]) for name in benches}
    given = inputs(SHORT)
    values = {
        "forward_1024_seconds": middle["forward_1024"]["total"],
        "forward_2048_times_numpy": middle["forward_2048"]["times_numpy"],
        "backward_2048_times_numpy": middle["backward_2048"]["times_numpy"],
        "relative_error_of_o": relative_error(public_kernels.forward(SHORT, given)[0], truth(SHORT, given).o),
    }
    figures: dict[str, Any] = {"repeats": repeats}
    for name, bench in benches.items():
        figures |= {f"{name}_{part}": value for part, value in middle[name].items()}
        figures[f"{name}_first"] = first[name]["total"]
        figures[f"{name}_instructions"] = executed = bench.instructions()
        figures[f"{name}_instructions_per_second"] = executed / middle[name]["run"]
    return {
        "bars": {name: bars.at_most(values[name], bar) for name, bar in BARS.items()},
        "figures": figures,
    }


def middle_of(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The median of each part, and of the ratio to numpy."""
    parts = {part: statistics.median(one[part] for one in rounds) for part in rounds[0]}
    return {**parts, "times_numpy": statistics.median(one["total"] / one["numpy"] for one in rounds)}


class Bench:
    """One kernel with its arrays, and the same work in plain numpy."""

    def __init__(self, case: Case, backward: bool) -> None:
        self.case, self.given, self.backward = case, inputs(case), backward
        self.o, self.lse = public_kernels.forward(case, self.given)
        names = ("q", "k", "v", "do")
        self.plain = tuple(getattr(self.given, name)[0, 0].astype(np.float32) for name in names)

    def build(self) -> public_kernels.Built:
        """The kernel, recorded."""
        if self.backward:
            return public_kernels.build_gradients(self.case, self.given, self.o, self.lse)
        return public_kernels.build_forward(self.case, self.given)

    def round(self) -> dict[str, float]:
        """Seconds to build the kernel, to run it, of both, and of plain numpy."""
        built, build = timed(self.build)
        _, run = timed(built.run)
        q, k, v, do = self.plain
        _, plain = timed(lambda: numpy_gradients(q, k, v, do) if self.backward else numpy_attention(q, k, v))
        return {"build": build, "run": run, "total": build + run, "numpy": plain}

    def instructions(self) -> int:
        """How many instructions one run executes."""
        lines = io.StringIO()
        with davinci_options.using(trace=lines):
            self.build().run()
        return lines.getvalue().count("\n")


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


def numpy_gradients(q: np.ndarray, k: np.ndarray, v: np.ndarray, do: np.ndarray) -> tuple[np.ndarray, ...]:
    """dQ, dK and dV of one head, with its forward."""
    scores = q @ k.T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    o = p @ v
    ds = p * (do @ v.T - (do * o).sum(axis=1, keepdims=True))
    return ds @ k, ds.T @ q, p.T @ do


def text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    figures = [f"{name}: {value:.4g}" for name, value in report["figures"].items()]
    return "\n".join([*figures, *bars.lines(report)])


if __name__ == "__main__":
    sys.exit(main())
