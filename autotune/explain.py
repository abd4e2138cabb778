"""What the timing model says of one plan: where its time goes, and how long plans of other blocks would take."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from autotune.errors import CandidateError, PlanError, PlanRejected, TargetUnavailable
from autotune.kernels.davinci.errors import Where
from autotune.kernels.davinci.explain import Explanation, Stall
from autotune.kernels.davinci.explain import explain as explain_program
from autotune.kernels.davinci.sensitivity import Sensitivity, sensitivity
from autotune.kernels.davinci.timing import estimate
from autotune.kernels.targets.base import Recorded, Target, TimingBudget
from autotune.plan import TILE, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete
from autotune.strategies.registry import TilingStrategy

DEFAULT_STRATEGY = "sparse"
"""Whose plan is explained where none is given or stored."""
MOST_STEPS = 16
"""Block heights of either side in a map: some 250 plans, each timed in milliseconds."""

MOST_PLANS = 5
"""Plans that are compared under other numbers of the model."""

Check = Callable[[AttentionProblem, TilingPlan], object]
"""Raises PlanRejected for a plan that the kernel cannot execute."""


@dataclass(frozen=True)
class Explained:
    """One plan of one problem on one target, and where its time goes."""

    problem: AttentionProblem
    plan: TilingPlan
    target: str
    found: Explanation

    def to_json(self) -> dict[str, Any]:
        """Stable names; cycles and bytes of the slowest core unless they say otherwise, shares from 0 to 1."""
        found, estimate, (limit, bound) = self.found, self.found.estimate, self.found.bound
        return {
            "problem": self.problem.to_json(),
            "plan": self.plan.tiling(self.problem)._asdict() | self.plan.to_json(),
            "device": self.target,
            "time_us": estimate.time_us,
            "kind": "emulated",
            "clock": estimate.model,
            "cycles": found.cycles,
            "slowest_core": found.core,
            "balance": found.balance,
            "pipes": {
                pipe: {**asdict(share), "busy_share": share.busy / max(found.cycles, 1)}
                for pipe, share in found.shares.items()
            },
            "roofline": {
                "pipe": limit, "cycles": bound, "reached": bound / max(found.cycles, 1), "full_rate": found.full_rate,
            },
            "stalls": [self._stall(stall) for stall in found.stalls],
            "bytes_moved": found.moved,
            "bytes_moved_by_all_cores": found.moved_by_all,
            "flags_in_flight": found.flags,
        }  # fmt: skip

    def _stall(self, stall: Stall) -> dict[str, Any]:
        value = {name: item for name, item in asdict(stall).items() if name != "where"}
        return {
            **value,
            "share": stall.cycles / self.found.cycles,
            "line": line(stall.where),
            "source": source(stall.where),
        }


@dataclass(frozen=True)
class Stability:
    """Plans of one problem, fastest first, and how often the first stays the fastest when uncertain numbers vary."""

    plans: tuple[TilingPlan, ...]
    found: Sensitivity

    def to_json(self) -> dict[str, Any]:
        """``share`` from 0 to 1; ``worst_loss`` as a part of the fastest's cycles; numbers by their names."""
        return {
            "plans": [plan.to_json() for plan in self.plans],
            "share": self.found.share,
            "draws": self.found.draws,
            "worst_loss": self.found.worst_loss,
            "deciding": [{"number": name, "value": value} for name, value in self.found.deciding],
        }


@dataclass(frozen=True)
class Cell:
    """A block of a map. time_us: None where the kernel cannot execute it, and then ``reason`` says why."""

    Br: int
    Bc: int
    time_us: float | None
    reason: str = ""


def explain(target: Target, problem: AttentionProblem, plan: TilingPlan) -> Explained:
    """Records the plan's kernel on an emulated target and explains its time. Raises as ``record`` does."""
    whole = complete(plan, problem, target.hardware)
    kernel = record(target, problem, whole)
    return Explained(problem, whole, target.name, explain_program(kernel.program, profile=kernel.profile))


