"""The on-chip tensors of the forward kernel, sized by plans.Geometry."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import Any

from autotune.kernels.flash_attention.plans import ROW_VECTORS, Geometry
from autotune.plan import TILE

TILE_ELEMENTS = TILE * TILE


class Turns:
    """Two tensors of one size, used in turn, so that one is filled while the other is read."""

    def __init__(self, tik: Any, dtype: str, tiles: int, scope: str, name: str) -> None:
        pair = [tik.Tensor(dtype, (tiles * TILE_ELEMENTS,), scope, f"{name}_{turn}") for turn in range(2)]
        self._turns = cycle(pair)

    def next(self) -> Any:
        """The tensor that was not used last."""
        return next(self._turns)


@dataclass(frozen=True)
class KeyTile:
    """A block of K and its mask, [depth][keys x 16][16] and [keys][rows x 16][16], fp16 in L1."""

    k: Any
    mask: Any


class Buffers:
    """Everything that lives as long as the kernel: see docs/kernels.md for the layouts."""

    def __init__(self, module: Any, tik: Any, geometry: Geometry) -> None:
        rows, keys, depth, chunk = geometry.rows, geometry.keys, geometry.depth, geometry.chunk
        self._l1 = module.scope_cbuf

        def tensor(dtype: str, tiles: int, scope: str, name: str) -> Any:
            return tik.Tensor(dtype, (tiles * TILE_ELEMENTS,), scope, name)

        def chunks(dtype: str, scope: str, name: str) -> list[Any]:
            cut = geometry.chunks(keys * TILE)
            return [tensor(dtype, rows * part.tiles, scope, f"{name}_{part.index}") for part in cut]

        self.q = tensor("float16", rows * depth, module.scope_cbuf, "q_l1")
        self.p = chunks("float16", module.scope_cbuf, "p_l1")
        self.ones = tensor("float16", chunk, module.scope_cbuf, "ones_l1")
        self.left = Turns(tik, "float16", (depth + 1) * chunk, module.scope_ca, "left_l0a")
        self.right = Turns(tik, "float16", rows * chunk, module.scope_cb, "right_l0b")
        self.q_cube = tensor("float16", rows * geometry.part, module.scope_cb, "q_l0b")
        self.s_cube = chunks("float32", module.scope_cc, "s_l0c")
        self.o_cube = tensor("float32", rows * (depth + 1), module.scope_cc, "o_l0c")
        self.s = chunks("float32", module.scope_ubuf, "s_ub")
        self.o = tensor("float32", rows * (depth + 1), module.scope_ubuf, "o_ub")
        self.half = Turns(tik, "float16", rows * chunk, module.scope_ubuf, "half_ub")
        self.scratch = tensor("float32", rows * geometry.scratch_slabs, module.scope_ubuf, "scratch_ub")
        self.peak, self.new_peak, self.decay = (
            tik.Tensor("float32", (rows * TILE,), module.scope_ubuf, f"{name}_ub") for name in ROW_VECTORS
        )
        if geometry.mask_terms:
            self.diagonal_l1 = tensor("float16", geometry.mask_terms, module.scope_cbuf, "diagonal_l1")
            self.diagonal = tensor("float16", geometry.mask_terms, module.scope_cb, "diagonal_l0b")
        if geometry.strip:
            self.strip = tensor("float16", geometry.strip, module.scope_cbuf, "strip_l1")

    def key_tile(self, tik: Any, geometry: Geometry) -> KeyTile:
        """A place for K and mask of one block, in the innermost open scope."""
        k = self.value_tile(tik, geometry, "k_l1")
        mask = None
        if geometry.has_mask_tile:
            mask = tik.Tensor("float16", (geometry.rows * geometry.keys * TILE_ELEMENTS,), self._l1, "mask_l1")
        return KeyTile(k, mask)

    def value_tile(self, tik: Any, geometry: Geometry, name: str = "v_l1") -> Any:
        """A place for V (or K) of one block, [depth][keys x 16][16], in the innermost open scope."""
        return tik.Tensor("float16", (geometry.depth * geometry.keys * TILE_ELEMENTS,), self._l1, name)
