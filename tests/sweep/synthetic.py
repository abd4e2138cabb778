"""A target whose time is a formula and whose kernel is the float64 reference, and a store in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from autotune.errors import CompileFailed, PlanRejected, RunFailed
from autotune.executor import InProcess
from autotune.hardware import Hardware
from autotune.kernels.flash_attention import reference
from autotune.kernels.targets.base import Arrays, TimingBudget
from autotune.outcome import EMULATED, BestPlan, Timing, Trial
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.report import Event
from autotune.sweep import Sweep
from autotune.tuning import Effort

CHIP = Hardware("Chip", 4, 1000, 262144, 1048576, 65536, 65536, 262144)
SMALL_UB = 2 * 128 * 512
"""Bytes of scores in fp16 above which the synthetic kernel does not fit."""


def synthetic_us(problem: AttentionProblem, plan: TilingPlan) -> float:
    """Start-up of each block, work of each element, idle cores: large blocks are better until cores run out."""
    tiling = plan.tiling(problem)
    rounds = -(-problem.heads_total * tiling.Tr // CHIP.cores)
    per_block = 5.0 + plan.Br * plan.Bc / 4096 * (0.9 if plan.double_buffer else 1.0)
    return rounds * tiling.Tc * per_block


@dataclass
class SyntheticKernel:
    """Computes in float64 and rounds to what a kernel hands back; ``spoil`` may then make it wrong."""

    target: "SyntheticTarget"
    problem: AttentionProblem
    plan: TilingPlan

    def run(self, inputs: Arrays) -> Arrays:
        self.target.ran.append((self.problem, self.plan, inputs))
        o, lse = reference.forward(inputs["q"], inputs["k"], inputs["v"], self.problem, inputs.get("attn_mask"))
        outputs: dict[str, np.ndarray] = {"o": o.astype(np.float16), "lse": lse.astype(np.float32)}
        self.target.spoil(self.plan, outputs)
        return outputs

    def time(self, budget: TimingBudget) -> Timing:
        self.target.timed.append((self.problem, self.plan))
        if self.plan.key == self.target.fails_at.get("time"):
            raise RunFailed("the device was lost")
        return Timing(synthetic_us(self.problem, self.plan), EMULATED, "formula-1")


@dataclass
class SyntheticTarget:
    """Remembers what it was asked to do. fails_at: stage to the key of the plan that fails there."""

    name: str = "emulated:Chip"
    hardware: Hardware = CHIP
    fingerprint: str = "f1"
    ran: list[tuple[AttentionProblem, TilingPlan, Arrays]] = field(default_factory=list)
    timed: list[tuple[AttentionProblem, TilingPlan]] = field(default_factory=list)
    fails_at: dict[str, str] = field(default_factory=dict)
    spoil: Callable[[TilingPlan, dict[str, np.ndarray]], None] = lambda plan, outputs: None

    def compile(self, problem: AttentionProblem, plan: TilingPlan) -> SyntheticKernel:
        if len(plan.core_split.work) != plan.core_split.block_num:
            raise AssertionError("a plan is compiled with its core split worked out")
        if 2 * plan.Br * plan.Bc > SMALL_UB:
            raise PlanRejected(f"UB needs {2 * plan.Br * plan.Bc} bytes, has {SMALL_UB}")
        if plan.key == self.fails_at.get("compile"):
            raise CompileFailed("the assembler gave up")
        return SyntheticKernel(self, problem, plan)


@dataclass
class MemoryStore:
    """What the database does for a sweep, in lists."""

    recorded: list[Trial] = field(default_factory=list)
    published: list[BestPlan] = field(default_factory=list)

    def record(self, trial: Trial) -> bool:
        self.recorded.append(trial)
        return True

    def trials(
        self, problem: AttentionProblem, device: str, target: str, fingerprint: str | None = None
    ) -> list[Trial]:
        asked = (problem, device, target, fingerprint)
        return [t for t in self.recorded if (t.problem, t.device, t.target, t.fingerprint) == asked]

    def best(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        asked = (problem, device, target)
        return next((old for old in reversed(self.published) if (old.problem, old.device, old.target) == asked), None)

    def publish(self, best: BestPlan, over: int | None = None) -> bool:
        served = self.best(best.problem, best.device, best.target)
        if served and served.revision != over:
            stale = served.fingerprint != best.fingerprint
            if not (stale or best.timing.time_us < served.timing.time_us):
                return False
        self.published.append(replace(best, revision=len(self.published) + 1))
        return True


@dataclass
class Bench:
    """A sweep's surroundings; ``sweep`` makes one over them."""

    target: SyntheticTarget = field(default_factory=SyntheticTarget)
    store: MemoryStore = field(default_factory=MemoryStore)
    events: list[Event] = field(default_factory=list)
    seconds: float = 0.0
    seconds_per_trial: float = 1.0

    def verify(self, target: object, problem: AttentionProblem, plan: TilingPlan) -> float:
        self.seconds += self.seconds_per_trial
        return 5e-4

    def sweep(self, trials: int | None = 12, seconds: float | None = None, seed: int = 0, **changes: object) -> Sweep:
        sure = changes.pop("confidence", lambda problem, plans: None)
        parts: dict[str, object] = {
            "executor": InProcess(self.target, self.verify, sure=sure),  # type: ignore[arg-type]
            "strategies": (),
            "notify": self.events.append,
            "clock": lambda: self.seconds,
        }
        parts.update(changes)
        return Sweep("sweep-1", self.target, self.store, effort=Effort(trials, seconds, seed), **parts)  # type: ignore[arg-type]
