"""What a plan means to the CPU's kernel, and what is refused."""

from __future__ import annotations

from dataclasses import fields

from autotune.errors import PlanError, PlanRejected
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

FOLLOWED = ("Br", "Bc", "core_split", "strategy")
"""What this kernel knows of a plan; other knobs are those of an NPU's memories and units."""
MOST_SIDE = 4096
"""Largest Br and Bc: the scores of a block are then 64 MiB for each thread, far beyond any cache."""


def check(problem: AttentionProblem, plan: TilingPlan) -> None:
    """Returns where the kernel can follow the plan, whatever its core split. Raises PlanRejected."""
    if problem.op != "flash_attention":
        raise PlanRejected(f"the CPU kernel does not compute op {problem.op}")
    for knob in fields(plan):
        if knob.name not in FOLLOWED and getattr(plan, knob.name) != knob.default:
            raise PlanRejected(f"a CPU has no {knob.name}; it must be {str(knob.default).lower()}")
    for name, side in (("Br", plan.Br), ("Bc", plan.Bc)):
        if side > MOST_SIDE:
            raise PlanRejected(f"{name} is {side}, at most {MOST_SIDE} on a CPU")
    try:
        plan.check_lengths(problem)
    except PlanError as error:
        raise PlanRejected(str(error)) from error
