"""What every part of the forward kernel works with, and the moves between global memory and the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.kernels.flash_attention.buffers import Buffers
from autotune.kernels.flash_attention.plans import Geometry, Scale
from autotune.plan import TILE, pad
from autotune.problem import AttentionProblem

MOST_GAP = 65535
"""Largest gap between two bursts of a move, in 32-byte blocks."""


@dataclass(frozen=True)
class Globals:
    """Tensors in global memory: q, k, v, o and the masks in NZ fp16, lse (heads, padded Nq) in fp32, alibi in fp16
    (heads, padded N). None where the problem lacks one."""

    q: Any
    k: Any
    v: Any
    mask: Any
    dropout: Any
    alibi: Any
    o: Any
    lse: Any


@dataclass(frozen=True)
class Context:
    """The kernel being built. ``tik`` is its Tik container."""

    tik: Any
    problem: AttentionProblem
    geometry: Geometry
    scale: Scale
    globals: Globals
    buffers: Buffers


@dataclass(frozen=True)
class QuerySlice:
    """Queries of a block that the vector unit takes at a time.

    index: counts the slices of the block; offset: its first tile in the block, which has ``block_tiles``. head and
    first (its first tile in the head) may be symbolic; queries counts real ones.
    """

    index: int
    offset: int
    head: Any
    first: Any
    tiles: int
    queries: int
    block_tiles: int


@dataclass(frozen=True)
class QueryBlock:
    """Some queries of one head. head and first (its first tile) may be symbolic; queries counts real ones."""

    head: Any
    first: Any
    tiles: int
    queries: int

    def slices(self, geometry: Geometry) -> list[QuerySlice]:
        """The block's slices, in order."""
        return [
            QuerySlice(
                index,
                offset,
                self.head,
                self.first + offset,
                tiles,
                min(tiles * TILE, self.queries - offset * TILE),
                self.tiles,
            )
            for index, (offset, tiles) in enumerate(geometry.slices(self.tiles))
        ]


@dataclass(frozen=True)
class KeyBlock:
    """Some keys. first (its first tile) and number (which block it is) may be symbolic; keys counts real ones."""

    first: Any
    keys: int
    number: Any = 0

    @property
    def tiles(self) -> int:
        """Tiles of 16 keys, the last one perhaps padded."""
        return pad(self.keys) // TILE


def load(tik: Any, target: Any, source: Any, start: Any, strips: int, length: int, rows: int) -> None:
    """Cuts ``rows`` rows of 16 out of each of some strips of ``length`` rows in global memory, from row ``start`` on.

    The target is packed: [strips][rows][16].
    """
    if length - rows <= MOST_GAP:
        tik.data_move(target, source[start * TILE], 0, strips, rows, length - rows, 0)
        return
    for strip in range(strips):
        tik.data_move(target[strip * rows * TILE], source[(start + strip * length) * TILE], 0, 1, rows, 0, 0)


def store(
    tik: Any, target: Any, start: Any, source: Any, strips: int, length: int, rows: int, row_blocks: int = 1
) -> None:
    """The inverse of ``load``. row_blocks: 32-byte blocks of a row, 1 in fp16 and 2 in fp32."""
    burst, gap = rows * row_blocks, (length - rows) * row_blocks
    if gap <= MOST_GAP:
        tik.data_move(target[start * TILE], source, 0, strips, burst, 0, gap)
        return
    for strip in range(strips):
        tik.data_move(target[(start + strip * length) * TILE], source[strip * rows * TILE], 0, 1, burst, 0, 0)
