"""What a block needs of each on-chip memory, at least: the filter before anything is compiled.

These are necessary conditions of our kernels, kept low on purpose: a plan that breaks one cannot run, a plan
that keeps them all is still checked byte by byte when its kernel is recorded. Sizes in bytes; fp16 has 2, fp32 has 4.

Source: the arithmetic of davinci_timing.md section 4 (generic constraints), without everything that a kernel can
avoid by working in slices; 16 x 16 x 16 cube tiles and operand places after tik_api.md 1.1 and 1.6.
Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Tuple

from autotune.hardware import Hardware
from autotune.plan import TILE, pad
from autotune.problem import AttentionProblem

FP16, FP32 = 2, 4
MOST_SIDE = 512
"""Largest Br and Bc proposed where no on-chip memory sets a limit (a CPU): a block's fp32 scores are then 1 MiB, what
the second-level cache of one core holds, and larger ones only fall out of it."""


class Block(NamedTuple):
    """Rows of a block and of its slices, padded head dimension, and how many K/V buffers there are."""

    Br: int
    slice_rows: int
    Bc: int
    head_dim: int
    buffers: int


class BrokenLimit(NamedTuple):
    """A memory that is too small, with the bytes a block needs at least and the bytes there are."""

    memory: str
    needed_bytes: int
    available_bytes: int

    def __str__(self) -> str:
        return f"{self.memory} needs at least {self.needed_bytes} bytes, has {self.available_bytes}"


def ub_bytes(block: Block) -> int:
    """S of a slice in fp16, O of the block with 16 columns for the row sums in fp32, running maximum of each row."""
    return FP16 * block.slice_rows * block.Bc + FP32 * block.Br * (block.head_dim + TILE + 1)


def l1_bytes(block: Block) -> int:
    """Q, P of a slice, and K and V in each of their buffers, all fp16."""
    operands = block.Br * block.head_dim + block.slice_rows * block.Bc
    return FP16 * (operands + 2 * block.buffers * block.Bc * block.head_dim)


def l0_operand_bytes(block: Block) -> int:
    """L0A or L0B: one strip of 16 rows of Q or K in fp16."""
    return FP16 * TILE * block.head_dim


def l0c_bytes(block: Block) -> int:
    """One strip of S, a slice by 16 keys, and O of the slice with its row sums, in fp32."""
    return FP32 * block.slice_rows * (TILE + block.head_dim + TILE)


LIMITS: Tuple[Tuple[str, str, Callable[[Block], int]], ...] = (
    ("UB", "ub_bytes", ub_bytes),
    ("L1", "l1_bytes", l1_bytes),
    ("L0A", "l0a_bytes", l0_operand_bytes),
    ("L0B", "l0b_bytes", l0_operand_bytes),
    ("L0C", "l0c_bytes", l0c_bytes),
)
"""Memory, the field of Hardware that has its size, and the bytes a block needs of it at least."""


def gradient_l1_bytes(block: Block) -> int:
    """Q, dO and a column of statistics of the query block, and K and V in each of their buffers, all fp16."""
    return FP16 * (block.Br * (2 * block.head_dim + TILE) + 2 * block.buffers * block.Bc * block.head_dim)


def gradient_l0c_bytes(block: Block) -> int:
    """dK and dV of the key block, in fp32."""
    return 2 * FP32 * block.Bc * block.head_dim


GRADIENT_LIMITS: Tuple[Tuple[str, str, Callable[[Block], int]], ...] = (
    ("L1", "l1_bytes", gradient_l1_bytes),
    ("L0A", "l0a_bytes", l0_operand_bytes),
    ("L0B", "l0b_bytes", l0_operand_bytes),
    ("L0C", "l0c_bytes", gradient_l0c_bytes),
)
"""The same for our backward kernel."""


def longest_side(length: int, hardware: Hardware) -> int:
    """The tallest block that is worth proposing for so many rows."""
    return pad(length) if hardware.ub_bytes else min(pad(length), MOST_SIDE)


def broken(
    problem: AttentionProblem, Br: int, Bc: int, hardware: Hardware, double_buffer: bool = False, slice_rows: int = 0
) -> Tuple[BrokenLimit, ...]:
    """The limits that blocks of Br x Bc break, none where they may fit. A memory of size 0 sets no limit.

    slice_rows: query rows that the vector unit takes at a time, 0 for all of Br.
    """
    block = Block(Br, slice_rows or Br, Bc, pad(problem.head_dim), 2 if double_buffer else 1)
    limits = GRADIENT_LIMITS if problem.op == "flash_attention_grad" else LIMITS
    needs = ((memory, needed(block), getattr(hardware, size)) for memory, size, needed in limits)
    return tuple(BrokenLimit(*need) for need in needs if need[2] and need[1] > need[2])
