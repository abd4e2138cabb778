"""The numbers of the timing model, from the times of micro-kernels alone.

Each number follows from differences: of two loops that differ in their turns (what a launch costs falls out), and of
two bodies that differ in one thing. Numbers found before are used for the later ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean, pvariance
from typing import Any

from autotune.kernels.davinci import microkernels as micro
from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.constants import constants
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0A, L0B, L1, UB
from autotune.kernels.davinci.microkernels import Body, MicroKernel
from autotune.kernels.davinci.recorder import SCALAR_LOADS
from autotune.kernels.davinci.soc import SoC
from autotune.kernels.davinci.table import ROWS
from autotune.kernels.davinci.timing import estimate

Timer = Callable[[MicroKernel], float]
"""Microseconds of one launch."""

FEW, MANY = 4, 68
"""Turns of the two loops whose difference is taken: so many that what happens once does not matter."""
MANY_OF_ALL = 12
"""The same of loops on all cores at once, whose bytes have to fit in L2: then each comes from DDR once."""
LARGE = 65536
"""Bytes of a move that has no head, or whose head does not show."""
BYTES = (4096, 12288, 24576, 40960, LARGE)
"""Bytes of moves inside a core."""
MANY_PACKETS = 16
"""Packets of a move that is short."""
LIMITED = 1.02
"""How much longer a move has to take on all cores at once before the memory they share is said to limit it."""


def emulated(soc: SoC, profile: Profile = DEFAULT) -> Timer:
    """Times micro-kernels on the emulated core, whose numbers are the profile's."""

    def time_us(kernel: MicroKernel) -> float:
        with _current(soc):
            tik = Tik()
            kernel.build(tik)
        return estimate(tik.program, profile=profile).time_us

    return time_us


@dataclass(frozen=True)
class Calibration:
    """A profile, and the names of its constants that were measured: the others are as in ``constants.py``."""

    profile: Profile
    measured: frozenset[str]


def calibrate(time_us: Timer, soc: SoC, name: str) -> Calibration:
    """Every number that micro-kernels can tell apart on a chip whose cores have both a cube and a vector unit."""
    measured = Measured(time_us, soc)
    for step in STEPS:
        step(measured)
    numbers = {constant: value.value for constant, value in constants(soc.arch).items()} | measured.numbers
    return Calibration(Profile(name, numbers, measured.slopes, measured.rates), frozenset(measured.numbers))


class Measured:
    """Times of micro-kernels in cycles, and the numbers found so far."""

    def __init__(self, time_us: Timer, soc: SoC) -> None:
        self._time_us, self.soc = time_us, soc
        self.numbers: dict[str, int] = {}
        self.rates = replace(soc.rates, source="micro-kernels", confidence="measured")
        self.slopes: dict[str, tuple[float, float]] = {}

    def microseconds(self, body: Body, turns: int, cores: int = 1) -> float:
        """Of one launch."""
        return self._time_us(MicroKernel(body, turns, cores))

    def turn(self, body: Body, many: int = MANY, cores: int = 1) -> float:
        """Cycles that one more turn takes."""
        more = self.microseconds(body, many, cores) - self.microseconds(body, FEW, cores)
        return more * self.soc.clock_mhz / (many - FEW)

    def slope(self, body: Callable[[int], Body], few: int, many: int) -> tuple[float, float]:
        """Cycles for each unit more in a body, and cycles of a body without any unit."""
        low, high = self.turn(body(few)), self.turn(body(many))
        steep = (high - low) / (many - few)
        return steep, low - few * steep

    def line(self, body: Callable[[int], Body], sizes: Sequence[int]) -> tuple[int, float]:
        """Bytes per cycle, as the whole number that fits best by least squares, and the head of a body in cycles."""
        turns = [self.turn(body(nbytes)) for nbytes in sizes]
        about = (sizes[-1] - sizes[0]) / (turns[-1] - turns[0])

        def heads(rate: int) -> list[float]:
            return [cycles - ceil(nbytes / rate) for nbytes, cycles in zip(sizes, turns)]

        near = range(max(int(about * 0.95), 1), ceil(about * 1.05) + 1)
        rate = min(near, key=lambda rate: (pvariance(heads(rate)), abs(rate - about)))
        return rate, fmean(heads(rate))

    def found(self, **numbers: float) -> None:
        """Keeps constants, as whole numbers that are not negative."""
        self.numbers.update({name: max(round(number), 0) for name, number in numbers.items()})

    def rate(self, **rates: float) -> None:
        """Keeps rates, in whole bytes per cycle."""
        whole: dict[str, Any] = {name: max(round(rate), 1) for name, rate in rates.items()}
        self.rates = replace(self.rates, **whole)


def _launch(measured: Measured) -> None:
    one, all_cores = (measured.microseconds(micro.registers(1), 0, cores) for cores in (1, measured.soc.cores))
    measured.found(kernel_floor=1000 * one)
    if measured.soc.cores > 1:
        measured.found(block_skew=1000 * (all_cores - one) / (measured.soc.cores - 1))


def _scalar(measured: Measured) -> None:
    operation, _ = measured.slope(micro.registers, 4, 68)
    filler = 100
    measured.found(
        scalar_operation=operation,
        issue=measured.turn(micro.issue(filler)) - (filler + 1) * operation,
        scalar_write=measured.slope(micro.element_stores, 2, 18)[0],
        scalar_read=measured.turn(micro.element_read(UB)) - operation,
    )
    if GM in SCALAR_LOADS.get(measured.soc.arch, ()):
        measured.found(scalar_read_global=measured.turn(micro.element_read(GM)) - operation)


