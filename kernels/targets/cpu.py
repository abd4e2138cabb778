"""The target on any Linux machine with a C compiler: the kernel in C, run and timed on the host's CPU."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from autotune import measure
from autotune.kernels.flash_attention.plans import check_work
from autotune.kernels.native import machine
from autotune.kernels.native.build import Compiler, build, find_compiler, source_hash
from autotune.kernels.native.library import Duration, Launch, Library
from autotune.kernels.native.plans import check
from autotune.kernels.native.seen import seen
from autotune.kernels.targets.base import Arrays, TimingBudget, check_inputs, input_shapes
from autotune.outcome import MEASURED, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem

WARM, COLD = "thread-cpu-time/warm/2", "thread-cpu-time/cold/2"
"""The protocols: CPU time of the busiest thread; warm, with inputs in the caches as the launch before left them, or
cold, with inputs and results in no cache; and the version of both."""
MOST_FLOPS_PER_CYCLE = 128
"""Of one core, generously: two 512-bit fused multiply-adds a cycle are 64, and a boost does not double the clock."""
WARM_UP_RUNS = 30
FINAL_RUNS, LEAST_FINAL_RUNS, FINAL_S = 60, 12, 3.0
"""Runs of each of the few plans that a sweep found fastest, which are close to each other, and seconds for each."""
CONSTANT = {"attn_mask": 0.0, "dropout_mask": 1.0}
"""Inputs that are one number when a plan is timed; they are read and applied all the same."""
FLOPS_PER_SCORE = 4
"""Times head_dim: a multiplication and an addition in each of the two products."""


class CpuTarget:
    """This machine. cache: folder for built kernels. cold: whether the caches are emptied before each launch.

    Raises TargetUnavailable where there is no compiler.
    """

    def __init__(self, cache: Path, cold: bool = False) -> None:
        self.name = "cpu-cold" if cold else "cpu"
        self.cold = cold
        self.compiler: Compiler = find_compiler()
        self.hardware = machine.hardware()
        identity = machine.identity()
        built = source_hash(self.compiler, identity)
        self.fingerprint = f"kernel-{built}/{identity}x{self.hardware.cores}/{COLD if cold else WARM}"
        self._cache, self._identity = cache, identity

    def compile(self, problem: AttentionProblem, plan: TilingPlan) -> CpuKernel:
        """One build serves every plan; the plan's core split must have its work. Raises PlanRejected, CompileFailed."""
        check(problem, plan)
        check_work(problem, plan)
        return CpuKernel(self._library, problem, plan, self._least_us(problem), self.cold, self._sentinel)

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Mapping[str, Timing]:
        """As ``Racing.race``. Raises PlanRejected, CompileFailed, RunFailed, ImplausibleTime."""
        kernels = {plan.key: self.compile(problem, plan) for plan in plans}
        watches = {key: kernel.stopwatch() for key, kernel in kernels.items()}
        slowest_us = 1e6 * max(watch.seconds() for watch in watches.values())
        runs = measure.affordable(FINAL_RUNS, slowest_us, FINAL_S, LEAST_FINAL_RUNS)
        ended = measure.race(watches, plans[0].key, Random(0), measure.Rules(runs_each=float(runs)))
        first = sorted(watches, key=lambda key: key != ended.winner)
        about = machine.state()
        return {key: watches[key].timing(kernels[key].least_us, about) for key in first}

    @cached_property
    def _sentinel(self) -> measure.Sentinel:
        """Some work of every core, a millisecond or less."""
        problem = AttentionProblem.of((1, self.hardware.cores, 256, 256, 64))
        work = tuple(((head, 0, 4),) for head in range(self.hardware.cores))
        plan = TilingPlan(64, 64, CoreSplit("even", self.hardware.cores, work))
        return measure.Sentinel(CpuKernel(self._library, problem, plan).stopwatch())

    @cached_property
    def _library(self) -> Library:
        return Library(build(self.compiler, self._identity, self._cache))

    def _least_us(self, problem: AttentionProblem) -> float:
        """What no launch can be faster than: the products at the peak rate, of the keys that are seen."""
        first, end = seen(problem)
        flops = FLOPS_PER_SCORE * problem.heads_total * problem.head_dim * int((end - first).sum())
        peak = self.hardware.cores * self.hardware.clock_mhz * MOST_FLOPS_PER_CYCLE
        return flops / peak if peak else 0.0


