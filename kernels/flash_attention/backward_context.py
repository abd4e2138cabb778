"""What every part of the backward kernel works with: global tensors, on-chip tensors, and the units of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autotune.kernels.flash_attention.backward_plans import STATISTICS, BackwardGeometry, Cut, cuts
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS, Turns
from autotune.kernels.flash_attention.context import KeyBlock, QueryBlock
from autotune.kernels.flash_attention.plans import Scale
from autotune.plan import TILE
from autotune.problem import AttentionProblem


@dataclass(frozen=True)
class BackwardGlobals:
    """Tensors in global memory: q, k, v, o, do and mask in NZ fp16, lse (heads, padded Nq) fp32, gradients in NZ fp32.

    statistics: every core's own workspace, (cores, padded Nq / 16, STATISTICS, 16, 16) fp16.
    """

    q: Any
    k: Any
    v: Any
    o: Any
    do: Any
    lse: Any
    mask: Any
    dq: Any
    dk: Any
    dv: Any
    statistics: Any


@dataclass(frozen=True)
class QueryTile:
    """A block of queries in L1: q, do [depth][queries][16], statistics [tiles][STATISTICS][16][16], mask as loaded."""

    q: Any
    do: Any
    statistics: Any
    mask: Any


class BackwardBuffers:
    """Everything that lives as long as the kernel. k and v are packed by parts: per part [depth][keys][16]."""

    def __init__(self, module: Any, tik: Any, geometry: BackwardGeometry) -> None:
        self._l1 = module.scope_cbuf

        def tensor(dtype: str, tiles: int, scope: str, name: str) -> Any:
            return tik.Tensor(dtype, (tiles * TILE_ELEMENTS,), scope, name)

        unit, kept = geometry.unit, geometry.keys * geometry.depth
        self.k, self.v = (tensor("float16", kept, module.scope_cbuf, name) for name in ("k_l1", "v_l1"))
        self.p_l1, self.ds_l1 = (Turns(tik, "float16", unit, module.scope_cbuf, name) for name in ("p_l1", "ds_l1"))
        self.ones_l1 = tensor("float16", geometry.part, module.scope_cbuf, "ones_l1")
        left = max(geometry.part * geometry.depth, unit)
        self.left = Turns(tik, "float16", left, module.scope_ca, "left_l0a")
        self.ones = tensor("float16", geometry.part, module.scope_ca, "ones_l0a")
        self.right = Turns(tik, "float16", geometry.gradient, module.scope_cb, "right_l0b")
        self.s_cube = Turns(tik, "float32", unit, module.scope_cc, "s_l0c")
        self.dp_cube = Turns(tik, "float32", unit, module.scope_cc, "dp_l0c")
        self.dk, self.dv = (tensor("float32", kept, module.scope_cc, name) for name in ("dk_l0c", "dv_l0c"))
        self.dq = tensor("float32", geometry.chunk * geometry.depth, module.scope_cc, "dq_l0c")
        self.s = tensor("float32", geometry.wide, module.scope_ubuf, "s_ub")
        self.p, self.ds = (Turns(tik, "float16", geometry.wide, module.scope_ubuf, name) for name in ("p_ub", "ds_ub"))
        self.gradient = tensor("float32", geometry.gradient, module.scope_ubuf, "gradient_ub")
        self.packed, self.rounded = (
            tik.Tensor("float32", (geometry.prepared * TILE,), module.scope_ubuf, name)
            for name in ("packed_ub", "rounded_ub")
        )
        if geometry.mask_terms:
            self.diagonal_l1 = tensor("float16", geometry.mask_terms, module.scope_cbuf, "diagonal_l1")
            self.diagonal = tensor("float16", geometry.mask_terms, module.scope_cb, "diagonal_l0b")
        if geometry.strip:
            self.strip = tensor("float16", geometry.strip, module.scope_cbuf, "strip_l1")

    def query_tile(self, tik: Any, geometry: BackwardGeometry) -> QueryTile:
        """A place for one block of queries, in the innermost open scope."""

        def tensor(fractals: int, name: str) -> Any:
            return tik.Tensor("float16", (fractals * TILE_ELEMENTS,), self._l1, name)

        rows = geometry.rows
        q, do = (tensor(rows * geometry.depth, name) for name in ("q_l1", "do_l1"))
        mask = tensor(rows * geometry.keys, "mask_l1") if geometry.has_mask_tile else None
        return QueryTile(q, do, tensor(rows * STATISTICS, "statistics_l1"), mask)


@dataclass(frozen=True)
class BackwardContext:
    """The kernel being built. ``tik`` is its Tik container, ``core`` the number of the core that runs it."""

    tik: Any
    problem: AttentionProblem
    geometry: BackwardGeometry
    scale: Scale
    globals: BackwardGlobals
    buffers: BackwardBuffers
    core: Any


@dataclass(frozen=True)
class Unit:
    """A part of the keys by a chunk of the queries, and the buffers of L0C where the cube leaves its S^T and dP^T.

    Both are [queries / 16][keys][16]: queries lie on the 16-lane axis.
    """

    part: Cut
    chunk: Cut
    last_of_chunk: bool
    s: Any
    dp: Any

    @property
    def tiles(self) -> int:
        """Tiles of scores."""
        return self.part.tiles * self.chunk.tiles


def units(context: BackwardContext, block: QueryBlock, keys: KeyBlock) -> Iterator[Unit]:
    """The units of a query block by a key block, chunk after chunk."""
    parts = list(cuts(keys.keys, context.geometry.part))
    for chunk in cuts(block.queries, context.geometry.chunk):
        for part in parts:
            buffers = context.buffers
            yield Unit(part, chunk, part is parts[-1], buffers.s_cube.next(), buffers.dp_cube.next())
