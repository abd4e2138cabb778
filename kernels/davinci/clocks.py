"""The clocks of one core: what its queues are doing, and who last touched which buffer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.regions import Key

PIPES = (isa.V, isa.M, isa.MTE1, isa.MTE2, isa.MTE3, isa.FIX)
"""The queues that S fills."""
V, MTE1 = PIPES.index(isa.V), PIPES.index(isa.MTE1)
BY_SCALAR = -1
"""In place of a pipe: the scalar unit wrote it."""

_NOBODY: dict[int, int] = {}


@dataclass(frozen=True)
class Footprint:
    """The pipes and the hazard keys that a block can touch."""

    pipes: tuple[int, ...]
    keys: frozenset[Key]


class Core:
    """One core's clocks, in cycles from the start of the kernel.

    now: when S issues next. free: when each pipe can start its next instruction. done: when the results of each pipe
    are there, where that is later. queues: start times of what was
    issued to each pipe. written: key to (end, pipe) of the last write; read: key to the end of the last read by pipe.
    vector_written, vector_read: what V touched since it last drained. busy: cycles of work by pipe, then of S.
    integers: whole numbers that S stored, by (buffer id, element).
    """

    __slots__ = (
        "busy", "depth", "done", "drained", "free", "integers", "now", "profile", "queues", "read", "stored", "sync",
        "vector_read", "vector_written", "written",
    )  # fmt: skip

    def __init__(self, profile: Profile = DEFAULT) -> None:
        self.profile, self.sync, self.depth = profile, profile["sync_latency"], profile["queue_depth"]
        self.now = 0
        self.free, self.done = [0] * len(PIPES), [0] * len(PIPES)
        self.queues: list[list[int]] = [[] for _ in PIPES]
        self.written: dict[Key, tuple[int, int]] = {}
        self.read: dict[Key, dict[int, int]] = {}
        self.vector_written: set[Key] = set()
        self.vector_read: set[Key] = set()
        self.drained = False
        self.busy = [0] * (len(PIPES) + 1)
        self.integers: dict[tuple[int, int], int] = {}
        self.stored = 0

    def copy(self) -> Core:
        """An independent core in the same state."""
        other = type(self)(self.profile)
        other.now, other.free, other.done = self.now, list(self.free), list(self.done)
        other.queues = [list(queue) for queue in self.queues]
        other.written, other.read = dict(self.written), {key: dict(ends) for key, ends in self.read.items()}
        other.vector_written, other.vector_read = set(self.vector_written), set(self.vector_read)
        other.busy, other.integers, other.stored = list(self.busy), dict(self.integers), self.stored
        return other

    def wait_for_room(self, pipe: int) -> None:
        """S stops while the pipe's queue holds as many instructions as it can."""
        queue, now, depth = self.queues[pipe], self.now, self.depth
        if len(queue) < depth:
            return
        waiting = [start for start in queue if start > now]
        if len(waiting) >= depth:
            self.now = now = waiting[-depth]
            waiting = [start for start in waiting if start > now]
        self.queues[pipe] = waiting

    def ready(self, reads: Iterable[Key], writes: Iterable[Key], pipe: int, start: int) -> int:
        """The first cycle from ``start`` on at which other pipes are done with what is read and overwritten."""
        written, sync = self.written, self.sync
        for key in reads:
            known = written.get(key)
            if known is not None and known[0] + sync > start and known[1] != pipe:
                start = known[0] + sync
        for key in writes:
            known = written.get(key)
            if known is not None and known[0] + sync > start and known[1] != pipe:
                start = known[0] + sync
            for reader, end in self.read.get(key, _NOBODY).items():
                if end + sync > start and reader != pipe:
                    start = end + sync
        return start

    def barrier(self, reads: Iterable[Key], writes: Iterable[Key]) -> bool:
        """Whether V must drain first: since it last did, it wrote one of these, or read what is written now."""
        written, read = self.vector_written, self.vector_read
        needed = not (written.isdisjoint(reads) and written.isdisjoint(writes) and read.isdisjoint(writes))
        if needed:
            written.clear()
            read.clear()
            self.drained = True
        written.update(writes)
        read.update(reads)
        return needed

    def touch(self, reads: Iterable[Key], writes: Iterable[Key], pipe: int, end: int) -> None:
        """Leaves the mark of an instruction that ends at ``end``."""
        for key in reads:
            self.read.setdefault(key, {})[pipe] = end
        for key in writes:
            self.written[key] = (end, pipe)

    def freeze(self, footprint: Footprint) -> tuple[Any, ...]:
        """All that a block with this footprint depends on, relative to now. What lies in the past is forgotten."""
        now, free, done, queues = self.now, self.free, self.done, self.queues
        pipes = []
        for pipe in footprint.pipes:
            queue = queues[pipe] = [start for start in queues[pipe] if start > now]
            starts = tuple([start - now for start in queue])
            pipes.append((max(free[pipe] - now, 0), max(done[pipe] - now, 0), starts))
        keys = footprint.keys
        written, read = self._waited_for(keys)
        return tuple(pipes), written, read, keys & self.vector_written, keys & self.vector_read

    def _waited_for(self, keys: frozenset[Key]) -> tuple[frozenset[Any], frozenset[Any]]:
        """Last writes and reads of these keys that somebody may still wait for."""
        now, horizon = self.now, self.now - self.sync
        written = [(key, end - now, pipe) for key, (end, pipe) in self.written.items() if end > horizon and key in keys]
        read = [
            (key, pipe, end - now)
            for key, ends in self.read.items()
            if key in keys
            for pipe, end in ends.items()
            if end > horizon
        ]
        return frozenset(written), frozenset(read)

    def thaw(self, frozen: tuple[Any, ...], footprint: Footprint, drained: bool) -> None:
        """The inverse of ``freeze`` at the present clock; drained: V drained, whatever else it had touched."""
        now, keys = self.now, footprint.keys
        pipes, written, read, vector_written, vector_read = frozen
        for pipe, (until, after, starts) in zip(footprint.pipes, pipes):
            self.free[pipe], self.done[pipe] = now + until, now + after
            self.queues[pipe] = [now + start for start in starts]
        for marks in (self.written, self.read):
            for key in keys.intersection(marks):
                del marks[key]
        for key, end, pipe in written:
            self.written[key] = (now + end, pipe)
        for key, pipe, end in read:
            self.read.setdefault(key, {})[pipe] = now + end
        if drained:
            self.vector_written, self.vector_read, self.drained = set(vector_written), set(vector_read), True
        else:
            self.vector_written = (self.vector_written - keys) | vector_written
            self.vector_read = (self.vector_read - keys) | vector_read

    def finish(self) -> int:
        """The cycle at which everything issued so far has ended."""
        return max(self.now, *self.free, *self.done)
