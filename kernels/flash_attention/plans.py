"""What a tiling plan means to the forward kernel: block geometry, bytes of every memory, and what is refused.

The kernel works in 16 x 16 tiles. A block is ``rows`` tiles of queries by ``keys`` tiles of keys; inside a block the
cube and the vector unit hand each other chunks of ``chunk`` tiles of keys. A *slab* is one tile of keys (or of head
dimension) for all queries of a block: rows x 16 x 16 elements. docs/kernels.md says what lies where and why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from autotune.errors import PlanError, PlanRejected
from autotune.hardware import Hardware
from autotune.kernels.flash_attention.windows import Border, Strip, borders, strips
from autotune.plan import TILE, TilingPlan, ceil_div, pad
from autotune.problem import AttentionProblem

HALF_TILE, SINGLE_TILE = 512, 1024
"""Bytes of a 16 x 16 tile in fp16 and fp32."""
FEWEST_CHUNKS = 2
"""Chunks that a block is cut into where it can be, so that cube and vector unit work side by side."""
MOST_CHUNK_TILES = 8
"""Longest chunk, in tiles: with 128 keys instructions are long and buffers still small."""
MASK_VALUE = -10000.0
"""Added to a masked score."""
HIDDEN = 65504.0
"""Largest fp16 number: a score outside a window gets its square taken off by the cube, which leaves nothing of it."""
MOST_ELEMENTS = (1 << 31) - 1
"""Largest tensor whose elements a 32-bit address expression can count."""
MASK_TENSORS = ("full", "shared")
"""Masks that are tensors."""
HALF_REFUSES = MASK_TENSORS
"""Masks that a plan with fp16 scores is refused for: they may hide all of one key block from a query, whose scores in
the next then differ from the reference by 10000, where fp16 has only multiples of 8."""
WITHOUT_SINGLE_EXP = ("Ascend310",)
"""Chips whose vec_exp takes fp16 only (tik_api.md 5.1, item 3): the softmax here is fp32."""


@dataclass(frozen=True)
class Chunk:
    """Some keys of a block: the chunk's number, its first tile, its tiles, and its real keys (padding left out)."""

    index: int
    first: int
    tiles: int
    keys: int


