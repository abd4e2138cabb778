"""From a question as it was sent to an answer of the ladder; what had no exact answer is counted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, Timer

from autotune.db import misses
from autotune.db.rows import Wanted
from autotune.db.store import Store
from autotune.errors import StoreError
from autotune.problem import AttentionProblem
from autotune.service.clock import now
from autotune.service.device import Device, Devices, find_device
from autotune.service.ladder import Answer, Bests, answer
from autotune.service.schema import Asked, parse_allow

log = logging.getLogger(__name__)

FLUSH_S = 1.0
"""How long a miss may wait for others before the database is told: writing each by itself would slow the answers."""


@dataclass(frozen=True)
class Question:
    """What is asked, as the ladder takes it. ``target`` narrows to one target's kind of results."""

    problem: AttentionProblem
    device: Device
    target: str | None
    allow: tuple[str, ...]

    @classmethod
    def of(cls, asked: Asked, devices: Devices) -> Question:
        """Raises InvalidInput that names the parameter."""
        problem, allow = asked.problem(), parse_allow(asked.allow)
        name = asked.device if asked.device is not None else next(iter(devices))
        return cls(problem, *find_device(devices, name), allow)

    def answer(self, bests: Bests) -> Answer | None:
        """The ladder's answer. Raises StoreError."""
        return answer(self.problem, self.device, bests, self.allow, self.target)

    @property
    def unanswered(self) -> str:
        """Why there is none, in a sentence."""
        rungs, name = ",".join(self.allow), self.device.hardware.name
        return (
            f"none of the rungs {rungs} has a legal plan for this problem on {name}; allow more rungs, or sweep the "
            "problem"
        )


class Misses:
    """Counts questions without an exact answer and tells the store now and then, from a thread of its own."""

    def __init__(self, store: Store, flush_s: float = FLUSH_S) -> None:
        self._store, self._flush_s = store, flush_s
        self._counts: dict[tuple[AttentionProblem, str], int] = {}
        self._timer: Timer | None = None
        self._lock = Lock()

    def add(self, question: Question) -> None:
        """Counts one; what would be more than the store keeps is dropped."""
        asked = (question.problem, question.device.hardware.name)
        with self._lock:
            if asked in self._counts or len(self._counts) < misses.LIMIT:
                self._counts[asked] = self._counts.get(asked, 0) + 1
            if self._timer is None:
                self._timer = _started(self._flush_s, self.flush)

    def flush(self) -> None:
        """Tells the store. A database that cannot be written loses the counts, and nothing else."""
        with self._lock:
            counts, self._counts = self._counts, {}
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        missed = [Wanted(problem, device, count, now()) for (problem, device), count in counts.items()]
        try:
            if missed:
                self._store.want_all(missed)
        except StoreError as error:
            log.warning("%d misses were not recorded: %s", len(missed), error)


def _started(seconds: float, call: Callable[[], None]) -> Timer:
    timer = Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer
