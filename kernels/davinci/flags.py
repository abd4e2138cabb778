"""How many flags between two queues of a core are in flight at once: the chip has eight events for each pair.

An instruction waits by a flag for what another queue wrote or read, unless it is known to be done: the queue itself, or
one that it has waited for, has waited for it or for something later there (transitive reduction; davinci_timing.md
5.1). A flag is in flight from the instruction that sets it to the one that waits for it, in the order of the program,
which is the order in which TIK gives out events.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.clocks import PIPES, Core
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.expr import Registers
from autotune.kernels.davinci.fusion import ElementCopies
from autotune.kernels.davinci.program import Access, Instruction, Program, SetScalar, Statement
from autotune.kernels.davinci.regions import Key, Keys
from autotune.kernels.davinci.timing import Step, Walk

EVENTS = 8
"""Events of a pair of queues (davinci_timing.md 5.1 and 5.2)."""
MOST_INSTRUCTIONS = 20_000
"""After which a program is no longer looked at: its loops have settled, and 0.3 seconds are over."""

NAMES = (*PIPES, isa.S)
"""Queues by their index; S is the last."""
S = len(PIPES)

Known = tuple[int, ...]
"""For each queue, up to which place in the program its work is known to be done."""


class Mark(NamedTuple):
    """Who touched something last: its queue, its place in the program, and what it knew then."""

    queue: int
    place: int
    known: Known


def flags_in_flight(
    program: Program, core: int = 0, most_instructions: int = MOST_INSTRUCTIONS, profile: Profile = DEFAULT
) -> dict[str, int]:
    """The most flags of each pair of queues that are in flight at once on one core, e.g. {"MTE2->MTE1": 2}.

    What tik.matmul does inside itself is not counted.
    """
    walk = _FlagWalk(program, most_instructions, profile)
    with suppress(_Enough):
        walk.cores([core])
    return {f"{NAMES[one]}->{NAMES[other]}": most for (one, other), most in sorted(walk.flags.most.items())}


class _Enough(Exception):
    """As many instructions were seen as shall be."""


class Flags:
    """What each queue knows of the others, and the most flags of a pair that were in flight at once."""

    def __init__(self) -> None:
        self.most: Counter[tuple[int, int]] = Counter()
        self._place = 0
        self._known: list[Known] = [(0,) * len(NAMES) for _ in NAMES]
        self._written: dict[Key, Mark] = {}
        self._read: dict[Key, dict[int, Mark]] = {}
        self._waited_for_at: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)

    def issue(self, queue: int, reads: Keys, writes: Keys) -> None:
        """One instruction: S hands over what it knows, flags are waited for, and marks are left."""
        self._place += 1
        known = _both(self._known[queue], self._known[S])
        for mark in sorted(self._marks(reads, writes), key=lambda mark: -mark.place):
            if known[mark.queue] < mark.place and mark.queue != queue:
                self._wait(mark, queue)
                known = _both(known, mark.known)
        known = self._known[queue] = (*known[:queue], self._place, *known[queue + 1 :])
        own = Mark(queue, self._place, known)
        for key in reads:
            self._read.setdefault(key, {})[queue] = own
        for key in writes:
            self._written[key], self._read[key] = own, {}

    def _marks(self, reads: Keys, writes: Keys) -> set[Mark]:
        found = {self._written[key] for key in (*reads, *writes) if key in self._written}
        return found.union(*(self._read.get(key, {}).values() for key in writes))

    def _wait(self, mark: Mark, queue: int) -> None:
        """One flag more. Those of a pair are waited for in the order they were set: a queue's work is done in order."""
        pair = (mark.queue, queue)
        places = self._waited_for_at[pair]
        while places and places[0] <= mark.place:
            places.popleft()
        places.append(self._place)
        self.most[pair] = max(self.most[pair], len(places))


class _FlagWalk(Walk):
    """A walk of every turn that also follows the flags."""

    def __init__(self, program: Program, most_instructions: int, profile: Profile) -> None:
        super().__init__(program, False, profile)
        self.flags = Flags()
        self._left = most_instructions

    def link(self, statement: Statement | ElementCopies) -> Step:
        """One statement, followed where it touches a tensor."""
        step = super().link(statement)
        if isinstance(statement, Instruction):
            pipe = statement.row.pipe
            queue = S if pipe == isa.S else PIPES.index(pipe)
            return self._followed(step, queue, statement.inputs, statement.outputs)
        if isinstance(statement, ElementCopies):
            return self._followed(step, S, statement.loads, statement.stores)
        if isinstance(statement, SetScalar) and isinstance(statement.value, Access):
            return self._followed(step, S, (statement.value,), ())
        return step

    def _followed(self, step: Step, queue: int, inputs: Sequence[Access], outputs: Sequence[Access]) -> Step:
        reads, writes = self.together(inputs), self.together(outputs)

        def run(core: Core, r: Registers) -> Any:
            self._left -= 1
            if self._left < 0:
                raise _Enough
            self.flags.issue(queue, reads(r), writes(r))
            return step(core, r)

        return run


def _both(one: Known, other: Known) -> Known:
    return tuple(map(max, one, other))
