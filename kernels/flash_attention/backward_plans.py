"""What a tiling plan means to the backward kernel: block geometry, bytes of every memory, and what is refused.

A core works on one block of ``keys`` tiles of keys at a time and visits all blocks of ``rows`` tiles of queries. Cube
and vector unit hand each other *units*: a part of the keys (``part`` tiles) by a chunk of the queries (``chunk``
tiles). dK and dV of the key block stay in L0C until every query was visited; dQ of a chunk is added to global memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.errors import PlanRejected
from autotune.hardware import Hardware
from autotune.kernels.flash_attention.plans import (
    HALF_TILE,
    MASK_TENSORS,
    SINGLE_TILE,
    Scale,
    check_problem,
)
from autotune.kernels.flash_attention.windows import Border, Strip, borders, strips
from autotune.plan import TILE, TilingPlan, ceil_div, pad
from autotune.problem import AttentionProblem

MOST_PART = 8
"""Longest part of a key block, in tiles."""
MOST_CHUNK = 8
"""Longest chunk of a query block, in tiles."""
FACTORS = 3
"""Numbers of a head that gradients in fp32 are multiplied by: dS before it becomes fp16, dQ and dK at the end."""
LARGEST_LANES = 128
"""fp16 numbers of scratch for the largest of many."""
LONG_MOVE = 32
"""fp16 tiles of 512 bytes from which on a move from global memory costs no extra start (davinci_timing.md 2.5)."""


@dataclass(frozen=True)
class BackwardScale:
    """scores: 1 / sqrt(head_dim) = exact * rest; K takes the first, S - log-sum-exp the second.

    weights: a power of two that P is larger by, and dP smaller. exp takes fp16 here, whose steps grow with the distance
    from 0. Where softmax is flat its argument is near -log(N), where it is peaked near 0: with a factor of sqrt(N) both
    are near log(N) / 2 from 0. values: what V is multiplied by so that dP is smaller by as much; 1 where dP and dS are
    fp32 (high_precision), which then lose it at the end.
    """

    scores: Scale
    weights: float
    values: float

    @classmethod
    def of(cls, problem: AttentionProblem) -> BackwardScale:
        """The scale of a problem."""
        weights = 2.0 ** (problem.N.bit_length() // 2)
        return cls(Scale.of(problem.head_dim), weights, 1.0 if problem.high_precision else 1 / weights)


@dataclass(frozen=True)
class Cut:
    """A part of a block: its number, its first tile, its tiles, and its real tokens (padding left out)."""

    index: int
    first: int
    tiles: int
    tokens: int


def cuts(tokens: int, most_tiles: int) -> Iterator[Cut]:
    """So many real tokens cut into parts of at most so many tiles."""
    tiles = ceil_div(tokens, TILE)
    for index, first in enumerate(range(0, tiles, most_tiles)):
        count = min(most_tiles, tiles - first)
        yield Cut(index, first, count, min(count * TILE, tokens - first * TILE))


@dataclass(frozen=True)
class BackwardGeometry:
    """A block in tiles of 16, and the bytes it takes.

    rows: Br / 16. keys: Bc / 16. depth: padded head dimension / 16. part, chunk: a unit's tiles of keys and queries.
    buffers: K/V buffers in turn. mask: none, full, shared or causal. mask_terms: fp16 terms of the mask's value.
    borders: of the keys that queries see. single_exp: whether the exponential is taken in fp32. alibi_terms: fp16 terms
    of what multiplies the ALiBi biases, 0 without them. dropout: whether probabilities are multiplied by a mask. exact:
    whether dP and dS are fp32 on the vector unit.
    """

    rows: int
    keys: int
    depth: int
    part: int
    chunk: int
    buffers: int
    mask: str
    mask_terms: int
    borders: tuple[Border, ...]
    single_exp: bool
    alibi_terms: int = 0
    dropout: bool = False
    exact: bool = False

    @property
    def unit(self) -> int:
        """Tiles of scores that the cube hands over at a time."""
        return self.part * self.chunk

    @property
    def units(self) -> int:
        """Units of a query block by a key block."""
        return ceil_div(self.keys, self.part) * ceil_div(self.rows, self.chunk)

    @property
    def piece(self) -> int:
        """Tiles of queries that are loaded at a time: whole chunks, enough for a long move."""
        return self.chunk * ceil_div(LONG_MOVE, self.chunk * self.depth)

    @property
    def pieces(self) -> list[int]:
        """Tiles of every piece of a query block."""
        return [cut.tiles for cut in cuts(self.rows * TILE, self.piece)]

    @property
    def wide(self) -> int:
        """Tiles of a vector buffer: a unit, or all of a tile of queries' head dimension."""
        return max(self.unit, self.depth)

    @property
    def gradient(self) -> int:
        """Tiles of a chunk's or part's gradient."""
        return max(self.part, self.chunk) * self.depth

    @property
    def prepared(self) -> int:
        """Tiles of queries whose statistics are prepared at a time."""
        return min(self.wide // self.depth, self.rows, self.gradient)

    @property
    def has_mask_tile(self) -> bool:
        """Whether a tile of the mask is loaded with every query block."""
        return self.mask in MASK_TENSORS

    @property
    def statistics(self) -> int:
        """fp16 fractals that a tile of queries has for its statistics: terms of its log-sum-exp, and of rowsum(dO O).

        Where the cube does not subtract the latter, it is one more row of the former, or fp32 elsewhere.
        """
        return 2 if self.cube_subtracts_products else 1

    @property
    def cube_subtracts_products(self) -> bool:
        """Whether rowsum(dO O) leaves dP in L0C: dP then has to meet nothing before, and to be fp16 after it."""
        return not (self.dropout or self.exact)

    @property
    def strips(self) -> list[Strip]:
        """One for each border. A crossing unit is seen as far as it is long; a visited block may lie beyond by its own
        length."""
        beyond = self.keys + self.rows - 2
        return strips(self.borders, self.part + self.chunk - 2, above=beyond, below=beyond)

    @property
    def strip_tiles(self) -> int:
        """Fractals of all strips."""
        return self.strips[-1].end if self.borders else 0

    @property
    def hides(self) -> bool:
        """Whether there are windows."""
        return any(border.hides for border in self.borders)

    @property
    def diagonals(self) -> int:
        """Diagonals of L0B: the terms of the mask's value, then that of windows."""
        return self.mask_terms + int(self.hides)

    def ub_bytes(self) -> int:
        """P and dS of a unit in fp16, gradients in fp32, two each; S in fp32; sums and packed vectors of statistics.

        With dropout a unit's mask, as it comes and transposed, and a chunk's rowsum(dO O) in fp16. Where dP is fp32, it
        and that sum, the mask too, and some numbers of two heads.
        """
        in_turn = 2 * (2 * HALF_TILE * self.wide + SINGLE_TILE * self.gradient)
        dropout = (2 * HALF_TILE * self.unit + 2 * TILE * self.chunk * (not self.exact)) * self.dropout
        if self.exact:
            dropout += SINGLE_TILE * self.unit * (1 + self.dropout) + 4 * TILE * self.chunk
            dropout += 4 * TILE * self.buffers * FACTORS + 2 * LARGEST_LANES + 2 * 2 * TILE + 5 * 4 * TILE
        prepared = self.prepared * (SINGLE_TILE + 2 * 4 * TILE)
        return in_turn + SINGLE_TILE * self.unit * self.single_exp + prepared + dropout

    def l1_bytes(self) -> int:
        """K, V and ALiBi biases, two units of P and dS each, constants; and Q, dO, statistics and masks of queries."""
        kept = 4 * self.unit + self.part + self.strip_tiles + self.diagonals + (self.chunk if self.alibi_terms else 0)
        query_tile = self.rows * (2 * self.depth + self.statistics + self.keys * (self.has_mask_tile + self.dropout))
        key_tile = self.keys * (2 * self.depth + int(self.alibi_terms > 0))
        return HALF_TILE * (kept + query_tile + self.buffers * key_tile)

    def l0a_bytes(self) -> int:
        """Two left operands, each K, V, P or dS of a unit, and the constant ones."""
        return HALF_TILE * (2 * max(self.part * self.depth, self.unit) + self.part)

    def l0b_bytes(self) -> int:
        """Two right operands, each Q, dO or K of a unit, two of statistics, diagonals, and what multiplies biases."""
        alibi = self.chunk if self.alibi_terms else 0
        return HALF_TILE * (2 * (self.gradient + self.chunk) + self.diagonals + alibi)

    def l0c_bytes(self) -> int:
        """S and dP of a unit, dK and dV of the key block, dQ of a chunk, fp32."""
        return SINGLE_TILE * (2 * self.unit + 2 * self.keys * self.depth + self.chunk * self.depth)


BUDGETS = (
    ("UB", "ub_bytes", BackwardGeometry.ub_bytes),
    ("L1", "l1_bytes", BackwardGeometry.l1_bytes),
    ("L0A", "l0a_bytes", BackwardGeometry.l0a_bytes),
    ("L0B", "l0b_bytes", BackwardGeometry.l0b_bytes),
    ("L0C", "l0c_bytes", BackwardGeometry.l0c_bytes),
)
"""Memory, the field of Hardware with its size, and the kernel's bytes in it."""


def check(problem: AttentionProblem, plan: TilingPlan, hardware: Hardware) -> BackwardGeometry:
    """The plan's geometry on a chip, whatever its core split; O(1) in the shape.

    Raises PlanRejected, with numbers, where the kernel cannot follow the plan.
    """
    if problem.op != "flash_attention_grad":
        raise PlanRejected(f"the backward kernel does not compute op {problem.op}")
    if plan.slice_rows:
        raise PlanRejected("the backward kernel takes no slice_rows: it cuts its units by itself")
    check_problem(problem, plan, hardware)
    return geometry(problem, plan, hardware)


def geometry(problem: AttentionProblem, plan: TilingPlan, hardware: Hardware) -> BackwardGeometry:
    """Blocks cut into the fewest units that fit the chip. Raises PlanRejected where not even one tile does."""
    found: list[BackwardGeometry] = []
    smallest = _geometry(problem, plan, 1, 1)
    for part in _even_cuts(smallest.keys, MOST_PART):
        for chunk in _even_cuts(smallest.rows, MOST_CHUNK):
            candidate = _geometry(problem, plan, part, chunk)
            if not _over(candidate, hardware):
                found.append(candidate)
    if not found:
        over = "; ".join(_over(smallest, hardware))
        raise PlanRejected(f"blocks of {plan.Br} x {plan.Bc} do not fit: {over}")
    return min(found, key=lambda candidate: (candidate.units, -candidate.part))


def _even_cuts(tiles: int, most: int) -> list[int]:
    """Lengths that cut so many tiles evenly, give or take one."""
    return sorted({ceil_div(tiles, ceil_div(tiles, length)) for length in range(1, min(tiles, most) + 1)})


def _over(candidate: BackwardGeometry, hardware: Hardware) -> list[str]:
    return [
        f"{memory} needs {needed(candidate)} bytes, has {getattr(hardware, size)}"
        for memory, size, needed in BUDGETS
        if needed(candidate) > getattr(hardware, size)
    ]


def _geometry(problem: AttentionProblem, plan: TilingPlan, part: int, chunk: int) -> BackwardGeometry:
    scale, seen = Scale.of(problem.head_dim), borders(problem)
    return BackwardGeometry(
        rows=plan.Br // TILE,
        keys=plan.Bc // TILE,
        depth=pad(problem.head_dim) // TILE,
        part=part,
        chunk=chunk,
        buffers=2 if plan.double_buffer else 1,
        single_exp=plan.exp == "float32",
        mask=problem.attn_mask,
        mask_terms=scale.terms_of_mask(problem.attn_mask, seen),
        borders=seen,
        alibi_terms=len(scale.alibi_terms) if problem.alibi else 0,
        dropout=problem.dropout,
        exact=problem.high_precision,
    )
