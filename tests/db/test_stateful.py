"""The store against a model in plain Python, in any order of publications, pins, rollbacks, imports and misses."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from autotune.db.pins import Decision
from autotune.db.store import Store
from autotune.errors import InvalidInput, Overtaken
from autotune.outcome import BestPlan

NUMBERS = count()
AT = [f"2026-12-0{day}T00:00:00Z" for day in (1, 2, 3)]
DECISION = Decision("me", "because", AT[0])

shapes = st.sampled_from([(1, 1, 64, 64, 64), (1, 2, 64, 64, 64)])
times = st.sampled_from([50.0, 100.0, 150.0, 200.0])
offers = st.tuples(shapes, times, st.sampled_from(["f1", "f2"]), st.sampled_from(AT))


@dataclass
class Place:
    """What is known of one problem. winners: (revision, time, fingerprint, at). pinned: a revision."""

    winners: list[tuple[int, float, str, str]] = field(default_factory=list)
    pinned: int | None = None
    decisions: list[tuple[str, int]] = field(default_factory=list)

    @property
    def served(self) -> int:
        return self.winners[-1][0] if self.pinned is None else self.pinned

    def loses_to(self, time_us: float, fingerprint: str, at: str) -> bool:
        if not self.winners:
            return True
        _, old_us, old_fingerprint, old_at = self.winners[-1]
        return time_us < old_us if fingerprint == old_fingerprint else at >= old_at


class Model(RuleBasedStateMachine):
    """One device of its own in a store that all examples share."""

    store: Store
    best: BestPlan

    def __init__(self) -> None:
        super().__init__()
        self.device = f"chip-{next(NUMBERS)}"
        self.places: dict[tuple[int, ...], Place] = {}
        self.misses: dict[tuple[int, ...], int] = {}

    def offer(self, shape: tuple[int, ...], time_us: float, fingerprint: str, at: str) -> BestPlan:
        timing = replace(self.best.timing, time_us=time_us)
        problem = self.best.problem.with_shape(shape)  # type: ignore[arg-type]
        return replace(
            self.best, problem=problem, device=self.device, fingerprint=fingerprint, timing=timing, measured_at=at
        )

    def learn(self, shape: tuple[int, ...], *won: Any) -> None:
        place = self.places.setdefault(shape, Place())
        revision = self.store.history(self.offer(shape, *won).problem, self.device)[-1].revision
        assert all(revision > other for each in self.places.values() for other, *_ in each.winners)
        place.winners.append((revision, *won))

    def revisions(self) -> list[tuple[Place, int]]:
        return [(place, revision) for place in self.places.values() for revision, *_ in place.winners]

    @rule(offer=offers)
    def publish(self, offer: Any) -> None:
        shape, *rest = offer
        wins = self.places.get(shape, Place()).loses_to(*rest)
        assert self.store.publish(self.offer(*offer)) is wins
        if wins:
            self.learn(shape, *rest)

    @rule(several=st.lists(offers, max_size=3), dry=st.booleans())
    def publish_all(self, several: list[Any], dry: bool) -> None:
        expected = []
        tried = {shape: Place(list(place.winners)) for shape, place in self.places.items()}
        for shape, *rest in several:
            place = tried.setdefault(shape, Place())
            expected.append(place.loses_to(*rest))
            if expected[-1]:
                place.winners.append((0, *rest))
        assert self.store.publish_all([self.offer(*each) for each in several], dry) == expected
        if not dry:
            for shape in tried:
                known = self.places.setdefault(shape, Place())
                new = tried[shape].winners[len(known.winners) :]
                history = self.store.history(self.offer(shape, 1.0, "f1", AT[0]).problem, self.device)
                published = history[len(known.winners) :]
                known.winners += [(found.revision, *won[1:]) for found, won in zip(published, new, strict=True)]

    @rule(number=st.integers(0, 30))
    def pin(self, number: int) -> None:
        if known := self.revisions():
            place, revision = known[number % len(known)]
            self.store.pin(revision, DECISION)
            place.pinned = revision
            place.decisions.append(("pin", revision))

    @rule(number=st.integers(0, 30))
    def unpin(self, number: int) -> None:
        if known := self.revisions():
            place, revision = known[number % len(known)]
            assert self.store.unpin(revision, DECISION) is (place.pinned == revision)
            if place.pinned == revision:
                place.pinned = None
                place.decisions.append(("unpin", revision))

    @rule(number=st.integers(0, 30))
    def roll_back(self, number: int) -> None:
        if not (known := self.revisions()):
            return
        place, revision = known[number % len(known)]
        earlier = [other for other, *_ in place.winners if other < revision]
        if place.served != revision:
            with pytest.raises(Overtaken):
                self.store.roll_back(revision, DECISION)
        elif not earlier:
            with pytest.raises(InvalidInput):
                self.store.roll_back(revision, DECISION)
        else:
            assert self.store.roll_back(revision, DECISION) == earlier[-1]
            place.pinned = earlier[-1]
            place.decisions.append(("pin", earlier[-1]))

    @rule(shape=shapes)
    def miss(self, shape: tuple[int, ...]) -> None:
        self.store.want(self.offer(shape, 1.0, "f1", AT[0]).problem, self.device, AT[0])
        self.misses[shape] = self.misses.get(shape, 0) + 1

    @invariant()
    def what_is_stored_is_what_was_said(self) -> None:
        for shape, place in self.places.items():
            problem = self.offer(shape, 1.0, "f1", AT[0]).problem
            found = [
                (each.revision, each.timing.time_us, each.fingerprint, each.measured_at)
                for each in self.store.history(problem, self.device)
            ]
            assert found == place.winners
            best, pinned = self.store.best(problem, self.device), self.store.pinned(problem, self.device)
            assert (best and best.revision) == (place.winners[-1][0] if place.winners else None)
            assert (pinned and pinned.revision) == place.pinned
            said = [(each.action, each.revision) for each in self.store.decisions(problem, self.device)]
            assert said == place.decisions
        answered = {shape for shape, place in self.places.items() if place.winners}
        wanted = {each.problem.shape: each.count for each in self.store.wanted(10_000) if each.device == self.device}
        assert wanted == {shape: count for shape, count in self.misses.items() if shape not in answered}


@pytest.fixture
def store(any_url: str) -> Iterator[Store]:
    store = Store.open(any_url)
    yield store
    store.close()


def test_the_store_does_what_the_model_does(store: Store, best: BestPlan) -> None:
    class Machine(Model):
        pass

    Machine.store, Machine.best = store, best
    run_state_machine_as_test(Machine, settings=settings(max_examples=20, stateful_step_count=15, deadline=None))
