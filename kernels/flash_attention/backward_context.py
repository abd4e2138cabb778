"""What every part of the backward kernel works with: global tensors, on-chip tensors, and the units of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.kernels.flash_attention.backward_plans import (
    FACTORS,
    LARGEST_LANES,
    BackwardGeometry,
    BackwardScale,
    Cut,
    cuts,
)
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS, Ring, Turns
from autotune.kernels.flash_attention.context import KeyBlock, QueryBlock
from autotune.plan import TILE, pad
from autotune.problem import AttentionProblem


@dataclass(frozen=True)
class BackwardGlobals:
    """Tensors in global memory: q, k, v, o, do and masks in NZ fp16, lse (heads, padded Nq) fp32, alibi (heads, padded
    N) fp16, gradients in NZ fp32. None where the problem lacks one.

    statistics, products: every core's own workspaces, for one head after another as many places as K and V have:
    (cores, places, padded Nq / 16, geometry.statistics, 16, 16) fp16, and where dP is fp32 (cores, places, padded Nq)
    fp32.
    """

    q: Any
    k: Any
    v: Any
    o: Any
    do: Any
    lse: Any
    mask: Any
    dropout: Any
    alibi: Any
    dq: Any
    dk: Any
    dv: Any
    statistics: Any
    products: Any


@dataclass(frozen=True)
class KeyTile:
    """A block of K and V in L1, [keys / 16][depth] tiles, and its ALiBi biases, first rows of a tile for 16 keys."""

    k: Any
    v: Any
    alibi: Any


@dataclass(frozen=True)
class QueryTile:
    """A piece of queries in L1: q, do [depth][queries][16], statistics [tiles][kinds][16][16], masks as loaded."""

    q: Any
    do: Any
    statistics: Any
    mask: Any
    dropout: Any


class BackwardBuffers:
    """Everything that lives as long as the kernel. tiles: a place for every piece of a query block."""

    def __init__(self, module: Any, tik: Any, geometry: BackwardGeometry) -> None:
        def tensor(dtype: str, tiles: int, scope: str, name: str) -> Any:
            return tik.Tensor(dtype, (tiles * TILE_ELEMENTS,), scope, name)

        def query_tile(piece: int, rows: int) -> QueryTile:
            def of(name: str, columns: int) -> Any:
                return tensor("float16", rows * columns, module.scope_cbuf, f"{name}_l1_{piece}") if columns else None

            return QueryTile(
                of("q", geometry.depth),
                of("do", geometry.depth),
                of("statistics", geometry.statistics),
                of("mask", geometry.keys * geometry.has_mask_tile),
                of("dropout", geometry.keys * geometry.dropout),
            )

        unit, kept = geometry.unit, geometry.keys * geometry.depth
        self.tiles = [query_tile(piece, rows) for piece, rows in enumerate(geometry.pieces)]

        def ring(name: str, columns: int) -> Ring:
            place = geometry.keys * columns
            return Ring(tensor("float16", geometry.buffers * place, module.scope_cbuf, name), geometry.buffers, place)

        self._k, self._v = ring("k_l1", geometry.depth), ring("v_l1", geometry.depth)
        self._alibi = ring("alibi_l1", 1) if geometry.alibi_terms else None
        self.p_l1, self.ds_l1 = (Turns(tik, "float16", unit, module.scope_cbuf, name) for name in ("p_l1", "ds_l1"))
        self.ones_l1 = tensor("float16", geometry.part, module.scope_cbuf, "ones_l1")
        left = max(geometry.part * geometry.depth, unit)
        self.left = Turns(tik, "float16", left, module.scope_ca, "left_l0a")
        self.ones = tensor("float16", geometry.part, module.scope_ca, "ones_l0a")
        self.right = Turns(tik, "float16", geometry.gradient, module.scope_cb, "right_l0b")
        self.terms = Turns(tik, "float16", geometry.chunk, module.scope_cb, "terms_l0b")
        self.s_cube, self.dp_cube = (tensor("float32", unit, module.scope_cc, name) for name in ("s_l0c", "dp_l0c"))
        self.dk, self.dv = (tensor("float32", kept, module.scope_cc, name) for name in ("dk_l0c", "dv_l0c"))
        self.dq = tensor("float32", geometry.chunk * geometry.depth, module.scope_cc, "dq_l0c")
        if geometry.single_exp:
            self.s = tensor("float32", unit, module.scope_ubuf, "s_ub")
        self.sums = tensor("float32", geometry.prepared, module.scope_ubuf, "sums_ub")
        self.p, self.ds = (Turns(tik, "float16", geometry.wide, module.scope_ubuf, name) for name in ("p_ub", "ds_ub"))
        self.gradient = Turns(tik, "float32", geometry.gradient, module.scope_ubuf, "gradient_ub")
        self.packed, self.rounded = (
            tik.Tensor("float32", (geometry.prepared * TILE,), module.scope_ubuf, name)
            for name in ("packed_ub", "rounded_ub")
        )
        if geometry.diagonals:
            self.diagonal_l1 = tensor("float16", geometry.diagonals, module.scope_cbuf, "diagonal_l1")
            self.diagonal = tensor("float16", geometry.diagonals, module.scope_cb, "diagonal_l0b")
        if geometry.strip_tiles:
            self.strip = tensor("float16", geometry.strip_tiles, module.scope_cbuf, "strip_l1")
        if geometry.alibi_terms:
            self.alibi_factor = tensor("float16", geometry.chunk, module.scope_cbuf, "alibi_factor_l1")
            self.alibi_cube = tensor("float16", geometry.chunk, module.scope_cb, "alibi_factor_l0b")
        if geometry.dropout:
            self.kept, self.kept_turned = (
                tensor("float16", unit, module.scope_ubuf, f"{name}_ub") for name in ("kept", "kept_turned")
            )
        if geometry.dropout and not geometry.exact:
            self.products = tik.Tensor("float16", (geometry.chunk * TILE,), module.scope_ubuf, "products_ub")
        if geometry.exact:
            self._for_exact_gradients(module, tik, geometry)

    def _for_exact_gradients(self, module: Any, tik: Any, geometry: BackwardGeometry) -> None:
        """factors: for each head in turn FACTORS rows of one number; scaled_by, dq_factor, dk_factor: its numbers."""

        def vector(dtype: str, elements: int, name: str) -> Any:
            return tik.Tensor(dtype, (elements,), module.scope_ubuf, f"{name}_ub")

        self.dp = vector("float32", geometry.unit * TILE_ELEMENTS, "dp")
        if geometry.dropout:
            self.kept_single = vector("float32", geometry.unit * TILE_ELEMENTS, "kept_single")
        self.products = vector("float32", geometry.chunk * TILE, "products")
        self.factors = vector("float32", geometry.buffers * FACTORS * TILE, "factors")
        self.scratch = vector("float16", LARGEST_LANES, "scratch")
        self.largest, self.found = vector("float16", TILE, "largest"), vector("float16", TILE, "found")
        self.bound, self.bound_work = vector("float32", TILE, "bound"), vector("float32", 2 * TILE, "bound_work")
        self.reciprocal = vector("float32", 2 * TILE, "reciprocal")
        names = ("scaled_by", "dq_factor", "dk_factor")
        self.scaled_by, self.dq_factor, self.dk_factor = (tik.Scalar("float32", name) for name in names)

    def key_tile(self, position: Any) -> KeyTile:
        """The place of the block of keys at a position, which may be symbolic."""
        return KeyTile(self._k.at(position), self._v.at(position), self._alibi and self._alibi.at(position))


@dataclass(frozen=True)
class BackwardContext:
    """The kernel being built. ``tik`` is its Tik container, ``core`` the number of the core that runs it."""

    tik: Any
    problem: AttentionProblem
    geometry: BackwardGeometry
    scale: BackwardScale
    globals: BackwardGlobals
    buffers: BackwardBuffers
    core: Any


@dataclass(frozen=True)
class Unit:
    """A part of the keys by a chunk of the queries.

    keys: the block of keys, which lies in key_tile. piece: number of the piece of the query block that the chunk is cut
    from; queries: that piece; tile: where it lies.
    first_of_part, last_of_chunk, last_of_piece: its place among the units of a query block.
    """

    keys: KeyBlock
    key_tile: KeyTile
    piece: int
    queries: QueryBlock
    tile: QueryTile
    part: Cut
    chunk: Cut
    first_of_part: bool
    last_of_chunk: bool
    last_of_piece: bool

    @property
    def tiles(self) -> int:
        """Tiles of scores."""
        return self.part.tiles * self.chunk.tiles


def statistics_of(context: BackwardContext, head: Any, first: Any, kind: int = 0) -> Any:
    """The fractal of a kind in the core's workspace for a tile of a head's queries; may be symbolic."""
    places, kinds = context.geometry.buffers, context.geometry.statistics
    place = context.core * places + (head % places if places > 1 else 0)
    index = (place * (pad(context.problem.Nq) // TILE) + first) * kinds + kind
    return context.globals.statistics[index * TILE_ELEMENTS]


def products_of(context: BackwardContext, head: Any, first: Any) -> Any:
    """The fp32 number of the core's workspace for the first query of a tile of a head; may be symbolic."""
    places = context.geometry.buffers
    place = context.core * places + (head % places if places > 1 else 0)
    return context.globals.products[place * pad(context.problem.Nq) + first * TILE]


def pieces(context: BackwardContext, block: QueryBlock) -> list[QueryBlock]:
    """A query block cut into what is loaded at a time."""
    return [
        QueryBlock(block.head, block.first + cut.first, cut.tiles, cut.tokens)
        for cut in cuts(block.queries, context.geometry.piece)
    ]


def units(context: BackwardContext, block: QueryBlock, keys: KeyBlock, key_tile: KeyTile) -> list[Unit]:
    """The units of a query block by a key block, chunk after chunk."""
    geometry = context.geometry
    return [
        Unit(
            keys,
            key_tile,
            piece,
            queries,
            context.buffers.tiles[piece],
            part,
            chunk,
            first_of_part=piece == chunk.index == 0,
            last_of_chunk=part.first + part.tiles == keys.tiles,
            last_of_piece=(part.first + part.tiles, chunk.first + chunk.tiles) == (keys.tiles, queries.tiles),
        )
        for piece, queries in enumerate(pieces(context, block))
        for chunk in cuts(queries.queries, geometry.chunk)
        for part in cuts(keys.keys, geometry.part)
    ]