@dataclass(frozen=True)
class Geometry:
    """A block in tiles of 16, and the bytes it takes.

    rows: Br / 16. slice: tiles of queries that the vector unit takes at a time. keys: Bc / 16. depth: padded head
    dimension / 16. chunk: tiles of keys handed over at a time. ring: chunks of scores that L0C holds. part: tiles of
    the head dimension of Q that L0B holds, all of them where there is room. buffers: K/V buffers in turn. mask: none,
    full, shared or causal. mask_terms: fp16 terms of the mask's value. borders: of the keys that queries see. looped:
    whether some key block is whole, so that there is a loop over blocks. half: whether scores and the exponential are
    fp16. alibi_terms: fp16 terms of what multiplies the ALiBi biases, 0 without them. dropout: whether probabilities
    are multiplied by a mask.
    """

    rows: int
    slice: int
    keys: int
    depth: int
    chunk: int
    ring: int
    part: int
    buffers: int
    mask: str
    mask_terms: int
    borders: tuple[Border, ...]
    looped: bool
    half: bool
    alibi_terms: int = 0
    dropout: bool = False

    @property
    def has_mask_tile(self) -> bool:
        """Whether a tile of the mask is loaded with every key block."""
        return self.mask in MASK_TENSORS

    @property
    def strips(self) -> list[Strip]:
        """One for each border. A block lies to either side of one that crosses it, but for queries after all keys of
        their window, which lie a tile further."""
        reach = self.keys + self.rows - 2
        return strips(self.borders, reach, above=reach, below=reach + 1)

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

    @property
    def score_tile(self) -> int:
        """Bytes of a tile of scores in UB."""
        return HALF_TILE if self.half else SINGLE_TILE

    def chunks(self, keys: int) -> list[Chunk]:
        """The chunks of a block of so many real keys."""
        tiles = ceil_div(keys, TILE)
        counts = [(first, min(self.chunk, tiles - first)) for first in range(0, tiles, self.chunk)]
        return [
            Chunk(index, first, count, min(count * TILE, keys - first * TILE))
            for index, (first, count) in enumerate(counts)
        ]

    def slices(self, tiles: int) -> list[tuple[int, int]]:
        """(first tile, tiles) of the slices of a block of so many tiles of queries."""
        return [(first, min(self.slice, tiles - first)) for first in range(0, tiles, self.slice)]

    @property
    def largest_tiles(self) -> int:
        """Tiles of the largest scores of a chunk of a slice; one for each of the block starts fp16 scores."""
        return max(self.passing_tiles, self.rows) if self.half else self.slice * self.chunk

    @property
    def passing_tiles(self) -> int:
        """fp16 tiles in passing: a chunk of P, or the output of one tile of queries and its row sums."""
        return max(self.slice * self.chunk, self.depth + 1)

    @property
    def fold_tiles(self) -> int:
        """Tiles to fold one tile of keys in: two for each tile of a slice, one for each of the block."""
        return max(2 * self.slice, self.rows)

    def ub_bytes(self) -> int:
        """Scores of a slice, largest scores of a chunk, P or O in passing, output in fp32, and numbers per query."""
        scores = self.slice * self.keys + self.largest_tiles + self.fold_tiles
        passing = HALF_TILE * self.passing_tiles * (1 if self.half else 2)
        vectors = sum(vector.bytes(self) for vector in ROW_VECTORS)
        if self.dropout:  # a chunk of the mask, as it comes and transposed
            passing += HALF_TILE * 2 * self.slice * self.chunk
        return self.score_tile * scores + passing + SINGLE_TILE * self.rows * (self.depth + 1) + vectors

    def l1_bytes(self) -> int:
        """Q of a block twice, P of a slice, constant ones, strips and diagonals, and K, mask and V of key blocks."""
        kept = 2 * self.rows * self.depth + self.slice * self.keys + self.chunk + self.strip_tiles + self.diagonals
        kept += self.rows if self.half else 0
        kept += self.slice * self.keys if self.dropout else 0
        kept += self.slice if self.alibi_terms else 0
        key_tile = 2 * self.depth * self.keys + self.rows * self.keys * (self.has_mask_tile + self.dropout)
        key_tile += self.keys if self.alibi_terms else 0
        return HALF_TILE * (kept + self.buffers * key_tile)

    def l0a_bytes(self) -> int:
        """Two operands [1 | V]^T of the output's product, each a chunk."""
        return 2 * HALF_TILE * (self.depth + 1) * self.chunk

    def l0b_bytes(self) -> int:
        """Two operands P^T of the output's product, each a chunk, Q^T, -base, and diagonals."""
        held = 2 * self.chunk + self.part + int(self.half) + int(self.alibi_terms > 0)
        return HALF_TILE * (self.slice * held + self.diagonals)

    def l0c_bytes(self) -> int:
        """A ring of chunks of scores, the output of a slice and, with dropout, its row sums apart, fp32."""
        return SINGLE_TILE * self.slice * (self.ring * self.chunk + self.depth + 1 + int(self.dropout))


@dataclass(frozen=True)
class RowVector:
    """Numbers kept in UB for every query of a block (or only of a slice); ``half`` ones for fp16 scores alone."""

    name: str
    dtype: str = "float32"
    whole_block: bool = False
    half: bool = False
    copies: int = 1

    def elements(self, geometry: Geometry) -> int:
        """0 where the vector is not needed."""
        tiles = geometry.rows if self.whole_block else geometry.slice
        return tiles * TILE * self.copies if geometry.half or not self.half else 0

    def bytes(self, geometry: Geometry) -> int:
        """Bytes in UB."""
        return self.elements(geometry) * (2 if self.dtype == "float16" else 4)


ROW_VECTORS = (
    RowVector("peak", whole_block=True),
    RowVector("base", whole_block=True, half=True),
    RowVector("new_peak"),
    RowVector("decay"),
    RowVector("work", copies=2),
    RowVector("growth", "float16", whole_block=True, half=True),
    RowVector("negated", "float16", whole_block=True, half=True),
)
"""Running maximum; what the scores of the next block lack; new maximum; what the old output shrinks by; scratch of a
division; by what the maximum grows, in fp16; -base in fp16."""


BUDGETS = (
    ("UB", "ub_bytes", Geometry.ub_bytes),
    ("L1", "l1_bytes", Geometry.l1_bytes),
    ("L0A", "l0a_bytes", Geometry.l0a_bytes),
    ("L0B", "l0b_bytes", Geometry.l0b_bytes),
    ("L0C", "l0c_bytes", Geometry.l0c_bytes),
)
"""Memory, the field of Hardware with its size, and the kernel's bytes in it."""

