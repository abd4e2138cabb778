"""Our sweep beside Kernel Tuner: the same kernel in C, the same blocks, the same seconds.

python benchmarks/cpu_tuners.py [--quick] [--json]      exit code 1 where a bar is missed, 2 without a C compiler

Both tune Br and Bc of kernels/native/forward.c on two threads, by the CPU time of the busiest, for 45 seconds a problem
(20 and one problem with --quick), and verify what they time. Kernel Tuner compiles each plan, as macros; our sweep
compiles once. Afterwards the plans that both picked run in turn, and each pick beside the other plans that its tuner
thought fastest: a pick is right when none of those is more than 1 % faster.

Kernel Tuner is wanted by this script alone, in an environment of its own:

    python -m venv peers && peers/bin/pip install . kernel-tuner==1.5.0 && peers/bin/python benchmarks/cpu_tuners.py

Without it our own figures are shown alone.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np

from autotune.db.store import Store
from autotune.errors import PlanRejected, TargetUnavailable
from autotune.executor import InProcess
from autotune.kernels.flash_attention import reference
from autotune.kernels.native import build as building
from autotune.kernels.native.plans import check
from autotune.kernels.native.seen import seen
from autotune.kernels.targets.base import TimingBudget
from autotune.kernels.targets.cpu import CpuTarget
from autotune.outcome import Timed, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete
from autotune.strategies.lattice import sides
from autotune.sweep import Sweep
from autotune.tuning import Effort
from autotune.verify import Verifier
from benchmarks import bars

SHAPES = ((1, 8, 512, 512, 64), (1, 4, 1024, 77, 64), (1, 2, 1024, 1024, 128))
BUDGET = TimingBudget(repeats=7, seconds=4.0)
"""As many runs a plan as Kernel Tuner makes."""
MOST_OVERHEAD_S = 0.02
"""Of a trial, outside of compiling, verifying and running."""
MOST_SLOWER, RIGHT_PICK = 1.02, 1.01
CONTENDERS = 5
ROUNDS = 31
THREADS = 2

SOURCE = """
/* Kernel Tuner wraps what does not say extern "C". */
#include "%s"

