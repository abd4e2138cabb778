"""The faults of the public kernels, each on a small input that shows it.

Every function runs the kernel where it is known to be wrong and returns two relative L2 errors: against the definition
of attention (large: the fault is there) and against what the fault makes of it (small: it is that fault and no other).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from autotune.kernels.flash_attention import reference
from autotune.problem import AttentionProblem
from tests.real import public_kernels
from tests.real.fractal import unpack
from tests.real.public_cases import TRIANGLE, Case, Inputs, inputs, relative_error, truth
from tests.real.public_kernels import UNLIMITED, Options


class Shown(NamedTuple):
    """Relative L2 errors of a faulty result: against the definition, and against the fault's own prediction."""

    from_definition: float
    from_fault: float


@dataclass(frozen=True)
class Fault:
    """``number`` is the fault's row in the table of known faults; ``show`` runs it."""

    number: int
    title: str
    show: Callable[[], Shown]


def key_tail() -> Shown:
    """Row sums of the last key block come from a tile of ones never filled; only the normalisation is wrong.

    The rows of O, each scaled to length 1, are then still those of the right output.
    """
    case = Case((1, 1, 32, 48, 16), blocks=(32, 32))
    given, right = inputs(case), truth(case, inputs(case))
    o, lse = public_kernels.forward(case, given)
    total = np.exp(right.lse - lse.astype(np.float64))[..., None]
    return Shown(relative_error(lse, right.lse), relative_error(o, right.o * total))


def tall_block() -> Shown:
    """With 80 rows in a block the reciprocals of rows 64 to 79 are never computed; all other rows are right."""
    case = Case((1, 1, 80, 80, 16))
    given, right = inputs(case), truth(case, inputs(case))
    o, lse = public_kernels.forward(case, given)
    sound = max(relative_error(o[:, :, :64], right.o[:, :, :64]), relative_error(lse, right.lse))
    return Shown(relative_error(o[:, :, 64:], right.o[:, :, 64:]), sound)


def key_gradients_at_wrong_addresses() -> Shown:
    """Nq != N: column groups of dK and dV are Nq rows apart where they should be N rows apart."""
    case = Case((1, 1, 32, 64, 32), blocks=(32, 32))
    given, right = inputs(case), truth(case, inputs(case))
    dq, dk, dv = public_kernels.gradients(case, given, right.o, right.lse)
    displaced = max(relative_error(found, _displaced(g, case)) for found, g in ((dk, right.dk), (dv, right.dv)))
    return Shown(relative_error(dk, right.dk), max(displaced, relative_error(dq, right.dq)))


