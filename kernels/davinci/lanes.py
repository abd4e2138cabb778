"""Which lanes of a repeat a vector instruction covers, and where its operands lie (tik_api.md 2.11).

A repeat covers up to 8 blocks of 32 bytes. Element e of repeat r lies in block e // (elements a block) at
(r * repeat stride + block * block stride) * 32 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import RangeError
from autotune.kernels.davinci.expr import Expr, Value, applied, as_value
from autotune.kernels.davinci.masks import Words, chosen, joined
from autotune.kernels.davinci.memory import BLOCK, REPEAT, SIZES
from autotune.kernels.davinci.program import Access
from autotune.kernels.davinci.recorder import Recorder
from autotune.kernels.davinci.rows_chips import C220, M200
from autotune.kernels.davinci.tensor import Tensor

COUNTER_CHIPS = (M200, C220)
"""Chips that know mask_mode="counter"; the others take the mask as usual (tik_api.md 2.11)."""


class Lanes:
    """Which elements of a repeat are active, and how to address them for operands of different element sizes.

    active: lanes up to the last active one. dense: blocks lie one behind the other in every operand, so that just the
    active lanes are addressed. count: lanes covered, else in whole blocks of the narrowest element. coarse, fine:
    elements a block of the narrowest and of the widest type. mask: None where all covered lanes are active, else a
    bool array, the symbolic number of lanes, or symbolic Words. A mask argument of None is all lanes.
    """

    def __init__(self, recorder: Recorder, mask: Any, dtypes: Iterable[str], dense: bool = False) -> None:
        self.dense = dense
        sizes = [SIZES[dtype] for dtype in dtypes]
        self.coarse, self.fine = BLOCK // min(sizes), BLOCK // max(sizes)
        self.most = REPEAT // max(sizes)
        self.active: Value
        self.mask: Any = None
        if isinstance(mask, (list, tuple)):
            self._by_words(mask)
            return
        self.active = self.most if mask is None else recorder.number("mask", mask, 1, self.most)
        self.count = self._covered()
        if dense:
            return
        if isinstance(self.active, Expr):
            self.mask = self.active
        elif self.active != self.count:
            self.mask = (np.arange(self.count) < self.active).reshape(self.shape()[1:])

    def _by_words(self, mask: Any) -> None:
        if len(mask) != 2:
            raise RangeError(f"a bit mask is [mask_h, mask_l], not {len(mask)} words")
        high, low = (as_value(word) for word in mask)
        if isinstance(high, Expr) or isinstance(low, Expr):
            self.active = applied("bits", lambda h, n: joined(h, n).bit_length(), (high, low), "int64")
            self.mask = Words(high, low)
            self.count = self._covered()
            return
        bits = joined(high, low)
        if bits == 0 or bits >> self.most:
            raise RangeError(f"the bit mask {mask} must set some of the first {self.most} lanes only")
        self.active = bits.bit_length()
        self.count = self._covered()
        lanes = chosen(bits, self.shape()[1:])
        self.mask = None if lanes.all() else lanes

    def _covered(self) -> Value:
        return self.active if self.dense else (self.active + self.coarse - 1) // self.coarse * self.coarse

    def shape(self, repeat: Value = 1) -> tuple[Value, ...]:
        """(repeats, lanes) where dense, else (repeats, blocks, elements a block), with the block cut in parts where
        operand sizes differ."""
        if self.dense:
            return (repeat, self.active)
        blocks = self.count // self.coarse
        if self.coarse == self.fine:
            return (repeat, blocks, self.coarse)
        return (repeat, blocks, self.coarse // self.fine, self.fine)

    def access(
        self, tensor: Tensor, repeat: Value, block_stride: Value, repeat_stride: Value, skip: Value = 0
    ) -> Access:
        """The elements an operand contributes, from its repeat ``skip`` on; strides in 32-byte blocks."""
        per_block = BLOCK // SIZES[tensor.dtype]
        step = repeat_stride * per_block
        if self.dense:
            return tensor.pattern((repeat, self.active), (step, 1), skip * step)
        if self.coarse == self.fine:
            return tensor.pattern(self.shape(repeat), (step, block_stride * per_block, 1), skip * step)
        part = self.fine if per_block == self.coarse else block_stride * per_block
        strides = (step, block_stride * per_block * (self.coarse // per_block), part, 1)
        return tensor.pattern(self.shape(repeat), strides, skip * step)


@dataclass(frozen=True)
class Turn:
    """Repeats that are executed alike: ``repeat`` of them with the same lanes, from repeat ``skip`` on."""

    lanes: Lanes
    repeat: Value
    skip: Value = 0


def all_one(block_strides: Iterable[Any]) -> bool:
    """Whether blocks lie one behind the other in every operand."""
    return all(isinstance(stride, int) and stride == 1 for stride in block_strides)


def turns(
    recorder: Recorder, mask: Any, dtypes: Iterable[str], repeat_times: Any, mask_mode: str, dense: bool
) -> list[Turn]:
    """What a vector call executes: one turn, or in counter mode its whole repeats and then its last one."""
    if mask_mode not in ("normal", "counter"):
        raise RangeError(f"mask_mode is {mask_mode!r}; it is 'normal' or 'counter'")
    if mask_mode == "normal" or recorder.program.soc.arch not in COUNTER_CHIPS:
        return [Turn(Lanes(recorder, mask, dtypes, dense), recorder.number("repeat_times", repeat_times, 1, 255))]
    whole = Lanes(recorder, None, dtypes, dense)
    total = recorder.number("mask", mask, 1, (1 << 32) - 1)
    repeats, rest = total // whole.most, total % whole.most
    executed = [Turn(whole, repeats)] if isinstance(repeats, Expr) or repeats else []
    if isinstance(rest, Expr) or rest:
        last = applied("min", min, (rest, 1), "int64")
        executed.append(Turn(Lanes(recorder, rest, dtypes, dense), last, repeats))
    return executed
