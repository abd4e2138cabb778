"""How long one emulated trial takes before verification: record the kernel, check its capacity, time it.

python benchmarks/trial.py [--quick] [--json]      exit code 1 where a bar is missed

Our kernels on the emulated Ascend 910A. CPU time of this process, after import; the median of 20 rounds (5 with
--quick), the cases in turn.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from autotune.kernels.targets.base import TimingBudget
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies import core_split
from benchmarks import bars

PLAN = TilingPlan(128, 128, CoreSplit("even"))
CASES = {
    "forward_1x32x4096x4096x64_milliseconds": ("flash_attention", (1, 32, 4096, 4096, 64), 20.0),
    "backward_1x32x4096x4096x64_milliseconds": ("flash_attention_grad", (1, 32, 4096, 4096, 64), 20.0),
    "forward_2x16x16384x16384x128_milliseconds": ("flash_attention", (2, 16, 16384, 16384, 128), 60.0),
    "backward_2x16x16384x16384x128_milliseconds": ("flash_attention_grad", (2, 16, 16384, 16384, 128), 60.0),
}
"""Name to operation, shape and the most milliseconds that its trial may take, with Br = Bc = 128."""


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "5 rounds instead of 20").parse_args()
    report = measure(rounds=5 if options.quick else 20)
    return bars.finish(report, options.json, text)


def measure(rounds: int) -> dict[str, Any]:
    """Medians over the rounds, after one round that is not counted."""
    target = EmulatedTarget("Ascend910A")
    problems = {name: AttentionProblem.of(shape, op=op) for name, (op, shape, _) in CASES.items()}
    taken = [{name: trial(target, problem) for name, problem in problems.items()} for _ in range(rounds + 1)][1:]
    held, figures = {}, {}
    for name, (_, _, bar) in CASES.items():
        record, clock = (statistics.median(one[name][part] for one in taken) for part in (0, 1))
        total = statistics.median(sum(one[name][:2]) for one in taken)
        held[name] = bars.at_most(total, bar)
        figures[name] = {"record_and_check": record, "time": clock, "emulated_us": taken[0][name][2]}
    return {"bars": held, "figures": figures, "model": target.fingerprint}


def trial(target: EmulatedTarget, problem: AttentionProblem) -> tuple[float, float, float]:
    """Milliseconds to record and check, milliseconds to time, and the emulated microseconds."""
    plan = core_split.complete(PLAN, problem, target.hardware)
    start = time.process_time()
    compiled = target.compile(problem, plan)
    recorded = time.process_time()
    timing = compiled.time(TimingBudget())
    return (recorded - start) * 1e3, (time.process_time() - recorded) * 1e3, timing.time_us


def text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    figures = [
        f"{name}: record and check {parts['record_and_check']:.1f}, time {parts['time']:.1f}; "
        f"emulated {parts['emulated_us']:.0f} us"
        for name, parts in report["figures"].items()
    ]
    return "\n".join([*figures, *bars.lines(report), f"model {report['model']}"])


if __name__ == "__main__":
    sys.exit(main())