def _displaced(gradient: np.ndarray, case: Case) -> np.ndarray:
    """A key gradient (1, 1, N, D) as it reads after its blocks were added with the query's stride."""
    _, _, nq, n, d = case.shape
    flat = np.zeros(n * d)
    for top in range(0, n, case.Br_Bc[1]):
        block = gradient[0, 0, top : top + case.Br_Bc[1]]
        for left in range(0, d, 16):
            start = top * 16 + left // 16 * nq * 16
            flat[start : start + len(block) * 16] += block[:, left : left + 16].ravel()
    return unpack(flat.reshape(1, 1, d // 16, n // 16, 16, 16), n, d)


def wukong_forgets_keys() -> Shown:
    """Strategy wukong at N = 256: the first 64 keys are attended, in both directions."""
    case, square = Case((1, 1, 64, 256, 16)), Case((1, 1, 256, 256, 16))
    given, right = inputs(case), truth(case, inputs(case))
    few = truth(replace(case, shape=(1, 1, 64, 64, 16)), replace(given, k=given.k[:, :, :64], v=given.v[:, :, :64]))
    o, lse = public_kernels.forward(case, given, Options(strategy="wukong"))
    attended = max(relative_error(o, few.o), relative_error(lse, few.lse))
    whole = truth(square, inputs(square))
    _, _, dv = public_kernels.gradients(square, inputs(square), whole.o, whole.lse, Options(strategy="wukong"))
    whole.dv[:, :, 64:] = 0
    return Shown(relative_error(o, right.o), max(attended, relative_error(dv, whole.dv)))


def window_before() -> Shown:
    """A finite prev_block_num: query blocks after the first never set up their maximum, sum and output."""
    case = Case((1, 1, 32, 32, 16), blocks=(16, 16))
    given = inputs(case)
    o, _ = public_kernels.forward(case, given, Options(window=(0, UNLIMITED)))
    hidden = np.zeros((1, 32, 32), np.float16)
    hidden[0, 16:, :16] = 1
    right_o, _ = _masked(case, given, hidden)
    return Shown(relative_error(o[:, :, 16:], right_o[:, :, 16:]), relative_error(o[:, :, :16], right_o[:, :, :16]))


def alibi_ignored() -> Shown:
    """ALiBi is accepted and never added, in both directions."""
    case = Case((1, 2, 32, 32, 16))
    given, plain = inputs(case), truth(case, inputs(case))
    slopes = np.linspace(-4, 0, 64).astype(np.float16).reshape(1, 2, 1, 32)
    problem = AttentionProblem.of(case.shape, alibi=True)
    right_o, _ = reference.forward(given.q, given.k, given.v, problem, scale=1.0, alibi=slopes)
    o, _ = public_kernels.forward(case, given, Options(alibi=slopes))
    dq, _, _ = public_kernels.gradients(case, given, plain.o, plain.lse, Options(alibi=slopes))
    return Shown(relative_error(o, right_o), max(relative_error(o, plain.o), relative_error(dq, plain.dq)))


def tile_of_another_size() -> Shown:
    """The causal tile with 64 x 64 blocks: the first 4096 numbers of the 128 x 128 tile become the block's mask."""
    case = Case((1, 1, 128, 128, 16), mask="tile", blocks=(64, 64))
    given, right = inputs(case), truth(case, inputs(case))
    start_of_tile = np.moveaxis(_fractal_numbers(TRIANGLE)[: 64 * 64].reshape(4, 64, 16), 0, 1).reshape(64, 64)
    mask = np.zeros((1, 128, 128), np.float16)
    mask[0, :64, 64:] = 1
    mask[0, :64, :64] = mask[0, 64:, 64:] = start_of_tile
    predicted, _ = _masked(case, given, mask)
    o, _ = public_kernels.forward(case, given)
    return Shown(relative_error(o, right.o), relative_error(o, predicted))


def tile_without_window() -> Shown:
    """The causal tile with an unlimited next_block_num: key blocks right of the diagonal are attended in full."""
    case = Case((1, 1, 256, 256, 16), mask="tile")
    given, right = inputs(case), truth(case, inputs(case))
    mask = np.zeros((1, 256, 256), np.float16)
    mask[0, :128, :128] = mask[0, 128:, 128:] = TRIANGLE[0]
    predicted, _ = _masked(case, given, mask)
    o, _ = public_kernels.forward(case, given, Options(window=(UNLIMITED, UNLIMITED)))
    return Shown(relative_error(o, right.o), relative_error(o, predicted))


def _fractal_numbers(mask: np.ndarray) -> np.ndarray:
    """A mask (1, rows, columns) as its numbers lie in memory."""
    return np.concatenate([mask[0, :, left : left + 16].ravel() for left in range(0, mask.shape[-1], 16)])


def window_in_unequal_blocks() -> Shown:
    """next_block_num = 0 with Br = 32, Bc = 16: query block i sees key blocks 0 to i, 16 keys each, and not 32."""
    case = Case((1, 1, 64, 64, 16), blocks=(32, 16))
    given = inputs(case)
    query, key = np.arange(64)[:, None], np.arange(64)[None, :]
    right_o, _ = _masked(case, given, (key // 32 > query // 32)[None].astype(np.float16))
    predicted, _ = _masked(case, given, (key // 16 > query // 32)[None].astype(np.float16))
    o, _ = public_kernels.forward(case, given, Options(window=(UNLIMITED, 0)))
    return Shown(relative_error(o, right_o), relative_error(o, predicted))


def dropout_permuted() -> Shown:
    """Dropout: a row-major block is read as fractal."""
    case = Case((1, 1, 32, 32, 16), dropout=True)
    given, predicted = inputs(case), truth(case, inputs(case))
    problem = case.problem
    right_o, _ = reference.forward(given.q, given.k, given.v, problem, scale=1.0, dropout_mask=given.dropout_mask)
    o, lse = public_kernels.forward(case, given)
    return Shown(relative_error(o, right_o), max(relative_error(o, predicted.o), relative_error(lse, predicted.lse)))


def _masked(case: Case, given: Inputs, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Float64 attention under a mask (1, Nq, N) that the case itself does not have."""
    problem = AttentionProblem.of(case.shape, attn_mask="shared")
    return reference.forward(given.q, given.k, given.v, problem, mask, scale=1.0)


FAULTS = [
    Fault(1, "forward, N not a multiple of Bc: row sums of the last key block", key_tail),
    Fault(2, "forward, block of 80 rows: reciprocals of rows 64 to 79", tall_block),
    Fault(3, "backward, N != Nq: addresses of dK and dV", key_gradients_at_wrong_addresses),
    Fault(4, "wukong, N = 256: 64 keys attended", wukong_forgets_keys),
    Fault(6, "forward, finite prev_block_num: later query blocks", window_before),
    Fault(7, "ALiBi ignored", alibi_ignored),
    Fault(8, "causal tile with 64 x 64 blocks", tile_of_another_size),
    Fault(8, "causal tile with unlimited next_block_num", tile_without_window),
    Fault(9, "window in blocks, Br = 2 Bc", window_in_unequal_blocks),
    Fault(10, "dropout permuted within each block", dropout_permuted),
]
"""Faults 5 and 11 raise and have no numbers to show."""
