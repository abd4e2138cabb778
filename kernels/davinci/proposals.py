"""Region proposals: 8 float16 numbers each, four corners, a score, a label and two that are unused (tik_api.md 4.1)."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci.checks import check
from autotune.kernels.davinci.program import Access
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.scalars import ScalarFunctions
from autotune.kernels.davinci.tensor import Tensor

NUMBERS, GROUP = 8, 16
"""Numbers of a proposal, and proposals of a repeat."""


class Proposals(ScalarFunctions):
    """vconcat, vextract and vrpsort16."""

    def vconcat(self, dst: Tensor, src: Tensor, repeat_times: Any, mode_number: Any) -> None:
        """Number ``mode_number`` of each proposal in dst takes one element of src, 16 a repeat."""
        self._move("vconcat", dst, src, self._fields(dst, repeat_times, mode_number), self._row(src, repeat_times))

    def vextract(self, dst: Tensor, src: Tensor, repeat_times: Any, mode_number: Any) -> None:
        """Elements of dst take number ``mode_number`` of each proposal in src, 16 a repeat."""
        self._move("vextract", dst, src, self._row(dst, repeat_times), self._fields(src, repeat_times, mode_number))

    def vrpsort16(self, dst: Tensor, src: Tensor, repeat_times: Any) -> None:
        """Sorts each 16 proposals by their scores, the highest first; equals keep their order."""
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        shape, strides = (repeat, GROUP, NUMBERS), (GROUP * NUMBERS, NUMBERS, 1)
        self._move("vrpsort16", dst, src, dst.pattern(shape, strides), src.pattern(shape, strides))

    def _move(self, api: str, dst: Tensor, src: Tensor, target: Access, source: Access) -> None:
        check(VECTOR_ROWS[api], self.program.soc, dst, src)
        self.aligned(dst)
        self.aligned(src)
        self.instruction(VECTOR_ROWS[api], (target,), (source,))

    def _fields(self, tensor: Tensor, repeat_times: Any, mode_number: Any) -> Access:
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        field = self.number("mode_number", mode_number, 0, 5)
        return tensor.pattern((repeat, GROUP), (GROUP * NUMBERS, NUMBERS), field)

    def _row(self, tensor: Tensor, repeat_times: Any) -> Access:
        return tensor.pattern((self.number("repeat_times", repeat_times, 1, 255), GROUP), (GROUP, 1))
