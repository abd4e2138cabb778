"""What an instruction costs, in core cycles: constants as data, and one formula for each form of cost.

Every constant names its source and how far it is to be trusted: published (by the vendor), measured (on silicon, by
the source), derived (by arithmetic from those) or assumed. References are to sections of davinci_timing.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, prod
from typing import TypeAlias

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.memory import GM, L0B, L0C, L1, SIZES, UB
from autotune.kernels.davinci.program import Instruction
from autotune.kernels.davinci.soc import SOCS, Rates, SoC
from autotune.kernels.davinci.table import ROWS


@dataclass(frozen=True)
class Constant:
    """One number of the model. ``unit`` is cycles unless it says otherwise."""

    value: int
    source: str
    confidence: str
    unit: str = "cycles"


CONSTANTS = {
    "issue": Constant(2, "5.1, c_issue", "assumed"),
    "queue_depth": Constant(32, "2.9, size_of_issueQ", "published", "entries"),
    "sync_latency": Constant(15, "2.8, set to wait wake-up 10-30", "assumed"),
    "vector_start": Constant(25, "2.1, first instruction after a barrier or wait 20-40", "measured"),
    "vector_least": Constant(3, "2.1, least distance of two instructions", "measured"),
    "vector_partial_mask": Constant(16, "2.1, partial mask adds 15-22", "measured"),
    "mmad_head": Constant(15, "2.2, get_cube_cycles", "published"),
    "load_head": Constant(10, "2.3, load2d", "published"),
    "l1_to_ub_head": Constant(10, "5.2", "assumed"),
    "ub_to_l1_head": Constant(20, "5.2", "assumed"),
    "packet_bytes": Constant(256, "2.5, largest packet", "published", "bytes"),
    "packet_cycles": Constant(8, "2.5, each packet", "published"),
    "short_move_head": Constant(100, "2.5, one move under 16 KB", "published"),
    "short_move_bytes": Constant(16384, "2.5", "published", "bytes"),
    "scalar_operation": Constant(1, "2.7, ALU", "published"),
    "scalar_read": Constant(30, "2.7, scalar read of a UB element 20-60", "assumed"),
    "scalar_read_global": Constant(200, "2.7, scalar read of GM", "assumed"),
    "scalar_write": Constant(2, "2.7, scalar store", "assumed"),
    "atomic_percent": Constant(115, "5.2, atomic add 1.15 x write", "assumed", "percent"),
    "kernel_floor": Constant(800, "2.8, device-side floor 0.77-0.83 us", "measured", "nanoseconds"),
}
"""Rates in bytes per cycle are the chip's own: see soc.py."""

FORMULAS = 2
"""Counts changes of the formulas below and of the engine in timing.py."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The numbers that one estimate uses, under a name. Two profiles are compared by identity.

    constants: value of every name in CONSTANTS. slopes: (16-bit, 32-bit) cycles per repeat of vector instructions, by
    row name, where they differ from the instruction table. rates: instead of the chip's own.
    """

    name: str
    constants: Mapping[str, int]
    slopes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rates: Rates | None = None

    def __getitem__(self, name: str) -> int:
        return self.constants[name]


DEFAULT = Profile("default", {name: constant.value for name, constant in CONSTANTS.items()})
"""The numbers as they stand above."""


