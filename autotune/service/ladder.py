"""The ladder of answers: the pinned plan, the exact one, the nearest one, the default's; never an illegal plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heapify, heappop
from math import dist
from typing import Any, Protocol

from autotune.errors import PlanRejected
from autotune.outcome import MEASURED, BestPlan
from autotune.plan import CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.service.device import Device
from autotune.strategies.core_split import RULES, block_num
from autotune.strategies.registry import TilingStrategy

RUNGS = PINNED, EXACT, NEAREST, DEFAULT = ("pinned", "exact", "nearest", "default")
"""In the order they are tried."""

OWN = (PINNED, EXACT)
"""The rungs whose plan was found for the very problem that is asked about."""

DEFAULT_STRATEGY = "sparse"

MAX_DISTANCE = 3.0
"""How far a neighbour may be, in doublings: 4 times in both lengths (2.83) is near, 8 times is the limit in one."""


class Bests(Protocol):
    """The part of the store that the ladder reads; ``autotune.db.store.Store`` has it."""

    def best(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """The best plan of exactly this problem."""
        ...

    def pinned(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """The plan that somebody pinned for exactly this problem."""
        ...

    def similar(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[BestPlan]:
        """The best plans of problems that differ in their shape alone."""
        ...


@dataclass(frozen=True)
class Answer:
    """A plan that is legal for ``problem`` on ``device`` (a hardware name), and the result it rests on.

    source: the stored result, of the very problem when ``match`` is pinned or exact; None for the default plan.
    distance: doublings between the two problems (``distance``); None for the default plan.
    """

    problem: AttentionProblem
    device: str
    plan: TilingPlan
    match: str
    source: BestPlan | None = None
    distance: float | None = None
    stale: bool = False

    def to_json(self) -> dict[str, Any]:
        """The body of ``/best``; times in microseconds, None where nobody timed it."""
        source, own = self.source, self.source if self.match in OWN else None
        return {
            "problem": self.problem.to_json(),
            "device": self.device,
            "plan": self.plan.tiling(self.problem)._asdict() | self.plan.to_json(),
            "time_us": own and own.timing.time_us,
            "kind": source and source.timing.kind,
            "clock": source and source.timing.clock,
            "stays_best": own and own.timing.stays_best,
            "default_time_us": own and own.default_time_us,
            "speedup_over_default": own and own.speedup_over_default,
            "match": self.match,
            "distance": self.distance,
            "matched_shape": source and list(source.problem.shape),
            "matched_time_us": source and source.timing.time_us,
            "stale": self.stale,
            "provenance": source and {name: getattr(source, name) for name in _PROVENANCE},
            "revision": source and source.revision,
        }


_PROVENANCE = ("target", "fingerprint", "trials", "sweep", "measured_at")


def answer(
    problem: AttentionProblem,
    device: Device,
    store: Bests,
    allow: Collection[str] = RUNGS,
    target: str | None = None,
) -> Answer | None:
    """The answer of the first allowed rung that has a legal plan, in the order of RUNGS; None when none has.

    target: narrows the stored results to its kind. Raises StoreError.
    """
    for name, rung in _LADDER.items():
        found = rung(problem, device, store, target) if name in allow else None
        if found is not None:
            return found
    return None


def distance(one: AttentionProblem, other: AttentionProblem) -> float:
    """Doublings between two problems: Euclidean over log2 of batch * heads, of Nq and of N."""
    return dist(one.doublings, other.doublings)


def _pinned(problem: AttentionProblem, device: Device, store: Bests, target: str | None) -> Answer | None:
    return _own(PINNED, store.pinned(problem, device.hardware.name, target), problem, device)


def _exact(problem: AttentionProblem, device: Device, store: Bests, target: str | None) -> Answer | None:
    return _own(EXACT, store.best(problem, device.hardware.name, target), problem, device)


def _own(match: str, best: BestPlan | None, problem: AttentionProblem, device: Device) -> Answer | None:
    if best is None or not _legal(problem, best.plan, device):
        return None
    return Answer(problem, device.hardware.name, best.plan, match, best, 0.0, device.is_stale(best))


def _nearest(problem: AttentionProblem, device: Device, store: Bests, target: str | None) -> Answer | None:
    for best in _neighbours(problem, store.similar(problem, device.hardware.name, target)):
        plan = _transferred(problem, best.plan, device)
        if plan is not None:
            far = distance(problem, best.problem)
            return Answer(problem, device.hardware.name, plan, NEAREST, best, far, device.is_stale(best))
    return None


def _default(problem: AttentionProblem, device: Device, store: Bests, target: str | None) -> Answer | None:
    for plan in TilingStrategy.from_strategy_name(DEFAULT_STRATEGY).plans(problem, device.hardware):
        if _legal(problem, plan, device):
            return Answer(problem, device.hardware.name, plan, DEFAULT)
    return None


Rung = Callable[[AttentionProblem, Device, Bests, "str | None"], "Answer | None"]
_LADDER: dict[str, Rung] = dict(zip(RUNGS, (_pinned, _exact, _nearest, _default), strict=True))


def _neighbours(problem: AttentionProblem, bests: Iterable[BestPlan]) -> Iterator[BestPlan]:
    """Those within MAX_DISTANCE whose heads fill as many 16-wide tiles, nearest first, measured before emulated."""
    head_dim, spot = pad(problem.head_dim), problem.doublings
    # A heap, because nearly always the first is taken.
    near = [
        (far, best.timing.kind != MEASURED, best.problem.key, best.target, best)
        for best in bests
        if (far := dist(spot, best.problem.doublings)) <= MAX_DISTANCE and pad(best.problem.head_dim) == head_dim
    ]
    heapify(near)
    while near:
        yield heappop(near)[-1]


def _transferred(problem: AttentionProblem, plan: TilingPlan, device: Device) -> TilingPlan | None:
    """The plan cut to the problem's padded lengths, on as many cores as get work; None where it is not legal."""
    rule = plan.core_split.rule
    if rule not in RULES:  # of an extension that is not installed here
        return None
    Br, Bc = min(plan.Br, pad(problem.Nq)), min(plan.Bc, pad(problem.N))
    split = CoreSplit(rule, block_num(problem, Br, Bc, device.hardware))
    fitted = replace(plan, Br=Br, Bc=Bc, core_split=split)
    return fitted if _legal(problem, fitted, device) else None


def _legal(problem: AttentionProblem, plan: TilingPlan, device: Device) -> bool:
    try:
        device.check(problem, plan)
    except PlanRejected:
        return False
    return True
