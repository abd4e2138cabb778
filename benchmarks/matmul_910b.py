"""A tiled matrix product for the emulated 910B: GM to L1 to L0A and L0B, mmad, fixpipe to GM, with two buffers each.

Operands lie as the cube unit takes them: A as [K/16, M, 16], B as [K/16, N, 16], C as [N/16, M, 16], all fp16. Work is
split over cores by divisors of batch, rows and columns, as the vendor's recorded tilings are (davinci_timing.md 3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.conditions import Conditions
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1
from autotune.kernels.davinci.timing import Estimate, estimate

HALF = {"quantize_params": {"mode": "fp322fp16", "mode_param": None}}
DEPTH, L1_DEPTH = 64, 256
"""Columns of A that one mmad takes, and that one move to L1 takes."""
SIDES = (16, 32, 64, 128, 256)
"""Rows and columns of a tile of C."""
LARGEST = 6
"""Tiles that are tried for each number of cores."""


@dataclass(frozen=True)
class Product:
    """batch times [m, k] x [k, n]."""

    batch: int
    m: int
    k: int
    n: int

    @property
    def flops(self) -> int:
        """Floating operations."""
        return 2 * self.batch * self.m * self.k * self.n


@dataclass(frozen=True)
class Tiling:
    """A tile of C, and the parts that batch, rows and columns are split in over the cores."""

    rows: int
    columns: int
    parts: tuple[int, int, int]


def tilings(product: Product, chip: soc.SoC) -> list[Tiling]:
    """Every tile that divides C and fits the memories, each with the split that uses most cores; of those, the one
    that reads least."""
    found = []
    for rows in SIDES:
        for columns in SIDES:
            if product.m % rows or product.n % columns or not _fits(rows, columns, product.k, chip):
                continue
            found.append(Tiling(rows, columns, _parts(product, rows, columns, chip.cores)))
    return found


def _fits(rows: int, columns: int, k: int, chip: soc.SoC) -> bool:
    depth, in_l1 = min(DEPTH, k), min(L1_DEPTH, k)
    return (
        2 * 2 * rows * depth <= chip.l0a_bytes
        and 2 * 2 * columns * depth <= chip.l0b_bytes
        and 4 * rows * columns <= chip.l0c_bytes
        and 2 * 2 * (rows + columns) * in_l1 <= chip.l1_bytes
    )


def _parts(product: Product, rows: int, columns: int, cores: int) -> tuple[int, int, int]:
    lengths = (product.batch, product.m // rows, product.n // columns)
    splits = [
        (b, m, n)
        for b in _divisors(lengths[0])
        for m in _divisors(lengths[1])
        for n in _divisors(lengths[2])
        if b * m * n <= cores
    ]
    return max(splits, key=lambda s: (s[0] * s[1] * s[2], -product.m // s[1] - product.n // s[2]))


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, min(number, 32) + 1) if number % part == 0]


def best(product: Product, chip: str, profile: Profile = DEFAULT) -> tuple[Estimate, Tiling]:
    """The fastest tiling by the emulated time, with tensors in L2 as when a tuner repeats a launch.

    Of the tilings that use the same number of cores, only those with the largest tiles are timed.
    """
    by_cores: dict[int, list[Tiling]] = {}
    for tiling in sorted(tilings(product, soc.get(chip)), key=lambda t: -t.rows * t.columns):
        by_cores.setdefault(prod(tiling.parts), []).append(tiling)
    tried = [tiling for same in by_cores.values() for tiling in same[:LARGEST]]
    warm = Conditions(warm=True)
    times = [(estimate(kernel(product, t, chip).program, profile=profile, conditions=warm), t) for t in tried]
    return min(times, key=lambda item: item[0].time_us)


def kernel(product: Product, tiling: Tiling, chip: str) -> Any:
    """The recorded kernel, as its Tik container."""
    soc.use(chip)
    tik: Any = Tik(disable_debug=False)
    a, b, c = (
        tik.Tensor("float16", (product.batch, outer, inner, 16), GM, name)
        for name, outer, inner in (
            ("a", product.k // 16, product.m),
            ("b", product.k // 16, product.n),
            ("c", product.n // 16, product.m),
        )
    )
    counts = (product.batch, product.m // tiling.rows, product.n // tiling.columns)
    own = tuple(count // part for count, part in zip(counts, tiling.parts))
    _, by_m, by_n = tiling.parts
    blocks = tiling.parts[0] * by_m * by_n
    with tik.for_range(0, blocks, block_num=blocks) as core:
        first = (core // (by_m * by_n) * own[0], core // by_n % by_m * own[1], core % by_n * own[2])
        _core(tik, product, tiling, (a, b, c), first, own)
    tik.BuildCCE("matmul", [a, b], [c])
    return tik


def _core(tik: Any, product: Product, tiling: Tiling, tensors: Any, first: Any, own: tuple[int, ...]) -> None:
    """All tiles of one core. The accumulator has two buffers where they fit."""
    a, b, c = tensors
    rows, columns = tiling.rows, tiling.columns
    twice = 2 * 4 * rows * columns <= tik.program.soc.l0c_bytes
    shape = (columns // 16, rows, 16)
    accumulator = None if twice else tik.Tensor("float32", shape, L0C, "accumulator")
    with _turns(tik, own[0] * own[1] * own[2]) as t:
        batch, m, n = first[0] + t // (own[1] * own[2]), first[1] + t // own[2] % own[1], first[2] + t % own[2]
        into = tik.Tensor("float32", shape, L0C, "accumulator") if accumulator is None else accumulator
        depth = min(L1_DEPTH, product.k)
        with _turns(tik, product.k // depth) as outer:
            left = tik.Tensor("float16", (depth // 16, rows, 16), L1, "left")
            right = tik.Tensor("float16", (depth // 16, columns, 16), L1, "right")
            k1 = outer * (depth // 16)
            tik.data_move(left, a[batch, k1, m * rows, 0], 0, depth // 16, rows, product.m - rows, 0)
            tik.data_move(right, b[batch, k1, n * columns, 0], 0, depth // 16, columns, product.n - columns, 0)
            _multiply(tik, tiling, into, (left, right), depth, outer)
        tik.fixpipe(
            c[batch, n * (columns // 16), m * rows, 0], into, columns // 16, rows * 2, product.m - rows, 0, HALF
        )  # fmt: skip


def _multiply(tik: Any, tiling: Tiling, into: Any, operands: Any, in_l1: int, outer: Any) -> None:
    """What lies in L1, times each other; the first product of a tile starts anew."""
    left, right = operands
    rows, columns, depth = tiling.rows, tiling.columns, min(DEPTH, in_l1)
    with _turns(tik, in_l1 // depth) as inner:
        in_a = tik.Tensor("float16", (rows // 16, depth // 16, 16, 16), L0A, "in_a")
        in_b = tik.Tensor("float16", (depth // 16, columns // 16, 16, 16), L0B, "in_b")
        k1 = inner * (depth // 16)
        for column in range(depth // 16):
            tik.load2dv2(in_a[0, column, 0, 0], left[k1 + column, 0, 0], 0, rows // 16, depth // 16 - 1, 1, 0)
        tik.load2dv1(in_b, right[k1, 0, 0], 0, depth // 16 * columns // 16, 1, 0)
        with tik.if_scope(outer + inner == 0):
            tik.mmad(into, in_a, in_b, rows, depth, columns, 0)
        with tik.else_scope():
            tik.mmad(into, in_a, in_b, rows, depth, columns, 1)


@contextmanager
def _turns(tik: Any, count: int) -> Iterator[Any]:
    """A loop over two buffers; none for a single turn, so that what is declared in it belongs to the loop around."""
    if count == 1:
        yield 0
    else:
        with tik.for_range(0, count, thread_num=2) as index:
            yield index
