"""The registry: names, roles, what a sweep is proposed, and the rules for every strategy."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from autotune.errors import InvalidInput, UnknownName
from autotune.hardware import Hardware
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.registry import (
    ON_REQUEST,
    PROPOSAL,
    SPACE,
    TilingPara,
    TilingStrategy,
    listing,
    load,
    names,
    propose,
)

CHIP = Hardware("Ascend910A", 32, 1000, 262144, 1048576, 65536, 65536, 262144)
PROBLEM = AttentionProblem.of((1, 2, 256, 256, 64))


@pytest.fixture(autouse=True)
def a_registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    monkeypatch.setattr(TilingStrategy, "_strategies", dict(TilingStrategy._strategies))


def define(name: str, blocks: Iterable[object] = ()) -> type[TilingStrategy]:
    """A foreign strategy whose plans are ``blocks``; an exception among them is raised."""

    class Foreign(TilingStrategy):
        """A foreign strategy.

        With a second paragraph.
        """

        __qualname__ = f"Foreign_{name}"

        @classmethod
        def strategy_name(cls) -> str:
            return name

        def tiling(self) -> TilingPara:
            return TilingPara(64, 64, 64, 64, self.Nq // 64, self.N // 64)

        @classmethod
        def plans(cls, problem: AttentionProblem, hardware: Hardware) -> Iterator[TilingPlan]:
            for item in blocks:
                if isinstance(item, Exception):
                    raise item
                yield item  # type: ignore[misc]

    return Foreign


def test_the_built_in_strategies_sparse_first() -> None:
    assert names() == ("sparse", "capacity", "lattice", "occupancy", "tuned", "wukong", "xunfei")
    assert names(PROPOSAL) == ("sparse", "capacity", "occupancy", "wukong", "xunfei")
    assert names(SPACE) == ("lattice",) and names(ON_REQUEST) == ("tuned",)
    assert all(info.origin == "built-in" and info.summary.endswith(".") for info in listing())


def test_subclassing_registers() -> None:
    strategy = define("mine")
    assert TilingStrategy.from_strategy_name("mine") is strategy
    assert ("mine", __name__, PROPOSAL, "A foreign strategy.") in listing()
    assert tuple(strategy(256, 128, 64).tiling()) == (64, 64, 64, 64, 4, 2)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownName, match="'best'; known: sparse, capacity, lattice, occupancy, tuned, wukong, xunfei"
    ) as raised:
        TilingStrategy.from_strategy_name("best")
    assert raised.value.field == "strategy"


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"'sparse' of .* is taken by autotune\.strategies\.sparse"):
        define("sparse")


def test_an_intermediate_class_without_a_name_is_not_registered() -> None:
    before = names()

    class Base(TilingStrategy):
        """No name yet."""

    assert names() == before and issubclass(Base, TilingStrategy)


def test_a_strategy_with_only_a_public_tiling_has_plans() -> None:
    class Ported(TilingStrategy):
        @classmethod
        def strategy_name(cls) -> str:
            return "ported"

        def tiling(self) -> TilingPara:
            return TilingPara(100, 100, 512, 512, 2, 1)

    (plan,) = Ported.plans(PROBLEM, CHIP)
    assert (plan.Br, plan.Bc, plan.core_split.block_num, plan.strategy) == (112, 256, 6, "ported")


def test_proposals_come_before_the_space_and_no_plan_twice() -> None:
    found = propose(PROBLEM, CHIP)
    assert [(p.Br, p.Bc, p.strategy) for p in found.plans[:2]] == [(128, 128, "sparse"), (256, 128, "capacity")]
    assert list(dict.fromkeys(p.strategy for p in found.plans)) == ["sparse", "capacity", "wukong", "lattice"]
    assert found.warnings == ()
    assert len({p.key for p in found.plans}) == len(found.plans)


def test_named_strategies_in_the_order_named() -> None:
    assert [p.strategy for p in propose(PROBLEM, CHIP, ["wukong", "sparse"]).plans] == ["wukong", "sparse"]
    with pytest.raises(UnknownName):
        propose(PROBLEM, CHIP, ["wukong", "none"])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (ZeroDivisionError("division by zero"), "stopped after 1 plan(s): ZeroDivisionError: division by zero"),
        ("128x128", "stopped after 1 plan(s): PlanError: it yielded '128x128', which is no TilingPlan"),
        (TilingPlan(512, 64), "stopped after 1 plan(s): PlanError: Br is 512, taller than the padded length 256"),
    ],
)
def test_a_third_party_that_fails_is_a_warning(fault: object, said: str) -> None:
    define("broken", [TilingPlan(64, 64), fault, TilingPlan(32, 32)])
    found = propose(PROBLEM, CHIP, ["broken", "sparse"])
    assert [(p.Br, p.Bc) for p in found.plans] == [(64, 64), (128, 128)]
    assert found.warnings == (f"strategy 'broken' {said}",)


def test_a_third_party_that_fails_before_its_first_plan_is_a_warning() -> None:
    class Eager(define("lazy")):  # type: ignore[misc]
        @classmethod
        def strategy_name(cls) -> str:
            return "eager"

        @classmethod
        def plans(cls, problem: AttentionProblem, hardware: Hardware) -> list[TilingPlan]:
            raise KeyError(hardware.name)

    assert propose(PROBLEM, CHIP, ["eager"]) == (
        (),
        ("strategy 'eager' stopped after 0 plan(s): KeyError: 'Ascend910A'",),
    )


def test_a_third_party_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.strategies.third_parties.MAX_PLANS", 3)
    define("endless", (TilingPlan(16, 16) for _ in iter(int, 1)))
    found = propose(PROBLEM, CHIP, ["endless"])
    assert len(found.plans) == 1
    assert found.warnings == ("strategy 'endless' stopped after 3 plan(s): InvalidInput: it yields more than 3 plans",)


def stubborn() -> Iterator[TilingPlan]:
    """One plan, then a loop without end that lets nothing stop it."""
    yield TilingPlan(16, 16)
    times = 0
    while times < 2:
        try:
            while True:
                pass
        except TimeoutError:
            times += 1
            if times == 2:
                raise


def test_a_third_party_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.strategies.third_parties.MAX_SECONDS", 0.05)
    define("hung", stubborn())
    before = signal.getsignal(signal.SIGALRM)
    found = propose(PROBLEM, CHIP, ["hung", "sparse"])
    assert [(p.Br, p.Bc) for p in found.plans] == [(16, 16), (128, 128)]
    assert found.warnings == ("strategy 'hung' stopped after 1 plan(s): TimeoutError: it takes more than 0.05 s",)
    assert signal.getsignal(signal.SIGALRM) == before


def test_a_third_party_in_another_thread_is_asked_without_a_limit() -> None:
    define("threaded", [TilingPlan(16, 16)])
    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(propose, PROBLEM, CHIP, ["threaded"]).result().plans) == 1


def test_a_bug_in_a_strategy_of_ours_flies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TilingStrategy.from_strategy_name("sparse"), "tiling", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        propose(PROBLEM, CHIP, ["sparse"])
