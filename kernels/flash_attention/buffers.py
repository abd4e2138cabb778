"""The on-chip tensors of the forward kernel, sized by plans.Geometry."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from autotune.kernels.flash_attention.plans import ROW_VECTORS, Geometry
from autotune.plan import TILE

TILE_ELEMENTS = TILE * TILE


class Turns:
    """Tensors of one size, used in turn, so that one is filled while the other is read: two new ones of some tiles."""

    def __init__(self, tik: Any, dtype: str, tiles: int, scope: str, name: str) -> None:
        pair = [tik.Tensor(dtype, (tiles * TILE_ELEMENTS,), scope, f"{name}_{turn}") for turn in range(2)]
        self._turns = cycle(pair)

    @classmethod
    def of(cls, *tensors: Any) -> Turns:
        """Tensors that there are."""
        turns = cls.__new__(cls)
        turns._turns = cycle(tensors)
        return turns

    def next(self) -> Any:
        """The tensor that was not used last."""
        return next(self._turns)


class Ring:
    """Places of one size in one tensor, in turn, for a number that may be symbolic."""

    def __init__(self, tensor: Any, places: int, tiles: int) -> None:
        self._tensor, self._places, self._tiles = tensor, places, tiles

    def at(self, number: Any) -> Place:
        """The place of a number's turn."""
        turn = number % self._places if self._places > 1 else 0
        return Place(self._tensor, turn * (self._tiles * TILE_ELEMENTS))


class Place:
    """Part of a tensor from an element on, which may be symbolic."""

    def __init__(self, tensor: Any, start: Any) -> None:
        self._tensor, self._start = tensor, start

    def __getitem__(self, element: int) -> Any:
        return self._tensor[self._start + element]


class Buffers:
    """Everything that lives as long as the kernel: see docs/kernels.md for the layouts."""

    def __init__(self, module: Any, tik: Any, geometry: Geometry) -> None:
        rows, keys, depth, chunk = geometry.rows, geometry.keys, geometry.depth, geometry.chunk
        height, scores = geometry.slice, "float16" if geometry.half else "float32"

        def tensor(dtype: str, tiles: int, scope: str, name: str) -> Any:
            return tik.Tensor(dtype, (tiles * TILE_ELEMENTS,), scope, name)

        def chunks(dtype: str, scope: str, name: str) -> list[Any]:
            cut = geometry.chunks(keys * TILE)
            return [tensor(dtype, height * part.tiles, scope, f"{name}_{part.index}") for part in cut]

        def ring(tiles: int, name: str) -> Ring:
            whole = tensor("float16", geometry.buffers * tiles, module.scope_cbuf, name)
            return Ring(whole, geometry.buffers, tiles)

        self.q_raw = tensor("float16", rows * depth, module.scope_cbuf, "q_raw_l1")
        self.q = tensor("float16", rows * depth, module.scope_cbuf, "q_l1")
        self.k, self.v = ring(depth * keys, "k_l1"), ring(depth * keys, "v_l1")
        self.p = chunks("float16", module.scope_cbuf, "p_l1")
        self.ones = tensor("float16", chunk, module.scope_cbuf, "ones_l1")
        self.left = Turns(tik, "float16", (depth + 1) * chunk, module.scope_ca, "left_l0a")
        self.right = Turns(tik, "float16", height * chunk, module.scope_cb, "right_l0b")
        self.q_cube = tensor("float16", height * geometry.part, module.scope_cb, "q_l0b")
        self.s_cube = [tensor("float32", height * chunk, module.scope_cc, f"s_l0c_{i}") for i in range(geometry.ring)]
        self.o_cube = tensor("float32", height * (depth + 1), module.scope_cc, "o_l0c")
        self.s = chunks(scores, module.scope_ubuf, "s_ub")
        self.o = [
            tensor("float32", tiles * (depth + 1), module.scope_ubuf, f"o_ub_{first}")
            for first, tiles in geometry.slices(rows)
        ]
        self.largest = tensor(scores, geometry.largest_tiles, module.scope_ubuf, "largest_ub")
        self.fold = tensor(scores, geometry.fold_tiles, module.scope_ubuf, "fold_ub")
        if geometry.half:
            self.half = Turns.of(self.largest, tensor("float16", geometry.passing_tiles, module.scope_ubuf, "half_ub"))
            self.base_l1 = tensor("float16", rows, module.scope_cbuf, "base_l1")
            self.base_cube = tensor("float16", height, module.scope_cb, "base_l0b")
        else:
            self.half = Turns(tik, "float16", geometry.passing_tiles, module.scope_ubuf, "half_ub")
        self.vectors = {
            vector.name: tik.Tensor(vector.dtype, (size,), module.scope_ubuf, f"{vector.name}_ub")
            for vector in ROW_VECTORS
            if (size := vector.elements(geometry))
        }
        if geometry.has_mask_tile:
            self.mask = ring(rows * keys, "mask_l1")
        if geometry.dropout:
            self.dropout = ring(rows * keys, "dropout_l1")
            self.dropped = chunks("float16", module.scope_cbuf, "dropped_l1")
            self.kept, self.kept_turned = (
                tensor("float16", height * chunk, module.scope_ubuf, f"{name}_ub") for name in ("kept", "kept_turned")
            )
            self.total_cube = tensor("float32", height, module.scope_cc, "total_l0c")
        if geometry.alibi_terms:
            self.alibi = ring(keys, "alibi_l1")
            self.alibi_factor = tensor("float16", height, module.scope_cbuf, "alibi_factor_l1")
            self.alibi_cube = tensor("float16", height, module.scope_cb, "alibi_factor_l0b")
        if geometry.diagonals:
            self.diagonal_l1 = tensor("float16", geometry.diagonals, module.scope_cbuf, "diagonal_l1")
            self.diagonal = tensor("float16", geometry.diagonals, module.scope_cb, "diagonal_l0b")
        if geometry.strip_tiles:
            self.strip = tensor("float16", geometry.strip_tiles, module.scope_cbuf, "strip_l1")
