"""What an instruction costs, in core cycles: a formula for each form of cost, over the numbers of ``constants.py``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, prod
from typing import TypeAlias

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.constants import CONSTANTS, DIFFERENCES, constants
from autotune.kernels.davinci.memory import GM, L0B, L0C, L1, SIZES, UB
from autotune.kernels.davinci.program import Instruction
from autotune.kernels.davinci.soc import SOCS, Rates, SoC
from autotune.kernels.davinci.supply import Supply
from autotune.kernels.davinci.table import ROWS

FORMULAS = 4
"""Counts changes of the formulas below, of supply.py and of the engine in timing.py."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The numbers that one estimate uses, under a name. Two profiles are compared by identity.

    constants: by name, where they differ from those of the chip. slopes: (16-bit, 32-bit) cycles per repeat of vector
    instructions, by row name, where they differ from the instruction table. rates: instead of the chip's own.
    """

    name: str
    constants: Mapping[str, int] = field(default_factory=dict)
    slopes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rates: Rates | None = None

    def __getitem__(self, name: str) -> int:
        """The constant; where the profile does not say, that of a 910A."""
        return self.constants[name] if name in self.constants else CONSTANTS[name].value


DEFAULT = Profile("default")
"""The numbers as they stand in constants.py and soc.py."""


@lru_cache(maxsize=256)
def on(soc: SoC, profile: Profile = DEFAULT) -> Profile:
    """The profile with every number that its chip uses."""
    own = {name: constant.value for name, constant in constants(soc.arch).items()}
    return Profile(profile.name, {**own, **profile.constants}, profile.slopes, profile.rates or soc.rates)


@lru_cache(maxsize=256)
def version(profile: Profile = DEFAULT) -> str:
    """The model's name: it changes with every constant, rate, instruction row and formula, and with the profile."""
    rows = [(r.name, r.pipe, r.form, r.half, r.single) for r in ROWS]
    numbers = [(arch, name, c.value) for arch in ("", *DIFFERENCES) for name, c in sorted(constants(arch).items())]
    changes = (sorted(profile.constants.items()), sorted(profile.slopes.items()), profile.rates)
    text = repr((FORMULAS, numbers, changes, rows, SOCS))
    return f"davinci-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Work:
    """What an instruction makes its pipe do: cycles that it is busy, and bytes that it moves."""

    cycles: int
    bytes: int = 0


@dataclass(frozen=True, eq=False)
class Chip:
    """What costs depend on besides the instruction: ``numbers`` says everything, ``supply`` how fast GM answers."""

    numbers: Profile
    rates: Rates
    supply: Supply
    l0c_bytes: int


Shapes: TypeAlias = Sequence[tuple[int, ...]]


def work(instruction: Instruction, shapes: Shapes, chip: Chip, atomic: bool = False) -> Work:
    """The work of one execution. shapes: of its outputs and inputs, in elements. Start-up of V is not in it."""
    return _FORMS[instruction.row.form](instruction, shapes, chip, atomic)


def latency(instruction: Instruction, numbers: Profile) -> int:
    """Cycles from when the pipe is free again until the result is there."""
    row, to_global = instruction.row, instruction.outputs[0].buffer.scope == GM
    if row.pipe == isa.MTE2:
        return numbers["read_latency"]
    if to_global:
        return numbers["write_latency"]
    return numbers["mmad_latency"] if row.name == "mmad" else 0


