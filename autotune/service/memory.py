"""What the service keeps in memory of its store, and drops as soon as the store has changed.

The store is asked with every request whether it has changed, which costs microseconds; so no worker ever answers with
what another process has replaced. What was read before a change is never kept after it. A new plan may change the
answers to problems of its own family on its own chip, exact and borrowed ones, and no others: those stay.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from autotune.db.changes import Place, Version
from autotune.db.rows import family, target_kind
from autotune.db.store import Store, rank
from autotune.outcome import BestPlan
from autotune.problem import AttentionProblem
from autotune.service.questions import Question

MAX_ANSWERS = 4096
MAX_FAMILIES = 64
MAX_QUERY_BYTES = 512
"""A longer query is answered every time: nobody needs one, and a cache should not be filled with them."""

Value = TypeVar("Value")
Plans = Mapping[str, list[BestPlan]]
"""The key of each problem of a family to its best plans, one for each kind of target."""


class Remembered(NamedTuple):
    """An answer as it was sent.

    missed: the question, where it had no exact answer and is to be counted. place: where a new plan may change it.
    """

    content: bytes
    tag: str
    match: str
    missed: Question | None
    place: Place


class Memory:
    """A store's plans and the service's answers; the ladder reads it as it reads the store. Raises StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version: Version = (None, None)
        self._answers: _Recent[Remembered] = _Recent(MAX_ANSWERS)
        self._families: _Recent[Plans] = _Recent(MAX_FAMILIES)
        self._pins: frozenset[tuple[str, str]] = frozenset()
        self._lock = Lock()

    def refresh(self) -> Version:
        """Drops what the store has changed; returns the version that stands now."""
        version = self._store.version()
        if version != self._version:
            changed = self._store.changes(self._version)
            pins = self._store.pinned_places()
            with self._lock:
                self._forget(changed)
                self._version, self._pins = version, pins
        return version

    def _forget(self, changed: Collection[Place] | None) -> None:
        if changed is None:
            self._answers, self._families = _Recent(MAX_ANSWERS), _Recent(MAX_FAMILIES)
        else:
            self._answers.drop(lambda query, answer: answer.place in changed)
            self._families.drop(lambda place, plans: place in changed)

    def answer(self, query: bytes) -> Remembered | None:
        """What was answered to a query since the store last changed; ``refresh`` comes before."""
        return self._answers.get(query)

    def keep(self, version: Version, query: bytes, answer: Remembered) -> None:
        """Keeps an answer that was made of the store's state at a version; not when another has come since."""
        with self._lock:
            if version == self._version and len(query) <= MAX_QUERY_BYTES:
                self._answers.put(query, answer)

    def pinned(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """As the store's."""
        return self._store.pinned(problem, device, target) if (problem.key, device) in self._pins else None

    def best(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """As the store's; from memory where the problem's family is there."""
        known = self._families.get((family(problem), device))
        if known is None:
            return self._store.best(problem, device, target)
        return max(_narrowed(known.get(problem.key, []), target), key=rank, default=None)

    def similar(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[BestPlan]:
        """As the store's."""
        place, version = (family(problem), device), self._version
        known = self._families.get(place)
        if known is None:
            known = _by_key(self._store.family(problem, device))
            with self._lock:
                if version == self._version:
                    self._families.put(place, known)
        others = [best for key, bests in known.items() if key != problem.key for best in bests]
        return _narrowed(others, target)


class _Recent(Generic[Value]):
    """The values that were asked for most recently, at most ``limit``."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[object, Value] = OrderedDict()

    def get(self, key: object) -> Value | None:
        value = self._values.get(key)
        if value is not None:
            try:
                self._values.move_to_end(key)
            except KeyError:  # another thread made room meanwhile
                return value
        return value

    def drop(self, gone: Callable[[object, Value], bool]) -> None:
        for key, value in list(self._values.items()):
            if gone(key, value):
                self._values.pop(key, None)

    def put(self, key: object, value: Value) -> None:
        self._values[key] = value
        while len(self._values) > self._limit:
            self._values.popitem(last=False)


def _by_key(bests: list[BestPlan]) -> Plans:
    found: dict[str, list[BestPlan]] = {}
    for best in bests:
        found.setdefault(best.problem.key, []).append(best)
    return found


def _narrowed(bests: list[BestPlan], target: str | None) -> list[BestPlan]:
    if target is None:
        return bests
    return [best for best in bests if target_kind(best.target) == target_kind(target)]