@dataclass(frozen=True)
class CpuKernel:
    """The kernel for one problem and plan. least_us: no launch is faster. cold, sentinel: how it is timed."""

    library: Library
    problem: AttentionProblem
    plan: TilingPlan
    least_us: float = 0.0
    cold: bool = False
    sentinel: measure.Sentinel | None = None

    def run(self, inputs: Arrays) -> Arrays:
        """As ``Compiled.run``; computed in fp32, the output rounded to float16 at the end. Raises RunFailed."""
        found = self.exactly(inputs)
        if self.problem.dtype == "bfloat16":
            return found
        return {**found, "o": found["o"].astype(np.float16)}

    def exactly(self, inputs: Arrays) -> Arrays:
        """As ``run``, of inputs of any float type; the output stays fp32. Raises RunFailed."""
        check_inputs(self.problem, inputs)
        launch = Launch(self.library, self.problem, self.plan, inputs)
        launch()
        return {"o": launch.o, "lse": launch.lse}

    def launch(self) -> Launch:
        """A launch on normal numbers, always the same, an empty mask, and dropout that keeps all."""
        random = np.random.default_rng(0)
        inputs = {
            name: np.full(shape, CONSTANT[name], np.float32)
            if name in CONSTANT
            else random.standard_normal(shape, np.float32)
            for name, shape in input_shapes(self.problem).items()
        }
        return Launch(self.library, self.problem, self.plan, inputs)

    def stopwatch(self) -> Stopwatch:
        """Times launches as the protocol says."""
        return Stopwatch(self.launch(), self.cold)

    def time(self, budget: TimingBudget) -> Timing:
        """The median of ``budget.repeats`` launches after warming up; all again where the machine changed meanwhile.

        Raises RunFailed, ImplausibleTime.
        """
        watch = self.stopwatch()
        measure.warm_up(watch, most=measure.affordable(WARM_UP_RUNS, 2e6 * watch.seconds(), budget.seconds))
        repeats = measure.affordable(budget.repeats, 2e6 * watch.seconds(), budget.seconds)

        def block() -> None:
            watch.found.clear()
            for _ in range(repeats):
                watch()

        about = machine.state()
        if self.sentinel is None:
            block()
        else:
            _, drift = self.sentinel.watch(block)
            about["drift"] = round(drift, 3)
        return watch.timing(self.least_us, about)


class Stopwatch:
    """Launches and keeps both times of each. cold: whether caches are emptied before, which is not timed."""

    def __init__(self, launch: Launch, cold: bool = False) -> None:
        self.found: list[Duration] = []
        self._launch, self._cold = launch, cold

    def __call__(self) -> float:
        """Launches once: microseconds of the deciding clock."""
        if self._cold:
            self._launch.cool()
        self.found.append(self._launch())
        return self.found[-1].cpu_us

    def seconds(self) -> float:
        """Of the wall clock: the quickest launch so far, or one made for it."""
        if not self.found:
            self()
        return min(run.wall_us for run in self.found) / 1e6

    def timing(self, least_us: float, about: Mapping[str, Any]) -> Timing:
        """The median launch, and the machine's state beside it. Raises ImplausibleTime."""
        cpu_us, wall_us = (tuple(column) for column in zip(*self.found))
        measure.check_plausible(cpu_us, least_us)
        middle, quartiles = statistics.median(cpu_us), measure.spread(cpu_us)
        clock = COLD if self._cold else WARM
        return Timing(middle, MEASURED, clock, samples=cpu_us, spread_us=quartiles, wall_us=wall_us, machine=about)