Refusals = tuple[tuple[Callable[[AttentionProblem], bool], str], ...]

NOT_DONE: Refusals = ((lambda problem: problem.dtype != "float16", "data types other than float16"),)
"""What a problem may ask for that no kernel for NPUs here computes."""


@dataclass(frozen=True)
class Scale:
    """1 / sqrt(head_dim) = exact * rest. ``exact`` is a power of two, so Q times it loses nothing in fp16.

    ``rest``, over 0.5 and at most 1, multiplies fp32 scores inside the softmax. mask_terms: fp16 numbers whose sum,
    times ``rest``, is the mask's value: they are added to scores that still lack ``rest``. alibi_terms: likewise for 1.
    """

    exact: float
    rest: float
    mask_terms: tuple[float, ...]
    alibi_terms: tuple[float, ...]

    @classmethod
    def of(cls, head_dim: int, half: bool = False) -> Scale:
        """The scale of a head dimension; for fp16 scores all of it goes into Q, which then is rounded once more."""
        if half:
            return cls(1 / math.sqrt(head_dim), 1.0, (MASK_VALUE,), (1.0,))
        mantissa, exponent = math.frexp(1 / math.sqrt(head_dim))
        exact = 2.0**exponent if mantissa > 0.5 else 2.0 ** (exponent - 1)
        rest = 1 / math.sqrt(head_dim) / exact
        return cls(exact, rest, _half_terms(MASK_VALUE / rest), _half_terms(1 / rest))

    def terms_of_mask(self, attn_mask: str, borders: tuple[Border, ...]) -> int:
        """Terms of the mask's value that a problem needs: a causal mask beside a window is a border that hides."""
        needed = attn_mask in MASK_TENSORS or any(not border.hides for border in borders)
        return len(self.mask_terms) if needed else 0


def _half_terms(value: float) -> tuple[float, ...]:
    """fp16 numbers, one or two, whose sum is a value to 22 bits."""
    high = float(np.float16(value))
    low = float(np.float16(value - high))
    return (high, low) if low else (high,)


def check(problem: AttentionProblem, plan: TilingPlan, hardware: Hardware) -> Geometry:
    """The plan's geometry on a chip, whatever its core split; O(1) in the shape.

    Raises PlanRejected, with numbers, where the kernel cannot follow the plan.
    """
    if problem.op != "flash_attention":
        raise PlanRejected(f"the forward kernel does not compute op {problem.op}")
    if plan.exp == "float16" and problem.attn_mask in HALF_REFUSES:
        raise PlanRejected(f"an fp16 exponential cannot follow the mask {problem.attn_mask!r}: use exp=float32")
    if plan.exp == "float16" and (problem.window or problem.block_window):
        raise PlanRejected("an fp16 exponential cannot follow a window: use exp=float32")
    check_problem(problem, plan, hardware)
    return geometry(problem, plan, hardware)


def check_problem(problem: AttentionProblem, plan: TilingPlan, hardware: Hardware) -> None:
    """Raises PlanRejected for what neither kernel, forward or backward, computes on a chip."""
    for asked, what in NOT_DONE:
        if asked(problem):
            raise PlanRejected(f"no kernel for NPUs computes {what}")
    if hardware.name in WITHOUT_SINGLE_EXP:
        raise PlanRejected(f"{hardware.name} has no fp32 exponential, which the softmax of this kernel needs")
    try:
        plan.check_lengths(problem)
    except PlanError as error:
        raise PlanRejected(str(error)) from error
    if problem.high_precision and plan.exp == "float16":
        raise PlanRejected("high_precision needs exp=float32")
    _check_addresses(problem)


def geometry(problem: AttentionProblem, plan: TilingPlan, hardware: Hardware) -> Geometry:
    """Blocks with the longest chunk that fits the chip. Raises PlanRejected where not even one tile does."""
    keys = min(problem.N, plan.Bc + 1)  # of longer keys it only matters that they are longer
    form = _Form(problem.head_dim, keys, problem.attn_mask, borders(problem), problem.alibi, problem.dropout)
    return _fitting(form, plan, hardware)


class _Form(NamedTuple):
    """What of a problem decides how its blocks lie in memory."""

    head_dim: int
    N: int
    attn_mask: str
    borders: tuple[Border, ...]
    alibi: bool
    dropout: bool