float tuned(float *q, float *k, float *v, int64_t *first, int64_t *end, float *o, float *lse, float *scratch) {
    struct attention problem = {
        .q = q, .k = k, .v = v, .first = first, .end = end, .o = o, .lse = lse, .heads = HEADS, .heads_per_mask = 1,
        .Nq = NQ, .N = KEYS, .head_dim = HEAD_DIM, .Br = BR, .Bc = BC, .scale = SCALE,
    };
    int64_t blocks = HEADS * ((NQ + BR - 1) / BR), ends[] = {1, 2};
    struct run runs[] = {{0, blocks / 2}, {blocks / 2, blocks}};
    double cpu_us[2], wall_us;
    flash_attention_forward(&problem, runs, ends, 2, scratch, cpu_us, &wall_us);
    return (cpu_us[0] > cpu_us[1] ? cpu_us[0] : cpu_us[1]) / 1e3;
}
"""


@dataclass(frozen=True)
class Tuned:
    """What a tuner did with a problem. times_us: of the (Br, Bc) that it tried. overhead_s: of one trial."""

    times_us: Mapping[tuple[int, int], float]
    pick: tuple[int, int]
    overhead_s: float

    @property
    def contenders(self) -> list[tuple[int, int]]:
        """The pick, and what it beat most narrowly."""
        others = sorted(self.times_us, key=lambda blocks: self.times_us[blocks])
        return list(dict.fromkeys([self.pick, *others]))[:CONTENDERS]


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "one problem, 20 seconds").parse_args()
    try:
        report = measure(SHAPES[:1] if options.quick else SHAPES, 20.0 if options.quick else 45.0)
    except TargetUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    return bars.finish(report, options.json, text)


def measure(shapes: Sequence[tuple[int, ...]], seconds: float) -> dict[str, Any]:
    """Both tuners on each problem, and what their picks are worth."""
    figures: dict[str, Any] = {}
    for shape in shapes:
        problem = AttentionProblem.of(shape)
        with tempfile.TemporaryDirectory() as folder:
            target = CpuTarget(Path(folder))
            target.compile(problem, complete(TilingPlan(64, 64), problem, target.hardware))
            tuned = {"ours": ours(target, problem, f"sqlite:///{folder}/plans.db", seconds)}
            try:
                tuned["theirs"] = theirs(target, problem, Path(folder), seconds)
            except ImportError:
                print("kernel_tuner cannot be imported: our own figures alone", file=sys.stderr)
            figures["x".join(map(str, shape))] = {
                "picks_us": compared(target, problem, {name: found.pick for name, found in tuned.items()}),
                **{name: judged(target, problem, found) for name, found in tuned.items()},
            }
    held = {"overhead_s": bars.at_most(max(found["ours"]["overhead_s"] for found in figures.values()), MOST_OVERHEAD_S)}
    picks = [found["picks_us"] for found in figures.values()]
    if "theirs" in picks[0]:
        slower = statistics.geometric_mean(pick["ours"] / pick["theirs"] for pick in picks)
        held["time_over_theirs"] = bars.at_most(slower, MOST_SLOWER)
    return {"bars": held, "seconds": seconds, "figures": figures}


def ours(target: CpuTarget, problem: AttentionProblem, db: str, seconds: float) -> Tuned:
    """A sweep over the lattice."""

    def even(problem: AttentionProblem, plan: TilingPlan) -> None:
        check(problem, plan)
        if plan.core_split.rule != "even":
            raise PlanRejected("Kernel Tuner's space has the even split alone")

    store = Store.open(db)
    executor = Watched(target, Verifier(), BUDGET)
    effort = Effort(seconds=seconds)
    start = time.perf_counter()
    sweep = Sweep("tuners", target, store, executor, effort, strategies=("lattice",), check=even)
    [result] = sweep.run([problem]).results
    spent = time.perf_counter() - start
    trials = store.trials(problem, target.hardware.name, target.name)
    store.close()
    if result.best is None:
        raise TargetUnavailable("no plan works on this machine")
    outcomes = [(trial.plan, trial.outcome) for trial in trials if isinstance(trial.outcome, Timed)]
    working = sum(outcome.compile_s + outcome.verify_s + outcome.time_s for _, outcome in outcomes) + executor.race_s
    times = {(plan.Br, plan.Bc): outcome.timing.time_us for plan, outcome in outcomes}
    return Tuned(times, (result.best.plan.Br, result.best.plan.Bc), (spent - working) / len(times))


class Watched(InProcess):
    """Knows how long races took, which are runs."""

    race_s = 0.0

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Mapping[str, Timing]:
        start = time.perf_counter()
        try:
            return super().race(problem, plans)
        finally:
            Watched.race_s = time.perf_counter() - start


def theirs(target: CpuTarget, problem: AttentionProblem, folder: Path, seconds: float) -> Tuned:
    """Kernel Tuner's random samples until its time limit. Raises ImportError."""
    from kernel_tuner import tune_kernel

    batch, heads, nq, n, d = problem.shape
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((batch, heads, length, d), np.float32) for length in (nq, n, n))
    first, end = seen(problem)
    o, lse = np.zeros_like(q), np.zeros((batch, heads, nq), np.float32)
    rows, keys = sides(nq, target.hardware), sides(n, target.hardware)
    scratch = np.zeros(THREADS * (2 * (max(rows) + 32) * (d + 2) + 64 * (max(keys) + 64)) + 1024, np.float32)
    source = folder / "tuned.c"
    source.write_text(SOURCE % building.SOURCE)
    sizes = {"HEADS": heads, "NQ": nq, "KEYS": n, "HEAD_DIM": d, "SCALE": d**-0.5}
    options = [flag for flag in building.FLAGS if flag != "-shared"]
    exact, _ = reference.forward(q, k, v, problem)
    start = time.perf_counter()
    found, _ = tune_kernel(
        "tuned",
        str(source),
        problem_size=1,
        arguments=[q, k, v, first, end, o, lse, aligned(scratch)],
        tune_params={"BR": rows, "BC": keys},
        lang="C",
        compiler=target.compiler.path,
        compiler_options=[*options, *(f"-D{name}={value}" for name, value in sizes.items())],
        answer=[None, None, None, None, None, exact.astype(np.float32), None, None],
        atol=1e-4,
        strategy="random_sample",
        strategy_options={"time_limit": seconds, "fraction": 1.0},
        quiet=True,
    )
    spent = time.perf_counter() - start
    right = [each for each in found if isinstance(each["time"], float)]
    working = sum(each["compile_time"] + each["verification_time"] + each["benchmark_time"] for each in found) / 1e3
    times = {(each["BR"], each["BC"]): 1e3 * each["time"] for each in right}
    return Tuned(times, min(times, key=lambda blocks: times[blocks]), (spent - working) / len(found))


def aligned(array: Any) -> Any:
    """From its first whole vector on."""
    return array[(-array.ctypes.data % 64) // array.itemsize :]


def judged(target: CpuTarget, problem: AttentionProblem, tuned: Tuned) -> dict[str, Any]:
    """Trials, overhead, and whether the pick was the best of what was tried."""
    names = {f"{Br}x{Bc}": (Br, Bc) for Br, Bc in tuned.contenders}
    times = compared(target, problem, names)
    pick = "{}x{}".format(*tuned.pick)
    return {
        "trials": len(tuned.times_us),
        "pick": pick,
        "overhead_s": tuned.overhead_s,
        "right_pick": times[pick] <= RIGHT_PICK * min(times.values()),
    }


def compared(target: CpuTarget, problem: AttentionProblem, plans: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Median times in microseconds, all in turn."""
    watches = {}
    for name, (Br, Bc) in plans.items():
        plan = complete(TilingPlan(Br, Bc, CoreSplit("even")), problem, target.hardware)
        watches[name] = target.compile(problem, plan).stopwatch()
    rows = [[watch() for watch in watches.values()] for _ in range(ROUNDS)]
    return dict(zip(watches, (statistics.median(column) for column in zip(*rows))))


def text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    lines = [_line(shape, name, found) for shape, found in report["figures"].items() for name in found["picks_us"]]
    lines.append(
        f"{report['seconds']:g} seconds each; a trial's seconds are those beside compiling, verifying and running"
    )
    return "\n".join([*lines, *bars.lines(report)])


def _line(shape: str, name: str, found: Mapping[str, Any]) -> str:
    tuned, us = found[name], found["picks_us"][name]
    right = "the best" if tuned["right_pick"] else "not the best"
    return (
        f"{shape}, {name}: {tuned['pick']} takes {us:.0f} us, {right} of what it tried; {tuned['trials']} trials, "
        f"{tuned['overhead_s']:.3f} s each"
    )


if __name__ == "__main__":
    sys.exit(main())