def packets(burst_bytes: int, largest: int = 256) -> int:
    """Packets that a burst is cut into, greedily: of the largest size in bytes, then of 8, 4, 3, 2, 1 blocks (2.5)."""
    blocks = -(-burst_bytes // 32)
    whole, rest = divmod(blocks, largest // 32)
    return whole + rest // 8 + (0, 1, 1, 1, 1, 2, 2, 2)[rest % 8]


def global_read(bursts: int, burst_bytes: int, chip: Chip, first: int = 1000, target: str = L1) -> int:
    """Cycles of a move from GM (2.5). first: per mille of its bytes that come from DDR. target: the core's memory."""
    port = chip.rates.gm_to_ub if target == UB else chip.rates.l2_read
    ddr = _global(bursts, burst_bytes, chip, min(port, chip.rates.ddr_read), chip.supply.ddr)
    near = _global(bursts, burst_bytes, chip, port, chip.supply.l2) if first < 1000 else 0
    return (ddr * first + near * (1000 - first)) // 1000 + _short(bursts * burst_bytes, chip.numbers)


def global_write(bursts: int, burst_bytes: int, chip: Chip, source: str = UB, percent: int = 100) -> int:
    """Cycles of a move to GM, into L2 as far as the kernel's tensors fit there; percent scales it (2.5)."""
    port = chip.rates.l0c_to_gm if source == L0C else chip.rates.ub_to_ddr
    near = _global(bursts, burst_bytes, chip, port, chip.supply.l2)
    ddr = _global(bursts, burst_bytes, chip, port, chip.supply.ddr) if chip.supply.held < 1000 else 0
    cycles = (near * chip.supply.held + ddr * (1000 - chip.supply.held)) // 1000
    return cycles * percent // 100 + _short(bursts * burst_bytes, chip.numbers)


def _global(bursts: int, burst_bytes: int, chip: Chip, rate: int, share: tuple[int, int]) -> int:
    largest = chip.numbers["packet_bytes"]
    own = -(-bursts * packets(burst_bytes, largest) * largest // rate)
    cycles, kilobytes = share
    return max(own, bursts * burst_bytes * cycles // kilobytes)


def _short(moved_bytes: int, numbers: Profile) -> int:
    return numbers["short_move_head"] if moved_bytes < numbers["short_move_bytes"] else 0


def mmad(m1: int, k1: int, n1: int, numbers: Profile = DEFAULT) -> int:
    """Cycles of one cube product of m1 x k1 x n1 tiles (2.2)."""
    odd = (k1 - 2) * numbers["mmad_odd"] if k1 > 1 and (m1 % 2 or n1 % 2) else 0
    return numbers["mmad_head"] + m1 * k1 * n1 + odd


@lru_cache(maxsize=4096)
def matmul(
    m1: int, k1: int, n1: int, numbers: Profile = DEFAULT, fractals: tuple[int, int] = (1, 2), l0c_tiles: int = 256
) -> int:
    """Cycles of tik.matmul on m1 x k1 x n1 tiles: the best blocking with two buffers in L0 (2.3, 2.4).

    fractals: cycles to load one into L0A and into L0B. Blocks divide the product, and there are at least two along k
    where there can be, so that loads run under products.
    """
    tiles, least, head = (m1, k1, n1), 0, numbers["mmad_head"]
    for turns, blocking in _blockings(tiles, l0c_tiles):
        if not least or turns * head + prod(tiles) < least:
            cycles = _blocked(tiles, blocking, numbers, fractals)
            least = min(least or cycles, cycles)
    return least


Tiles: TypeAlias = tuple[int, int, int]


def _blockings(tiles: Tiles, l0c_tiles: int) -> list[tuple[int, Tiles]]:
    """Numbers of turns and blocks, fewest turns first."""
    half_of_l0 = 64  # fractals of 512 bytes in half of L0A or L0B (64 KB)
    rows, depths, columns = (
        [length // parts for parts in range(1, length + 1) if length % parts == 0] for length in tiles
    )
    fitting = [
        (prod(length // block for length, block in zip(tiles, (mb, kb, nb))), (mb, kb, nb))
        for mb in rows
        for nb in columns
        for kb in depths[1:] or depths
        if mb * kb <= half_of_l0 and kb * nb <= half_of_l0 and mb * nb <= l0c_tiles
    ]
    return sorted(fitting) or [(prod(tiles), (1, 1, 1))]


def _blocked(tiles: Tiles, blocking: Tiles, numbers: Profile, fractals: tuple[int, int]) -> int:
    """Blocks along k, in them along n, in them along m; a block of B is loaded once for all along m."""
    (into_a, into_b), head, (mb, kb, nb) = fractals, numbers["load_head"], blocking
    product = mmad(mb, kb, nb, numbers)
    load_a = into_a * mb if kb == 1 else (into_a * kb + head) * mb - head
    load_b = into_b * kb * nb + head
    along_m = tiles[0] // mb
    loaded = done = 0
    for turn in range(prod(length // block for length, block in zip(tiles, blocking))):
        loaded += load_a + (load_b if turn % along_m == 0 else 0)
        done = max(done, loaded) + product
    return done


def _repeated(instruction: Instruction, shapes: Shapes, chip: Chip, atomic: bool) -> Work:
    row, widest = instruction.row, max(shapes, key=prod)
    repeats = widest[0] if not row.name.startswith("vnchwconv") else shapes[0][0]
    cycles = repeats * _slope(instruction, chip.numbers)
    partial = instruction.mask is not None or prod(widest[1:]) % _block(instruction)
    if partial and repeats:
        cycles += chip.numbers["vector_partial_mask"]
    return Work(max(chip.numbers["vector_least"], ceil(cycles)))


def _block(instruction: Instruction) -> int:
    """Lanes of a 32-byte block of the narrowest operand."""
    return 32 // min(SIZES[access.dtype] for access in (*instruction.outputs, *instruction.inputs))


def _slope(instruction: Instruction, numbers: Profile) -> float:
    row, accesses = instruction.row, (*instruction.outputs, *instruction.inputs)
    half, single = numbers.slopes.get(row.name) or (row.half, row.single)
    return single if max(SIZES[access.dtype] for access in accesses) > 2 else half


def _whole(instruction: Instruction, shapes: Shapes, chip: Chip, atomic: bool) -> Work:
    accesses = (*instruction.outputs, *instruction.inputs)
    lanes = 256 // max(SIZES[access.dtype] for access in accesses)
    repeats = max(_runs(access.strides, shape, lanes) for access, shape in zip(accesses, shapes))
    return Work(max(chip.numbers["vector_least"], ceil(repeats * _slope(instruction, chip.numbers))))


def _runs(strides: Sequence[object], shape: tuple[int, ...], lanes: int) -> int:
    """Repeats that cover a tensor: each contiguous run takes whole repeats."""
    run, index = 1, len(shape)
    while index and (strides[index - 1] == run or shape[index - 1] == 1):
        index -= 1
        run *= shape[index]
    return prod(shape[:index]) * -(-run // lanes)


def _move(instruction: Instruction, shapes: Shapes, chip: Chip, atomic: bool) -> Work:
    target, source = instruction.outputs[0], instruction.inputs[0]
    origin, goal = source.buffer.scope, target.buffer.scope
    numbers, rates = chip.numbers, chip.rates
    count, elements = shapes[0][0], prod(shapes[0][1:])
    read, written = elements * SIZES[source.dtype], elements * SIZES[target.dtype]
    if origin == GM:
        return Work(global_read(count, read, chip, chip.supply.first(source.buffer), goal), count * read)
    if goal == GM:
        percent = numbers["atomic_percent"] if atomic else 100
        cycles = global_write(count, written, chip, origin, percent)
        if origin == L0C:
            cycles = numbers["fixpipe_head"] + max(cycles, -(-count * read // rates.l0c_to_ub))
        return Work(cycles, count * written)
    total = count * (max(read, written) if L0C in (origin, goal) else read)
    head, rate = {
        (UB, L1): (numbers["ub_to_l1_head"], rates.ub_to_l1),
        (L1, UB): (numbers["l1_to_ub_head"], rates.l1_to_ub),
        (UB, UB): (0, 256),
    }.get((origin, goal), (0, rates.l0c_to_ub))
    least = numbers["vector_least"] if instruction.row.pipe == isa.V else 0
    return Work(max(least, head + -(-total // rate)), total)


def _load(instruction: Instruction, shapes: Shapes, chip: Chip, atomic: bool) -> Work:
    target, source = instruction.outputs[0], instruction.inputs[0].buffer
    total, numbers = prod(shapes[0]) * SIZES[target.dtype], chip.numbers
    if source.scope == GM:
        return Work(global_read(1, total, chip, chip.supply.first(source)), total)
    cycles = -(-total // (chip.rates.l1_to_l0b if target.buffer.scope == L0B else chip.rates.l1_to_l0a))
    if instruction.row.name == "load3dv1":
        return Work(max(numbers["image_load_least"], numbers["image_load_head"] + cycles), total)
    return Work(numbers["load_head"] + cycles, total)


def _cube(instruction: Instruction, shapes: Shapes, chip: Chip, atomic: bool) -> Work:
    n1, m, _ = shapes[0]
    if instruction.row.name == "mmad":
        passes = 2 if SIZES[instruction.inputs[0].dtype] == 4 else 1  # 16 x 8 x 16 of float32 in two cycles
        return Work(mmad(m // 16, passes * shapes[1][1], n1, chip.numbers))
    fractals = (512 // chip.rates.l1_to_l0a, 512 // chip.rates.l1_to_l0b)
    return Work(matmul(m // 16, shapes[1][0], n1, chip.numbers, fractals, chip.l0c_bytes // 1024))


def _scalar(instruction: Instruction, shapes: Shapes, chip: Chip, atomic: bool) -> Work:
    return Work(chip.numbers["scalar_write"])


_FORMS: dict[str, Callable[[Instruction, Shapes, Chip, bool], Work]] = {
    isa.REPEATED: _repeated,
    isa.WHOLE: _whole,
    isa.MOVE: _move,
    isa.LOAD: _load,
    isa.CUBE: _cube,
    isa.SCALAR: _scalar,
}
