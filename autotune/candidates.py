"""The plans a sweep may try for a problem, and how they look to the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.errors import PlanRejected
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.search.space import Point
from autotune.strategies.core_split import RULES, block_num
from autotune.strategies.registry import PROPOSAL, SPACE, TilingStrategy, names, propose

DEFAULT_STRATEGY = "sparse"
"""Tried before all others, so that the gain over it is known."""

Check = Callable[[AttentionProblem, TilingPlan], None]
"""Raises PlanRejected for a plan that the kernel cannot execute; ``work`` of its core split is not looked at."""


@dataclass(frozen=True)
class Candidates:
    """Plans by key. first: keys of those that strategies propose, ``default`` before all; the others are the space."""

    plans: dict[str, TilingPlan]
    first: tuple[str, ...]
    default: str
    warnings: tuple[str, ...]


def candidates(problem: AttentionProblem, hardware: Hardware, strategies: Sequence[str], check: Check) -> Candidates:
    """The plans of the named strategies, of all proposals and spaces where none is named; the default's always.

    A plan of a space is left out where ``check`` rejects it. A proposed one stays: its rejection is worth recording.
    Raises UnknownName.
    """
    chosen = tuple(strategies) or names(PROPOSAL, SPACE)
    spaces = [name for name in chosen if TilingStrategy.from_strategy_name(name).role == SPACE]
    proposals = [DEFAULT_STRATEGY, *(name for name in chosen if name not in spaces)]
    first, warnings = _plans(problem, hardware, proposals)
    space, more_warnings = _plans(problem, hardware, spaces)
    passing = {key: plan for key, plan in space.items() if _passes(check, problem, plan)}
    plans = passing | first
    return Candidates(plans, tuple(first), next(iter(first)), tuple(dict.fromkeys(warnings + more_warnings)))


def _plans(
    problem: AttentionProblem, hardware: Hardware, strategies: Sequence[str]
) -> tuple[dict[str, TilingPlan], list[str]]:
    """Plans of the strategies by key, their cores counted as ``complete`` will, and warnings."""
    if not strategies:
        return {}, []
    proposed = propose(problem, hardware, strategies)
    warnings = list(proposed.warnings)
    plans: dict[str, TilingPlan] = {}
    for plan in proposed.plans:
        rule = plan.core_split.rule
        if rule not in RULES:
            warnings.append(f"strategy {plan.strategy!r} asks for the core split {rule!r}; known: {', '.join(RULES)}")
            continue
        counted = replace(plan, core_split=CoreSplit(rule, block_num(problem, plan.Br, plan.Bc, hardware)))
        plans.setdefault(counted.key, counted)
    return plans, warnings


def _passes(check: Check, problem: AttentionProblem, plan: TilingPlan) -> bool:
    try:
        check(problem, plan)
    except PlanRejected:
        return False
    return True


def coordinates(plan: TilingPlan) -> Point:
    """The plan as a point: Br and Bc, its knobs, and the rule of its split; the cores follow from these.

    Slices are counted in rows also where a block is one slice.
    """
    knobs = {name: value for name, value in plan.to_json().items() if name not in ("core_split", "strategy")}
    return {**knobs, "slice_rows": plan.slice_rows or plan.Br, "core_split": plan.core_split.rule}


def takes_more_room(failed: Point, other: Point) -> bool:
    """Whether ``other`` has every size at least that of a plan that did not fit, and all else alike."""
    return all(
        other[axis] == at if isinstance(at, str) else other[axis] >= at  # type: ignore[operator]
        for axis, at in failed.items()
    )