@lru_cache(maxsize=256)
def version(profile: Profile = DEFAULT) -> str:
    """The model's name: it changes with every constant, rate, instruction row and formula, and with the profile."""
    rows = [(r.name, r.pipe, r.form, r.half, r.single) for r in ROWS]
    text = repr(
        (FORMULAS, sorted(profile.constants.items()), sorted(profile.slopes.items()), profile.rates, rows, SOCS)
    )
    return f"davinci-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def packets(burst_bytes: int) -> int:
    """Packets of 8, 4, 3, 2 and 1 blocks that one burst is cut into, greedily (2.5)."""
    blocks = -(-burst_bytes // 32)
    whole, rest = divmod(blocks, 8)
    return whole + (0, 1, 1, 1, 1, 2, 2, 2)[rest]


def global_move(bursts: int, burst_bytes: int, percent: int = 100, profile: Profile = DEFAULT) -> int:
    """Cycles of a move between GM and a core; percent scales the packets' cost (2.5)."""
    cycles = bursts * packets(burst_bytes) * profile["packet_cycles"] * percent // 100
    return cycles + (profile["short_move_head"] if bursts * burst_bytes < profile["short_move_bytes"] else 0)


def mmad(m1: int, k1: int, n1: int, profile: Profile = DEFAULT) -> int:
    """Cycles of one cube product of m1 x k1 x n1 tiles on a v100 core (2.2)."""
    odd = k1 - 2 if k1 > 1 and (m1 % 2 or n1 % 2) else 0
    return profile["mmad_head"] + m1 * k1 * n1 + odd


@lru_cache(maxsize=4096)
def matmul(m1: int, k1: int, n1: int, profile: Profile = DEFAULT) -> int:
    """Cycles of tik.matmul on m1 x k1 x n1 tiles: the best blocking with two buffers in L0 (2.3, 2.4).

    Reproduces the table of 2.4 where its blocking divides the product evenly.
    """
    return min(_blocked(m1, k1, n1, mb, kb, nb, profile) for mb, kb, nb in _blockings(m1, k1, n1))


def _blockings(m1: int, k1: int, n1: int) -> list[tuple[int, int, int]]:
    half_of_l0 = 64  # fractals of 512 bytes in half of L0A or L0B (64 KB)
    tiles_of_l0c = 256  # tiles of 1024 bytes
    rows = [m1 // parts for parts in range(1, m1 + 1) if m1 % parts == 0]
    depths = [k1 // parts for parts in range(1, k1 + 1) if k1 % parts == 0]
    columns = [n1 // parts for parts in range(1, n1 + 1) if n1 % parts == 0]
    fitting = [
        (mb, kb, nb)
        for mb in rows
        for nb in columns
        for kb in depths
        if mb * kb <= half_of_l0 and kb * nb <= half_of_l0 and mb * nb <= tiles_of_l0c
    ]
    return fitting or [(1, 1, 1)]


def _blocked(m1: int, k1: int, n1: int, mb: int, kb: int, nb: int, profile: Profile) -> int:
    head = profile["load_head"]
    load_a = mb if kb == 1 else (kb + head) * mb - head
    load = load_a + 2 * kb * nb + head
    product = mmad(mb, kb, nb, profile)
    turns = -(-m1 // mb) * -(-k1 // kb) * -(-n1 // nb)
    return load + (turns - 1) * max(load, product) + product


@dataclass(frozen=True)
class Work:
    """What an instruction makes its pipe do: cycles that it is busy, and bytes that it moves."""

    cycles: int
    bytes: int = 0


Shapes: TypeAlias = Sequence[tuple[int, ...]]


def work(instruction: Instruction, shapes: Shapes, soc: SoC, atomic: bool, profile: Profile = DEFAULT) -> Work:
    """The work of one execution. shapes: of its outputs and inputs, in elements. Start-up of V is not in it."""
    return _FORMS[instruction.row.form](instruction, shapes, soc, atomic, profile)


def _repeated(instruction: Instruction, shapes: Shapes, soc: SoC, atomic: bool, profile: Profile) -> Work:
    row, widest = instruction.row, max(shapes, key=prod)
    repeats = widest[0] if not row.name.startswith("vnchwconv") else shapes[0][0]
    cycles = repeats * _slope(instruction, profile)
    partial = instruction.mask is not None or prod(widest[1:]) % _block(instruction)
    if partial and repeats:
        cycles += profile["vector_partial_mask"]
    return Work(max(profile["vector_least"], ceil(cycles)))


def _block(instruction: Instruction) -> int:
    """Lanes of a 32-byte block of the narrowest operand."""
    return 32 // min(SIZES[access.dtype] for access in (*instruction.outputs, *instruction.inputs))


def _slope(instruction: Instruction, profile: Profile) -> float:
    row, accesses = instruction.row, (*instruction.outputs, *instruction.inputs)
    half, single = profile.slopes.get(row.name) or (row.half, row.single)
    return single if max(SIZES[access.dtype] for access in accesses) > 2 else half


def _whole(instruction: Instruction, shapes: Shapes, soc: SoC, atomic: bool, profile: Profile) -> Work:
    accesses = (*instruction.outputs, *instruction.inputs)
    lanes = 256 // max(SIZES[access.dtype] for access in accesses)
    repeats = max(_runs(access.strides, shape, lanes) for access, shape in zip(accesses, shapes))
    return Work(max(profile["vector_least"], ceil(repeats * _slope(instruction, profile))))


def _runs(strides: Sequence[object], shape: tuple[int, ...], lanes: int) -> int:
    """Repeats that cover a tensor: each contiguous run takes whole repeats."""
    run, index = 1, len(shape)
    while index and (strides[index - 1] == run or shape[index - 1] == 1):
        index -= 1
        run *= shape[index]
    return prod(shape[:index]) * -(-run // lanes)


def _move(instruction: Instruction, shapes: Shapes, soc: SoC, atomic: bool, profile: Profile) -> Work:
    target, source = instruction.outputs[0], instruction.inputs[0]
    count, elements = shapes[0][0], prod(shapes[0][1:])
    origin, goal = source.buffer.scope, target.buffer.scope
    size = max(SIZES[target.dtype], SIZES[source.dtype]) if L0C in (origin, goal) else SIZES[source.dtype]
    total = count * elements * size
    if origin == GM:
        return Work(global_move(count, elements * size, 3200 // soc.rates.ddr_read, profile), total)
    if goal == GM:
        percent = 3200 // soc.rates.ub_to_ddr * (profile["atomic_percent"] if atomic else 100) // 100
        return Work(global_move(count, elements * size, percent, profile), total)
    head, rate = {
        (UB, L1): (profile["ub_to_l1_head"], soc.rates.ub_to_l1),
        (L1, UB): (profile["l1_to_ub_head"], soc.rates.l1_to_ub),
        (UB, UB): (0, 256),
    }.get((origin, goal), (0, soc.rates.l0c_to_ub))
    least = profile["vector_least"] if instruction.row.pipe == isa.V else 0
    return Work(max(least, head + -(-total // rate)), total)


def _load(instruction: Instruction, shapes: Shapes, soc: SoC, atomic: bool, profile: Profile) -> Work:
    fractals, total = shapes[0][0], shapes[0][0] * 512
    if instruction.inputs[0].buffer.scope == GM:
        return Work(global_move(1, total, 3200 // soc.rates.ddr_read, profile), total)
    into_b = instruction.outputs[0].buffer.scope == L0B
    rate = soc.rates.l1_to_l0b if into_b else soc.rates.l1_to_l0a
    return Work(profile["load_head"] + -(-fractals * 512 // rate), total)


def _cube(instruction: Instruction, shapes: Shapes, soc: SoC, atomic: bool, profile: Profile) -> Work:
    n1, m, _ = shapes[0]
    if instruction.row.name == "mmad":
        return Work(mmad(m // 16, shapes[1][1], n1, profile))
    return Work(matmul(m // 16, shapes[1][0], n1, profile))


def _scalar(instruction: Instruction, shapes: Shapes, soc: SoC, atomic: bool, profile: Profile) -> Work:
    return Work(profile["scalar_write"])


_FORMS = {
    isa.REPEATED: _repeated,
    isa.WHOLE: _whole,
    isa.MOVE: _move,
    isa.LOAD: _load,
    isa.CUBE: _cube,
    isa.SCALAR: _scalar,
}