@lru_cache(maxsize=1024)  # a service asks again and again, at other lengths
def _fitting(problem: _Form, plan: TilingPlan, hardware: Hardware) -> Geometry:
    keys = plan.Bc // TILE
    for chunk in range(min(ceil_div(keys, FEWEST_CHUNKS), MOST_CHUNK_TILES), 0, -1):
        even_chunk = ceil_div(keys, ceil_div(keys, chunk))
        found = _geometry(problem, plan, even_chunk, hardware)
        over = [
            f"{memory} needs {needed(found)} bytes, has {getattr(hardware, size)}"
            for memory, size, needed in BUDGETS
            if needed(found) > getattr(hardware, size)
        ]
        if not over:
            return found
    raise PlanRejected(f"blocks of {plan.Br} x {plan.Bc} do not fit: {'; '.join(over)}")


def _geometry(problem: _Form, plan: TilingPlan, chunk: int, hardware: Hardware) -> Geometry:
    keys, depth, half = plan.Bc // TILE, pad(problem.head_dim) // TILE, plan.exp == "float16"
    rows = plan.Br // TILE
    height = min(rows, plan.slice_rows // TILE or rows)
    scale = Scale.of(problem.head_dim, half)
    mask_terms = scale.terms_of_mask(problem.attn_mask, problem.borders)
    diagonals = mask_terms + int(any(border.hides for border in problem.borders))
    room = (hardware.l0b_bytes // HALF_TILE - diagonals) // height - 2 * chunk - int(half) - int(problem.alibi)
    parts = ceil_div(depth, max(1, min(depth, room)))
    ring = (hardware.l0c_bytes // SINGLE_TILE // height - depth - 1 - int(problem.dropout)) // chunk
    return Geometry(
        rows=rows,
        slice=height,
        keys=keys,
        depth=depth,
        chunk=chunk,
        ring=max(1, min(ring, ceil_div(keys, chunk))),
        part=ceil_div(depth, parts),
        buffers=2 if plan.double_buffer and plan.Bc < problem.N else 1,
        mask=problem.attn_mask,
        mask_terms=mask_terms,
        borders=problem.borders,
        looped=plan.Bc <= problem.N,
        half=half,
        alibi_terms=len(scale.alibi_terms) if problem.alibi else 0,
        dropout=problem.dropout,
    )


def _check_addresses(problem: AttentionProblem) -> None:
    padded = {"q and o": pad(problem.Nq), "k and v": pad(problem.N)}
    sizes = {name: problem.heads_total * length * pad(problem.head_dim) for name, length in padded.items()}
    if problem.attn_mask in MASK_TENSORS:
        sizes["attn_mask"] = problem.batch * pad(problem.Nq) * pad(problem.N)
    if problem.dropout:
        sizes["dropout_mask"] = problem.heads_total * pad(problem.Nq) * pad(problem.N)
    for name, elements in sizes.items():
        if elements > MOST_ELEMENTS:
            raise PlanRejected(f"{name} has {elements} elements, addresses of this kernel reach {MOST_ELEMENTS}")


def check_work(problem: AttentionProblem, plan: TilingPlan) -> None:
    """Raises PlanRejected unless the core split's work is every row block (backward: key block) of every head, once."""
    split = plan.core_split
    if len(split.work) != split.block_num:
        raise PlanRejected(f"the core split names work for {len(split.work)} cores, block_num is {split.block_num}")
    blocks, name = plan.dealt_blocks(problem), "key block" if problem.op == "flash_attention_grad" else "row block"
    due = problem.heads_total * blocks
    done = 0
    for start, stop in sorted(run for runs in work_runs(plan, blocks) for run in runs):
        if start != done:
            raise PlanRejected(f"{name} {min(start, done)} of {due} is computed by no core or by two")
        done = stop
    if done != due:
        raise PlanRejected(f"the core split covers {done} {name}s, the problem has {due}")


def work_runs(plan: TilingPlan, blocks: int) -> list[list[tuple[int, int]]]:
    """Per core, its runs of blocks (start, stop), counted through all heads of so many; neighbours are joined."""
    cores = []
    for ranges in plan.core_split.work:
        runs: list[tuple[int, int]] = []
        for head, first, end in ranges:
            start, stop = head * blocks + first, head * blocks + end
            if runs and runs[-1][1] == start:
                start = runs.pop()[0]
            if stop > start:
                runs.append((start, stop))
        cores.append(runs)
    return cores
