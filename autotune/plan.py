"""The answer: a tiling plan, as numbers and names only.

Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Mapping, NamedTuple, Tuple

from autotune.errors import PlanError
from autotune.problem import AttentionProblem

TILE = 16
"""Br and Bc are multiples of this: the cube multiplies 16 x 16 x 16 tiles (tik_api.md 1.6)."""

EXPONENTIALS = ("float32", "float16")

CoreWork = Tuple[Tuple[Tuple[int, int, int], ...], ...]
"""Per core, its row blocks as (batch*head, first q block, end q block); in the backward op, key blocks."""


class Tiling(NamedTuple):
    """What the public kernels call TilingPara: block heights, tails and block counts (rows, blocks)."""

    Br: int
    last_Br: int
    Bc: int
    last_Bc: int
    Tr: int
    Tc: int


@dataclass(frozen=True)
class CoreSplit:
    """A named rule that spreads row blocks over cores, and its result.

    ``work`` is what the rule made of one problem; it follows from the rule, so it is neither compared nor stored.
    """

    rule: str = "even"
    block_num: int = 1
    work: CoreWork = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class TilingPlan:
    """Block heights Br (query rows) and Bc (key rows) and the split over cores; validated on construction.

    ``strategy`` says who proposed the plan and takes no part in comparing two plans.
    Knobs have defaults, so that stored plans stay readable when one is added. Raises PlanError.
    """

    Br: int
    Bc: int
    core_split: CoreSplit = CoreSplit()
    double_buffer: bool = False
    """Two K/V buffers in turn (TIK's thread_num = 2) instead of one."""
    strategy: str = field(default="", compare=False)
    slice_rows: int = 0
    """Query rows of a block that the vector unit takes at a time, a multiple of 16; 0 takes all of them."""
    exp: str = "float32"
    """Type of the scores that the vector unit works on, and of its exponential: float32 or float16."""

    def __post_init__(self) -> None:
        for name in ("Br", "Bc"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < TILE or value % TILE:
                raise PlanError(f"{name} is {value!r}; it must be a multiple of {TILE}, at least {TILE}", field=name)
        block_num = self.core_split.block_num
        if isinstance(block_num, bool) or not isinstance(block_num, int) or not 1 <= block_num <= 65535:
            raise PlanError(f"block_num is {block_num!r}; it must be 1 to 65535", field="block_num")
        if not isinstance(self.double_buffer, bool):
            raise PlanError(f"double_buffer is {self.double_buffer!r}; it must be true or false", field="double_buffer")
        rows = self.slice_rows
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0 or rows % TILE:
            raise PlanError(
                f"slice_rows is {rows!r}; it must be a multiple of {TILE}, or 0 for all of Br", field="slice_rows"
            )
        if self.exp not in EXPONENTIALS:
            raise PlanError(f"exp is {self.exp!r}; it must be one of {', '.join(EXPONENTIALS)}", field="exp")
        for name, value in (("core_split", self.core_split.rule), ("strategy", self.strategy)):
            if not isinstance(value, str):
                raise PlanError(f"{name} is {value!r}; it must be a name", field=name)

    @property
    def key(self) -> str:
        """Canonical text of everything that distinguishes two plans; defaults of later knobs are left out."""
        parts = [f"Br={self.Br}", f"Bc={self.Bc}", f"split={self.core_split.rule}/{self.core_split.block_num}"]
        for knob in fields(self):
            if knob.name not in _IDENTITY and getattr(self, knob.name) != knob.default:
                parts.append(f"{knob.name}={str(getattr(self, knob.name)).lower()}")
        return ";".join(parts)

    def tiling(self, problem: AttentionProblem) -> Tiling:
        """Tails and block counts of this plan on a problem; last_Br and last_Bc are real rows, not padded ones."""
        tr, tc = ceil_div(problem.Nq, self.Br), ceil_div(problem.N, self.Bc)
        return Tiling(self.Br, problem.Nq - (tr - 1) * self.Br, self.Bc, problem.N - (tc - 1) * self.Bc, tr, tc)

    def dealt_blocks(self, problem: AttentionProblem) -> int:
        """Blocks of one head that the core split deals out: query blocks forward, key blocks backward."""
        tiling = self.tiling(problem)
        return tiling.Tc if problem.op == "flash_attention_grad" else tiling.Tr

    def check_lengths(self, problem: AttentionProblem) -> None:
        """Raises PlanError when a block is taller than the padded sequence it tiles."""
        for name, block, length in (("Br", self.Br, problem.Nq), ("Bc", self.Bc, problem.N)):
            if block > pad(length):
                raise PlanError(f"{name} is {block}, taller than the padded length {pad(length)}", field=name)

    def to_json(self) -> dict[str, Any]:
        """Names and numbers only; the core split as its rule and block_num."""
        value: dict[str, Any] = {"Br": self.Br, "Bc": self.Bc}
        value["core_split"] = {"rule": self.core_split.rule, "block_num": self.core_split.block_num}
        for knob in fields(self):
            if knob.name not in _IDENTITY:
                value[knob.name] = getattr(self, knob.name)
        value["strategy"] = self.strategy
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TilingPlan:
        """The inverse of ``to_json``. Derived last_Br, last_Bc, Tr, Tc are ignored, unknown names raise PlanError."""
        known = {knob.name for knob in fields(cls)} | {"last_Br", "last_Bc", "Tr", "Tc"}
        unknown = sorted(set(value) - known)
        if unknown:
            raise PlanError(f"unknown plan fields: {', '.join(unknown)}", field=unknown[0])
        missing = [name for name in ("Br", "Bc") if name not in value]
        if missing:
            raise PlanError(f"a plan needs {' and '.join(missing)}", field=missing[0])
        split = value.get("core_split", {})
        if not isinstance(split, Mapping):
            raise PlanError(f"core_split is {split!r}; it must have a rule and a block_num", field="core_split")
        options = {knob.name: value[knob.name] for knob in fields(cls) if knob.name in value}
        options["core_split"] = CoreSplit(split.get("rule", "even"), split.get("block_num", 1))
        return cls(**options)


_IDENTITY = frozenset(("Br", "Bc", "core_split", "strategy"))


def ceil_div(total: int, part: int) -> int:
    """total / part, rounded up."""
    return -(-total // part)


def pad(length: int) -> int:
    """length rounded up to whole tiles of 16 rows."""
    return ceil_div(length, TILE) * TILE
