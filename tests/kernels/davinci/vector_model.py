"""A slow model of vector instructions, written from tik_api.md 2.11: loops over repeats, blocks and lanes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tests.kernels.davinci.exactly import settled
from tests.kernels.davinci.running import Array, Kernel

Draw = Callable[[int, int], int]
"""A whole number between two limits, drawn by Hypothesis or by a random generator."""


@dataclass(frozen=True)
class Oracle:
    """One row: how it is called and what an element becomes.

    element: old destination, sources and the scalar to the exact result. types: destination first, then sources.
    domain: what operands are drawn from. units: how many units in the last place the result may be off.
    """

    name: str
    element: Callable[..., Any]
    types: tuple[tuple[str, ...], ...]
    scalar: bool = False
    domain: str = "any"
    units: int = 0


def add(old: Any, a: Any, b: Any) -> Any:
    """a + b."""
    return a + b


def divide(old: Any, a: Any, b: Any) -> Any:
    """a / b of nonzero b."""
    return Fraction(a) / Fraction(b)


FLOATS, ARITHMETIC, BITS = ("float16", "float32"), ("float16", "float32", "int32"), ("int16", "uint16")


def _types(dtypes: tuple[str, ...], operands: int) -> tuple[tuple[str, ...], ...]:
    return tuple((dtype,) * operands for dtype in dtypes)


_MIXED = (("float32", "float16", "float16"),)
ORACLES = {
    oracle.name: oracle
    for oracle in (
        Oracle("vadd", add, _types(ARITHMETIC, 3)),
        Oracle("vsub", lambda old, a, b: a - b, _types(ARITHMETIC, 3)),
        Oracle("vmul", lambda old, a, b: a * b, _types(ARITHMETIC, 3)),
        Oracle("vdiv", divide, _types(FLOATS, 3), domain="nonzero"),
        Oracle("vmax", lambda old, a, b: max(a, b), _types(ARITHMETIC, 3)),
        Oracle("vmin", lambda old, a, b: min(a, b), _types(ARITHMETIC, 3)),
        Oracle("vand", lambda old, a, b: a & b, _types(BITS, 3)),
        Oracle("vor", lambda old, a, b: a | b, _types(BITS, 3)),
        Oracle("vmla", lambda old, a, b: a * b + old, _types(FLOATS, 3) + _MIXED),
        Oracle("vmadd", lambda old, a, b: a * old + b, _types(FLOATS, 3)),
        Oracle("vmaddrelu", lambda old, a, b: max(a * old + b, 0), _types(FLOATS, 3)),
        Oracle("vadds", add, _types(FLOATS, 2), scalar=True),
        Oracle("vmuls", lambda old, a, b: a * b, _types(FLOATS, 2), scalar=True),
        Oracle("vaxpy", lambda old, a, b: a * b + old, (*_types(FLOATS, 2), ("float32", "float16")), scalar=True),
        Oracle("vnot", lambda old, a: ~a, _types(BITS, 2)),
        Oracle("vabs", lambda old, a: abs(a), _types(FLOATS, 2)),
        Oracle("vrelu", lambda old, a: max(a, 0), _types(("float16",), 2)),
        Oracle("vexp", lambda old, a: math.exp(a), _types(FLOATS, 2), domain="small", units=2),
        Oracle("vln", lambda old, a: math.log(a), _types(FLOATS, 2), domain="positive", units=2),
        Oracle("vsqrt", lambda old, a: math.sqrt(a), _types(FLOATS, 2), domain="positive"),
        Oracle("vrec", lambda old, a: 1 / Fraction(a), _types(FLOATS, 2), domain="nonzero"),
        Oracle("vrsqrt", lambda old, a: 1 / math.sqrt(a), _types(FLOATS, 2), domain="positive", units=1),
    )
}
"""By the name of the low-level call."""


def elements(dtype: str, size: int, domain: str, seed: int) -> Array:
    """Operands: in turn ordinary numbers, any finite bit pattern and numbers near the limits."""
    rng = np.random.default_rng(seed)
    if not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        drawn = rng.integers(limits.min, limits.max, size, endpoint=True, dtype=dtype)
        return np.where(rng.random(size) < 0.5, drawn % 100, drawn).astype(dtype)
    kind = np.dtype(dtype)
    bits = rng.integers(0, 1 << (8 * kind.itemsize), size, dtype=np.uint64).astype(f"u{kind.itemsize}").view(kind)
    ordinary = (rng.standard_normal(size) * 10.0 ** rng.integers(-4, 5, size)).clip(-6e4, 6e4).astype(kind)
    values: Array = np.where(np.isfinite(bits) & (rng.random(size) < 0.3), bits, ordinary)
    if domain == "small":
        values = (rng.random(size) * 30 - 18).astype(kind)
    elif domain == "positive":
        values = np.maximum(np.abs(values), kind.type(1e-6))
    elif domain == "nonzero":
        values = np.where(np.abs(values) < 1e-30, kind.type(1), values)
    return values


@dataclass
class Operand:
    """Where an operand lies: strides and start in blocks of 32 bytes."""

    dtype: str
    block_stride: int
    repeat_stride: int
    start: int
    array: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def per_block(self) -> int:
        """Elements of a block."""
        return 32 // np.dtype(self.dtype).itemsize

    def at(self, repeat: int, lane: int) -> int:
        """The element of a lane."""
        block, rest = divmod(lane, self.per_block)
        blocks = self.start + repeat * self.repeat_stride + block * self.block_stride
        return blocks * self.per_block + rest

    def fill(self, repeats: int, lanes: int, domain: str, seed: int) -> None:
        """Just as many elements as the instruction reaches, in whole blocks."""
        last = max(self.at(repeat, lane) for repeat in (0, repeats - 1) for lane in range(lanes))
        self.array = elements(self.dtype, (last // self.per_block + 1) * self.per_block, domain, seed)


@dataclass
class Mask:
    """Active lanes, and the mask argument that says so."""

    lanes: list[int]
    argument: Any


def drawn_mask(draw: Draw, most: int) -> Mask:
    """A number of lanes or two words of bits."""
    if draw(0, 2):
        count = draw(1, most)
        return Mask(list(range(count)), count)
    bits = draw(1, (1 << most) - 1)
    lanes = [lane for lane in range(most) if bits >> lane & 1]
    return Mask(lanes, [bits >> 64, bits & ((1 << 64) - 1)])


def symbolic(kernel: Kernel, mask: Any) -> Any:
    """The same mask in Scalars."""
    if isinstance(mask, list):
        return [kernel.tik.Scalar("uint64", init_value=word) for word in mask]
    return kernel.tik.Scalar("int32", init_value=mask)


def drawn_operand(draw: Draw, dtype: str, destination: bool) -> Operand:
    """Strides and a start; only sources may stay in one place."""
    return Operand(dtype, draw(1 if destination else 0, 2), draw(0, 17), draw(0, 2))


def lane_limit(dtypes: tuple[str, ...]) -> int:
    """Most lanes of a repeat."""
    return 256 // max(np.dtype(dtype).itemsize for dtype in dtypes)


def execute(oracle: Oracle, operands: list[Operand], mask: Mask, repeats: int, scalar: Any) -> Array:
    """The destination after the instruction: repeat by repeat, all of a repeat read before any of it is written."""
    destination, *sources = operands
    out = destination.array.copy()
    for repeat in range(repeats):
        results = []
        for lane in mask.lanes:
            taken = [_exact(source.array[source.at(repeat, lane)]) for source in sources]
            number = () if scalar is None else (_exact(scalar),)
            results.append(oracle.element(_exact(out[destination.at(repeat, lane)]), *taken, *number))
        for lane, result in zip(mask.lanes, results):
            out[destination.at(repeat, lane)] = settled(result, destination.dtype)
    return out


def _exact(value: Any) -> Any:
    return Fraction(float(value)) if isinstance(value, np.floating) else int(value)


def check_elementwise(name: str, draw: Draw) -> None:
    """One drawn call of a row against the model."""
    oracle = ORACLES[name]
    types = oracle.types[draw(0, len(oracle.types) - 1)]
    mask, repeats = drawn_mask(draw, lane_limit(types)), draw(1, 3)
    operands = [drawn_operand(draw, dtype, place == 0) for place, dtype in enumerate(types)]
    covered = max(mask.lanes) + 1 if len(set(types)) == 1 else lane_limit(types)
    for seed, operand in enumerate(operands):
        operand.fill(repeats, covered, oracle.domain if seed else "any", draw(0, 1 << 20))
    scalar = float(np.float16(draw(-4000, 4000) / 64)) if oracle.scalar else None
    source_type = np.dtype(types[-1]).type
    expected = execute(oracle, operands, mask, repeats, None if scalar is None else source_type(scalar))
    found = run_elementwise(oracle, operands, mask.argument, repeats, scalar, bool(draw(0, 1)))
    assert_close(found, expected, oracle.units)


def run_elementwise(
    oracle: Oracle, operands: list[Operand], mask: Any, repeats: int, scalar: float | None, in_scalars: bool
) -> Array:
    """The destination as the emulated core leaves it."""
    kernel = Kernel()
    tensors = [kernel.filled(operand.array) for operand in operands]
    places = [tensor[operand.start * operand.per_block :] for tensor, operand in zip(tensors, operands)]
    if in_scalars:
        mask, repeat_times = symbolic(kernel, mask), kernel.tik.Scalar("int32", init_value=repeats)
    else:
        repeat_times = repeats
    numbers = () if scalar is None else (scalar,)
    blocks, steps = [o.block_stride for o in operands], [o.repeat_stride for o in operands]
    getattr(kernel.tik, oracle.name)(mask, *places, *numbers, repeat_times, *blocks, *steps)
    kernel.shown(tensors[0])
    return kernel.run()[0]


def assert_close(found: Array, expected: Array, units: int) -> None:
    """Equal, or within units in the last place."""
    if units == 0:
        np.testing.assert_array_equal(found, expected)
        return
    assert found.dtype == expected.dtype
    kind, exact = np.finfo(expected.dtype), expected.astype(np.float64)
    allowed = units * np.maximum(np.abs(exact) * float(kind.eps), float(kind.smallest_subnormal))
    assert (np.abs(found.astype(np.float64) - exact) <= allowed).all()
