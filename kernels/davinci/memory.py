"""Memories, data types and buffers: what a tensor is made of.

An fp16 tensor in a core's own memory is held as float32 numbers that fp16 can represent: arithmetic then runs at
numpy's float32 speed, and one rounding step (``half.py``) keeps every value exact. A buffer that a program also views
as another type keeps its real bytes instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import Where
from autotune.kernels.davinci.soc import SoC

GM, UB, L1 = "global", "local.UB", "local.L1"
L0A, L0B, L0C = "local.L0A", "local.L0B", "local.L0C"
SMASK, REG = "local.SMASK", "local.REG"

BLOCK = 32
"""Bytes of a block, the unit of UB addresses, bursts and strides (tik_api.md 1.1)."""
FRACTAL = 512
"""Bytes of a 16 x 16 fractal of 16-bit elements."""
REPEAT = 256
"""Bytes that one repeat of a vector instruction covers: 8 blocks (tik_api.md 2.11)."""


@dataclass(frozen=True)
class Memory:
    """One memory of a core: alignment of start addresses and the SoC field that gives its size in bytes."""

    scope: str
    title: str
    alignment: int
    size_field: str

    def size(self, soc: SoC) -> int:
        """Bytes of this memory on a chip."""
        return int(getattr(soc, self.size_field))


MEMORIES = {
    memory.scope: memory
    for memory in (
        Memory(UB, "UB", 32, "ub_bytes"),
        Memory(L1, "L1", 512, "l1_bytes"),
        Memory(L0A, "L0A", 512, "l0a_bytes"),
        Memory(L0B, "L0B", 512, "l0b_bytes"),
        Memory(L0C, "L0C", 1024, "l0c_bytes"),
    )
}
"""Source: tik_api.md 1.1. GM has neither a size nor an alignment here."""


def start_alignment(scope: str) -> int:
    """Bytes that a start address in a local memory must be a multiple of (tik_api.md 1.1)."""
    return BLOCK if scope in (UB, L1) else FRACTAL


SIZES = {
    "int8": 1, "uint8": 1, "bool": 1,
    "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4,
    "int64": 8, "uint64": 8,
}  # fmt: skip
"""Bytes of each data type."""

NUMPY = {name: np.dtype(name) for name in SIZES if name != "bfloat16"}
SHADOW = np.dtype(np.float32)
"""How an fp16 element of a core's own memory is held."""

_POISON_BYTES = 1 << 21
_poison: dict[np.dtype, np.ndarray] = {}


def poison(dtype: np.dtype, shadow_of_half: bool, size: int) -> np.ndarray:
    """``size`` elements of what a local buffer holds before it is written: repeatable random bytes, as tikdb leaves."""
    key = np.dtype("V4") if shadow_of_half else dtype
    if key not in _poison:
        noise = np.random.default_rng(0xDA51).integers(0, 256, _POISON_BYTES, dtype=np.uint8)
        _poison[key] = noise.view(np.float16).astype(np.float32) if shadow_of_half else noise.view(dtype)
    return np.resize(_poison[key], size) if size > _poison[key].size else _poison[key][:size]


class Buffer:
    """The storage of one declared tensor.

    nbytes: its size in bytes as the chip sees it. alive: whether the block that declared it is still open.
    reinterpreted: some statement views it as another type. copies: how often it is there, for a loop that takes its
    buffers in turn; turn: the symbolic number of the copy in use, None where there is one. address: of its first byte
    in its memory, where tensors are stacked as blocks are opened and closed.
    """

    __slots__ = (
        "address", "alive", "array", "atomic", "copies", "dtype", "initial", "name", "nbytes", "reinterpreted",
        "scope", "size", "turn", "used", "where", "workspace",
    )  # fmt: skip

    def __init__(self, name: str, dtype: str, size: int, scope: str, where: Where, copies: int = 1) -> None:
        self.name, self.dtype, self.size, self.scope, self.where, self.copies = name, dtype, size, scope, where, copies
        self.nbytes = size * SIZES[dtype]
        self.alive = True
        self.address = 0
        self.used = False
        self.reinterpreted = False
        self.turn: Any = None
        self.workspace = False
        self.atomic = False
        self.initial: object = None
        self.array: np.ndarray | None = None

    @property
    def shadowed(self) -> bool:
        """Whether fp16 elements are held as float32."""
        return self.dtype == "float16" and self.scope != GM and not self.reinterpreted

    @property
    def item_bytes(self) -> int:
        """Host bytes of one element of the declared type."""
        return SHADOW.itemsize if self.shadowed else SIZES[self.dtype]

    def allocate(self) -> np.ndarray:
        """Host memory for a local buffer, the same for every core and every execution of its declaration.

        It ends with its last aligned piece, as on the chip: whole blocks may be moved into a tensor of fewer elements.
        """
        if self.array is None:
            size = aligned_bytes(self) // SIZES[self.dtype]
            self.array = np.empty(size, SHADOW if self.shadowed else NUMPY[self.dtype])
        return self.array

    def numpy_dtype(self, dtype: str) -> np.dtype:
        """The host type of this buffer's elements seen as ``dtype``."""
        return SHADOW if self.shadowed else NUMPY[dtype]

    def __repr__(self) -> str:
        return f"{self.name} ({self.dtype} in {self.scope})"


def aligned_bytes(buffer: Buffer) -> int:
    """A local buffer's size in whole aligned pieces of its memory; of others, as it is."""
    if buffer.scope not in MEMORIES:
        return buffer.nbytes
    half_accumulator = buffer.scope == L0C and SIZES[buffer.dtype] == 2
    alignment = FRACTAL if half_accumulator else MEMORIES[buffer.scope].alignment
    return -(-buffer.nbytes // alignment) * alignment


def charged_bytes(buffer: Buffer) -> int:
    """What a local buffer takes from its memory's budget: whole aligned pieces, once for each copy."""
    return aligned_bytes(buffer) * buffer.copies
