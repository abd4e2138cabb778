"""The strategies by name: the base class, self-registration, and what a sweep asks them.

A strategy is one class in one file of this folder, or one of an installed package (see ``third_parties``).
Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from functools import lru_cache, partial
from typing import ClassVar, Dict, Iterable, NamedTuple, Tuple, Type

import autotune.strategies
from autotune.errors import InvalidInput, UnknownName
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, Tiling, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies import third_parties
from autotune.strategies.core_split import block_num, public_rule

TilingPara = Tiling
"""The tuple that the public kernels read: Br last_Br Bc last_Bc Tr Tc (rows and block counts)."""

PROPOSAL, SPACE, ON_REQUEST = "proposal", "space", "on request"
"""Roles: a few plans worth trying first; the whole search space; only when somebody asks for it by name."""


class TilingStrategy(ABC):
    """A named rule that cuts attention into blocks; a subclass registers itself under its ``strategy_name()``.

    The constructor and ``tiling`` are the interface of the public kernels, so that a strategy written for them works
    here by changing its import. ``plans`` is what a sweep asks; it needs no instance.
    """

    role: ClassVar[str] = PROPOSAL
    _strategies: ClassVar[Dict[str, Type[TilingStrategy]]] = {}

    def __init__(self, Nq: int, N: int, head_dim: int) -> None:
        """Query rows, key rows and head dimension; kept as ``Nq``, ``N`` and ``d``, the public kernels' names."""
        self.Nq, self.N, self.d = Nq, N, head_dim

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if getattr(cls.strategy_name, "__isabstractmethod__", False):
            return
        name = cls.strategy_name()
        taken = TilingStrategy._strategies.get(name)
        if taken and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InvalidInput(
                f"strategy name {name!r} of {cls.__module__} is taken by {taken.__module__}; choose another",
                field="strategy",
            )
        TilingStrategy._strategies[name] = cls

    @classmethod
    @abstractmethod
    def strategy_name(cls) -> str:
        """The name that users type."""

    @abstractmethod
    def tiling(self) -> TilingPara:
        """The one tiling of this strategy for (Nq, N, head_dim), as the public kernels read it."""

    @classmethod
    def plans(cls, problem: AttentionProblem, hardware: Hardware) -> Iterable[TilingPlan]:
        """Candidate plans; pure: same problem and hardware, same plans, same order. No file, clock or network.

        Unless overridden: the blocks of ``tiling``, rounded up to whole tiles and at most the padded lengths, and the
        split by key blocks that the public kernels use. Tails follow from the problem, whatever ``tiling`` says.
        """
        blocks = cls(problem.Nq, problem.N, problem.head_dim).tiling()
        Br, Bc = min(pad(blocks.Br), pad(problem.Nq)), min(pad(blocks.Bc), pad(problem.N))
        rule = public_rule(problem, Br, Bc, hardware)
        split = CoreSplit(rule, block_num(problem, Br, Bc, hardware))
        yield TilingPlan(Br, Bc, split, strategy=cls.strategy_name())

    @classmethod
    def from_strategy_name(cls, name: str) -> Type[TilingStrategy]:
        """The strategy registered under ``name``. Raises UnknownName, which lists the known ones."""
        load()
        if name not in cls._strategies:
            raise UnknownName(f"no strategy {name!r}; known: {', '.join(names())}", field="strategy")
        return cls._strategies[name]


class StrategyInfo(NamedTuple):
    """One line of ``autotune strategies``. origin: ``built-in`` or the distribution that brought it."""

    name: str
    origin: str
    role: str
    summary: str


class Proposals(NamedTuple):
    """Plans in the order to try them, none twice, and what went wrong in other people's strategies."""

    plans: Tuple[TilingPlan, ...]
    warnings: Tuple[str, ...]


@lru_cache(maxsize=None)
def load() -> Tuple[str, ...]:
    """Imports every module of this folder and every third-party strategy, once.

    Returns one sentence for each third party that could not be imported.
    """
    for module in pkgutil.iter_modules(autotune.strategies.__path__):
        importlib.import_module(f"{autotune.strategies.__name__}.{module.name}")
    return third_parties.load()


def names(*roles: str) -> Tuple[str, ...]:
    """Names of all strategies, or of those with one of ``roles``; the default ``sparse`` first, then by alphabet."""
    load()
    known = TilingStrategy._strategies
    chosen = (name for name in known if not roles or known[name].role in roles)
    return tuple(sorted(chosen, key=lambda name: (name != "sparse", name)))


def listing() -> Tuple[StrategyInfo, ...]:
    """Every strategy with its origin, role and the first line of its docstring."""
    return tuple(_info(name, TilingStrategy.from_strategy_name(name)) for name in names())


def propose(problem: AttentionProblem, hardware: Hardware, strategies: Iterable[str] = ()) -> Proposals:
    """The plans of the named strategies in that order; of none named, all proposals and then the search space.

    A third party that raises, or yields what is no legal plan, costs its remaining plans and becomes a warning;
    an error in a strategy of ours is a bug and flies. Raises UnknownName.
    """
    chosen = tuple(strategies) or names(PROPOSAL) + names(SPACE)
    plans: Dict[str, TilingPlan] = {}
    warnings = list(load())
    for name in chosen:
        strategy = TilingStrategy.from_strategy_name(name)
        ask = partial(strategy.plans, problem, hardware)
        found, complaints = third_parties.guarded(name, ask, problem) if _is_foreign(strategy) else (ask(), [])
        warnings.extend(complaints)
        for plan in found:
            plans.setdefault(plan.key, plan)
    return Proposals(tuple(plans.values()), tuple(warnings))


def _is_foreign(strategy: Type[TilingStrategy]) -> bool:
    return third_parties.origin(strategy) != third_parties.BUILT_IN


def _info(name: str, strategy: Type[TilingStrategy]) -> StrategyInfo:
    summary = (strategy.__doc__ or "").strip().partition("\n")[0]
    return StrategyInfo(name, third_parties.origin(strategy), strategy.role, summary)