def record(target: Target, problem: AttentionProblem, plan: TilingPlan) -> Recorded:
    """The recorded kernel. Raises PlanError where it cannot execute the plan, TargetUnavailable on a real device."""
    try:
        kernel = target.compile(problem, complete(plan, problem, target.hardware))
    except PlanRejected as error:
        raise PlanError(f"this plan cannot be executed: {error}", field="plan") from error
    if not isinstance(kernel, Recorded):
        raise TargetUnavailable(f"{target.name} measures; only an emulated device can say where the time goes")
    return kernel


def stability(target: Target, problem: AttentionProblem, plans: Iterable[TilingPlan]) -> Stability:
    """Times the first plans again with every number of the timing model drawn from its range; raises as ``record``.

    The numbers are varied around those of the model, whatever profile the target has.
    """
    several = {complete(plan, problem, target.hardware).key: plan for plan in plans}
    programs = [(plan, record(target, problem, plan).program) for plan in islice(several.values(), MOST_PLANS)]
    fastest_first = sorted(programs, key=lambda pair: estimate(pair[1]).cycles)
    found = sensitivity([program for _, program in fastest_first])
    return Stability(tuple(plan for plan, _ in fastest_first), found)


def default_plan(problem: AttentionProblem, target: Target) -> TilingPlan:
    """The plan of the default strategy."""
    strategy = TilingStrategy.from_strategy_name(DEFAULT_STRATEGY)
    return next(iter(strategy.plans(problem, target.hardware)))


def blocks(problem: AttentionProblem, plan: TilingPlan, check: Check) -> tuple[list[int], list[int]]:
    """Br and Bc of a map: multiples of a step, one beyond the largest that the kernel can execute."""
    narrow = replace(plan, Bc=TILE), replace(plan, Br=TILE)
    return (
        _steps(pad(problem.Nq), lambda size: _passes(check, problem, replace(narrow[0], Br=size))),
        _steps(pad(problem.N), lambda size: _passes(check, problem, replace(narrow[1], Bc=size))),
    )


def time_map(target: Target, problem: AttentionProblem, plan: TilingPlan, check: Check) -> Iterator[Cell]:
    """The time of every (Br, Bc) of ``blocks``, the plan's other knobs as they are, row by row."""
    rows, columns = blocks(problem, plan, check)
    for Br in rows:
        for Bc in columns:
            wanted = replace(plan, Br=Br, Bc=Bc)
            try:
                check(problem, wanted)
                kernel = target.compile(problem, complete(wanted, problem, target.hardware))
            except CandidateError as error:
                yield Cell(Br, Bc, None, str(error))
            else:
                yield Cell(Br, Bc, kernel.time(TimingBudget()).time_us)


def fastest(cells: Iterable[Cell], plan: TilingPlan) -> list[TilingPlan]:
    """The plan with the blocks of a map, fastest first."""
    timed = [(cell.time_us, cell) for cell in cells if cell.time_us is not None]
    return [replace(plan, Br=cell.Br, Bc=cell.Bc) for _, cell in sorted(timed, key=lambda pair: pair[0])]


def line(where: Where) -> str:
    """``flash_attention/softmax.py:121``: the file with its folder, and the line."""
    return f"{'/'.join(Path(where[0]).parts[-2:])}:{where[1]}"


def source(where: Where) -> str:
    """The text of a kernel's line."""
    return linecache.getline(*where).strip()


def _steps(longest: int, passes: Callable[[int], bool]) -> list[int]:
    step = TILE
    legal = [size for size in range(TILE, longest + 1, TILE) if passes(size)]
    while len(legal) > MOST_STEPS:
        step, legal = step * 2, legal[1::2]
    return [*legal, *range(len(legal) * step + step, longest + 1, step)[:1]]


def _passes(check: Check, problem: AttentionProblem, plan: TilingPlan) -> bool:
    try:
        check(problem, plan)
    except PlanRejected:
        return False
    return True
