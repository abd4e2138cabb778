"""Which blocks of the public kernels fit the Unified Buffer of an Ascend 910A, at 32 heads of 4096 tokens, no masks.

The figures (KiB of UB at the peak) were found beforehand on another emulation of the same chip; the least and the first
that does not fit of each row are what a wrong account of live tensors gets wrong first.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.real import public_kernels
from tests.real.public_cases import Case, Inputs

Blocks: TypeAlias = tuple[int, int]

UB_KIB = 256
FITS = {
    ("forward", 64): {(128, 128): 114, (128, 256): 201, (256, 128): 219, (256, 160): 250},
    ("forward", 128): {(128, 256): 210, (192, 96): 250},
    ("backward", 64): {(128, 256): 208, (256, 128): 217},
}
TOO_LARGE = {
    ("forward", 64): [(128, 384), (192, 256), (256, 192), (256, 256), (384, 64)],
    ("forward", 128): [(192, 128), (160, 256), (256, 16)],
    ("backward", 64): [(128, 384), (160, 256), (256, 160)],
}


def build(direction: str, head_dim: int, blocks: Blocks) -> Any:
    case = Case((1, 32, 4096, 4096, head_dim), blocks=blocks)
    zeros = np.zeros((1, 32, 4096, head_dim), np.float16)
    given = Inputs(zeros, zeros, zeros, zeros, None, None)
    if direction == "forward":
        return public_kernels.build_forward(case, given).instance
    return public_kernels.build_gradients(case, given, zeros, np.zeros((1, 32, 4096))).instance


def flat(table: Mapping[tuple[str, int], Iterable[Blocks]]) -> list[tuple[str, int, Blocks]]:
    return [(*key, blocks) for key, row in table.items() for blocks in row]


@pytest.mark.parametrize(("direction", "head_dim", "blocks"), flat(FITS))
def test_fits(direction: str, head_dim: int, blocks: Blocks) -> None:
    peak = build(direction, head_dim, blocks).program.peak_bytes["local.UB"]
    assert peak // 1024 == FITS[direction, head_dim][blocks]


@pytest.mark.parametrize(("direction", "head_dim", "blocks"), flat(TOO_LARGE))
def test_does_not_fit(direction: str, head_dim: int, blocks: Blocks) -> None:
    with pytest.raises(RuntimeError, match=rf"UB: .* of {UB_KIB * 1024} are left"):
        build(direction, head_dim, blocks)