def _vector(measured: Measured) -> None:
    fill, start = measured.slope(lambda repeats: micro.dependent("vec_dup", "float16", repeats), 30, 240)
    whole, partial = (measured.turn(micro.dependent("vec_adds", "float16", 240, mask)) for mask in (128, 100))
    least, _ = measured.slope(micro.independent, 8, 40)
    measured.found(vector_start=start, vector_partial_mask=partial - whole, vector_least=max(least, fill))


def _slopes(measured: Measured) -> None:
    for call in micro.VECTOR_CALLS:
        found = tuple(_vector_slope(measured, call, dtype) for dtype in ("float16", "float32"))
        for row in _rows_of(call):
            measured.slopes[row] = (found[0], found[1])
    single = round(measured.slope(micro.conversion, 30, 240)[0], 2)
    measured.slopes["vconv"] = measured.slopes["h_cast"] = (single, single)


def _vector_slope(measured: Measured, call: str, dtype: str) -> float:
    """Cycles per repeat; vec_relu takes fp16 only."""
    kind = "float16" if call == "vec_relu" else dtype
    return round(measured.slope(lambda repeats: micro.dependent(call, kind, repeats), 30, 240)[0], 2)


def _rows_of(call: str) -> tuple[str, ...]:
    """Rows of the instruction table that are this instruction: that of the call and that of its tensor-wide form."""
    name = call.removeprefix("vec_")
    names = ("vector_dup", "h_duplicate") if name == "dup" else (f"v{name}", f"h_{name}")
    return tuple(row.name for row in ROWS if row.name in names)


def _inside_moves(measured: Measured) -> None:
    to_l1, to_l1_head = measured.line(lambda nbytes: micro.move(UB, L1, nbytes), BYTES)
    to_ub, to_ub_head = measured.line(lambda nbytes: micro.move(L1, UB, nbytes), BYTES)
    from_l0c, _ = measured.slope(micro.drain, 16, 128)
    measured.rate(ub_to_l1=to_l1, l1_to_ub=to_ub, l0c_to_ub=1024 / from_l0c)
    measured.found(ub_to_l1_head=to_l1_head, l1_to_ub_head=to_ub_head)


def _synchronisation(measured: Measured) -> None:
    repeats = 100
    both = measured.turn(micro.handover(repeats, repeats * 256))
    filled = measured.turn(micro.dependent("vec_dup", "float16", repeats))
    moved = measured.turn(micro.move(UB, L1, repeats * 256))
    measured.found(sync_latency=(both - filled - moved) / 2)


def _cube(measured: Measured) -> None:
    into_a, head = measured.line(lambda nbytes: micro.fractal_load(L0A, nbytes // 512), BYTES)
    into_b, _ = measured.line(lambda nbytes: micro.fractal_load(L0B, nbytes // 512), BYTES)
    measured.rate(l1_to_l0a=into_a, l1_to_l0b=into_b)
    measured.found(load_head=head, mmad_head=measured.turn(micro.product(128, 64, 128)) - 8 * 4 * 8)


def _global_moves(measured: Measured) -> None:
    read, write = measured.turn(micro.stream(LARGE)) / LARGE, measured.turn(micro.write(LARGE))
    to_l1, to_ub = (measured.turn(micro.reread(target, LARGE)) for target in (L1, UB))
    measured.rate(ddr_read=1 / read, ub_to_ddr=LARGE / write, l2_read=LARGE / to_l1, gm_to_ub=LARGE / to_ub)
    packet = 32 * round(measured.turn(micro.stream(LARGE, blocks=True)) / LARGE / read)
    short = MANY_PACKETS * packet
    head = measured.turn(micro.stream(short)) - ceil(short / measured.rates.ddr_read)
    measured.found(
        packet_bytes=packet,
        short_move_head=head,
        atomic_percent=100 * measured.turn(micro.write(LARGE, atomic=True)) / write,
    )
    if head > 1:
        blocks = range(LARGE // micro.BLOCK)
        long = bisect_left(blocks, True, lo=1, key=lambda count: not _has_head(measured, count, read, head))
        measured.found(short_move_bytes=long * micro.BLOCK)


def _has_head(measured: Measured, blocks: int, cycles_a_byte: float, head: float) -> bool:
    nbytes = blocks * micro.BLOCK
    return measured.turn(micro.stream(nbytes)) - nbytes * cycles_a_byte > head / 2


def _shared_memory(measured: Measured) -> None:
    soc = measured.soc
    alone, together = (measured.turn(micro.stream(LARGE), MANY_OF_ALL, cores) for cores in (1, soc.cores))
    if together > LIMITED * alone:
        measured.found(ddr_bandwidth=LARGE * soc.cores * soc.clock_mhz / together / 1000)


def _queue(measured: Measured) -> None:
    many, moves, moved = 50, 10, 1 << 18
    one = measured.turn(micro.dependent("vec_dup", "float16", 255))
    short, long = (measured.microseconds(micro.queue(count, moves, moved), 1) for count in (1, many))
    measured.found(queue_depth=many - 1 - (long - short) * measured.soc.clock_mhz / one)


STEPS = (
    _launch, _scalar, _vector, _slopes, _inside_moves, _synchronisation, _cube, _global_moves, _shared_memory, _queue,
)  # fmt: skip


@contextmanager
def _current(soc: SoC) -> Iterator[None]:
    before = chips.Current.soc
    chips.Current.soc = soc
    try:
        yield
    finally:
        chips.Current.soc = before
