"""The conformance cases: attention problems, blocks and cores on which the public kernels are right by themselves."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from autotune.kernels.flash_attention import reference
from autotune.problem import AttentionProblem

TRIANGLE = np.triu(np.ones((1, 128, 128), np.float16), 1)
"""The single mask tile that the public kernels know as an only-causal mask."""


@dataclass(frozen=True)
class Case:
    """One problem for the public kernels. ``blocks`` is (Br, Bc), by default what their strategy ``sparse`` chooses.

    ``mask``: none | full (one per batch) | shared | causal (a whole matrix) | tile (one 128 x 128 causal tile).
    ``padding`` fills what the fractal layout adds to head_dim. ``soc_cores``: cores that the kernel is told of.
    """

    shape: tuple[int, int, int, int, int]
    mask: str = "none"
    dropout: bool = False
    blocks: tuple[int, int] | None = None
    soc_cores: int = 32
    padding: float = 0.0

    @property
    def name(self) -> str:
        """The case in words, as tests and the table show it."""
        words = ["x".join(str(size) for size in self.shape)]
        words += [f"mask={self.mask}"] * (self.mask != "none") + ["dropout"] * self.dropout
        words += [f"blocks={self.blocks[0]}x{self.blocks[1]}"] if self.blocks else []
        words += [f"cores={self.soc_cores}"] * (self.soc_cores != 32) + ["padding"] * (self.padding != 0)
        return " ".join(words)

    @property
    def problem(self) -> AttentionProblem:
        """What the kernel is meant to compute."""
        mask = "causal" if self.mask == "tile" else self.mask
        return AttentionProblem.of(self.shape, attn_mask=mask, dropout=self.dropout)

    @property
    def Br_Bc(self) -> tuple[int, int]:
        """The block heights in force."""
        return self.blocks or (min(128, self.shape[2]), min(128, self.shape[3]))


@dataclass(frozen=True)
class Inputs:
    """Row-major fp16 arrays of one case. q and k are scaled by head_dim ** -0.25 each, as the kernels expect.

    ``attn_mask`` (1 or B, Nq, N) holds 1 where a key is masked, ``dropout_mask`` (B, H, Nq, N) holds 0 or 1/keep.
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    do: np.ndarray
    attn_mask: np.ndarray | None
    dropout_mask: np.ndarray | None


def inputs(case: Case) -> Inputs:
    """Normal values, the same for a case every time."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    batch, heads, nq, n, d = case.shape
    scale = np.float16(d**-0.25)
    q, k, v, do = (rng.normal(size=(batch, heads, length, d)).astype(np.float16) for length in (nq, n, n, nq))
    dropout_mask = (
        (rng.random((batch, heads, nq, n)) < 0.8).astype(np.float16) / np.float16(0.8) if case.dropout else None
    )
    return Inputs(q * scale, k * scale, v, do, _attn_mask(case, rng), dropout_mask)


def _attn_mask(case: Case, rng: np.random.Generator) -> np.ndarray | None:
    """Random masks leave every row its first key: near -10000, fp16 has only multiples of 8 and the scores are lost."""
    batch, _, nq, n, _ = case.shape
    if case.mask == "none":
        return None
    if case.mask == "tile":
        return TRIANGLE
    if case.mask == "causal":
        return np.triu(np.ones((1, nq, n), np.float16), 1)
    mask = (rng.random((batch if case.mask == "full" else 1, nq, n)) < 0.4).astype(np.float16)
    mask[:, :, 0] = 0
    return mask


def as_the_kernel_drops(dropout_mask: np.ndarray, blocks: tuple[int, int]) -> np.ndarray:
    """The mask that the kernels really apply (fault 10).

    They load each block row-major and then read it as fractal: element (row, column) takes what lies at position
    (column // 16, row, column % 16) of the flat block.
    """
    applied = np.empty_like(dropout_mask)
    nq, n = dropout_mask.shape[-2:]
    for top in range(0, nq, blocks[0]):
        for left in range(0, n, blocks[1]):
            block = dropout_mask[..., top : top + blocks[0], left : left + blocks[1]]
            *outer, rows, columns = block.shape
            tiles = block.reshape(*outer, columns // 16, rows, 16)
            applied[..., top : top + rows, left : left + columns] = np.moveaxis(tiles, -3, -2).reshape(block.shape)
    return applied


@dataclass(frozen=True)
class Truth:
    """Float64 results of a case, by the definition."""

    o: np.ndarray
    lse: np.ndarray
    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray


def truth(case: Case, given: Inputs) -> Truth:
    """The reference's results, with dropout permuted as the kernels permute it."""
    extra = {} if case.problem.attn_mask in ("none", "causal") else {"attn_mask": given.attn_mask}
    if given.dropout_mask is not None:
        extra["dropout_mask"] = as_the_kernel_drops(given.dropout_mask, case.Br_Bc)
    o, lse = reference.forward(given.q, given.k, given.v, case.problem, scale=1.0, **extra)
    gradients = reference.gradients(given.q, given.k, given.v, given.do, case.problem, scale=1.0, **extra)
    return Truth(o, lse, *gradients)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Relative L2 distance; infinite where ``found`` is not finite."""
    distance = np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected)
    return float(distance) if np.isfinite(distance) else float("inf")


BOTH = [
    Case((1, 2, 128, 128, 40)),
    Case((1, 1, 256, 256, 40), padding=60.0),
    Case((1, 2, 256, 256, 64)),
    Case((1, 1, 384, 384, 80)),
    Case((1, 1, 256, 256, 128)),
    Case((1, 1, 16, 16, 16)),
    Case((2, 1, 64, 64, 64)),
    Case((2, 2, 256, 256, 64), mask="full"),
    Case((2, 1, 256, 256, 80), mask="shared"),
    Case((1, 1, 384, 384, 64), mask="causal"),
    Case((1, 2, 384, 384, 64), mask="tile"),
    Case((1, 1, 256, 256, 128), mask="tile"),
    Case((1, 2, 256, 256, 64), dropout=True),
    Case((1, 1, 256, 256, 40), mask="causal", dropout=True),
    Case((1, 3, 256, 256, 64), soc_cores=1),
    Case((2, 3, 256, 256, 64), soc_cores=5),
    Case((2, 8, 256, 256, 16), soc_cores=32),
    Case((1, 1, 512, 512, 64), blocks=(256, 128)),
    Case((1, 1, 512, 512, 64), blocks=(128, 256)),
    Case((1, 1, 240, 240, 64), blocks=(48, 80)),
    Case((1, 2, 192, 192, 64), blocks=(64, 64)),
    Case((1, 1, 192, 192, 40), mask="causal", blocks=(64, 32)),
    Case((1, 1, 192, 192, 64), dropout=True, blocks=(32, 64)),
]
"""Right in both directions: whole key blocks, Nq = N."""

FORWARD = [
    Case((1, 2, 192, 128, 64)),
    Case((1, 1, 176, 256, 80)),
    Case((1, 1, 144, 128, 128), mask="shared"),
    Case((2, 1, 64, 384, 40), mask="full"),
    Case((1, 1, 160, 256, 64), dropout=True, blocks=(64, 128)),
    Case((1, 1, 1024, 1024, 64)),
]
"""Right forward only: query tails and cross attention over whole key blocks."""

BACKWARD = [
    Case((1, 2, 192, 192, 64)),
    Case((1, 1, 208, 208, 80)),
    Case((1, 1, 144, 144, 128), mask="causal"),
    Case((1, 1, 176, 176, 40), dropout=True, blocks=(128, 64)),
]
"""Right backward only: query and key tails."""
