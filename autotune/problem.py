"""The question: one attention problem, and the key under which its answer is stored.

Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import log2
from typing import Any, Mapping, Tuple

from autotune.errors import ProblemError

OPS = ("flash_attention", "flash_attention_grad")
ATTN_MASKS = ("none", "full", "shared", "causal")
DTYPES = ("float16", "bfloat16")

MAX_HEAD_DIM = 256
MAX_LENGTH = 1 << 20
"""Longest query or key sequence, tokens: 64 times the longest public benchmark, and far below 2**31 loop counts."""
MAX_HEADS_TOTAL = 1 << 14
"""Largest batch * heads: bounds the core split's result, which names every head once."""
MAX_SCORES = 1 << 42
"""Largest batch * heads * Nq * N: bounds what one request can make the host do."""

SHAPE_FORM = "B,H,Nq,N,D (or B,H,N,D when Nq = N), for example 2,16,1024,1024,64"
SHAPE_NAMES = ("B", "H", "Nq", "N", "D")


@dataclass(frozen=True)
class AttentionProblem:
    """One attention problem, in tokens and heads; validated on construction.

    ``window`` is (prev, next) in tokens: key t is seen by query i when i - prev <= t <= i + next.
    ``block_window`` is (prev_block_num, next_block_num) in blocks of 128 tokens, whatever the tiling.
    ``attn_mask`` is additive: -10000 times the mask. Raises ProblemError.
    """

    op: str
    batch: int
    heads: int
    Nq: int
    N: int
    head_dim: int
    dtype: str = "float16"
    attn_mask: str = "none"
    dropout: bool = False
    alibi: bool = False
    window: Tuple[int, int] | None = None
    block_window: Tuple[int, int] | None = None
    high_precision: bool = False

    def __post_init__(self) -> None:
        for name, allowed in (("op", OPS), ("attn_mask", ATTN_MASKS), ("dtype", DTYPES)):
            value = getattr(self, name)
            if value not in allowed:
                raise ProblemError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}", field=name)
        for name, value in zip(SHAPE_NAMES, self.shape):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ProblemError(f"shape: {name} is {value!r}; it must be a whole number", field="shape")
            if value < 1:
                raise ProblemError(f"shape: {name} is {value}; every dimension must be at least 1", field="shape")
        if self.head_dim > MAX_HEAD_DIM:
            raise ProblemError(
                f"shape: D is {self.head_dim}; the head dimension is at most {MAX_HEAD_DIM}", field="shape"
            )
        for name, length in (("Nq", self.Nq), ("N", self.N)):
            if length > MAX_LENGTH:
                raise ProblemError(
                    f"shape: {name} is {length}; a sequence is at most {MAX_LENGTH} tokens", field="shape"
                )
        if self.heads_total > MAX_HEADS_TOTAL:
            raise ProblemError(f"shape: B*H is {self.heads_total}; it is at most {MAX_HEADS_TOTAL}", field="shape")
        if self.scores > MAX_SCORES:
            raise ProblemError(f"shape: B*H*Nq*N is {self.scores}; it is at most {MAX_SCORES}", field="shape")
        for name in ("dropout", "alibi", "high_precision"):
            if not isinstance(getattr(self, name), bool):
                raise ProblemError(f"{name} is {getattr(self, name)!r}; it must be true or false", field=name)
        for name in ("window", "block_window"):
            object.__setattr__(self, name, _window(name, getattr(self, name)))

    @property
    def shape(self) -> Tuple[int, int, int, int, int]:
        """(B, H, Nq, N, D)."""
        return (self.batch, self.heads, self.Nq, self.N, self.head_dim)

    @property
    def heads_total(self) -> int:
        """batch * heads: the number of independent attention matrices."""
        return self.batch * self.heads

    @property
    def scores(self) -> int:
        """Number of elements of all score matrices, batch * heads * Nq * N."""
        return self.heads_total * self.Nq * self.N

    @cached_property
    def doublings(self) -> Tuple[float, float, float]:
        """log2 of B*H, of Nq and of N: the space in which problems are near or far."""
        return (log2(self.heads_total), log2(self.Nq), log2(self.N))

    @cached_property
    def key(self) -> str:
        """Canonical key: op, shape, then every field that is not at its default.

        Defaults are left out so that a field added later does not change old keys.
        """
        parts = [self.op, ",".join(str(size) for size in self.shape)]
        for name, default in _OPTIONS:
            value = getattr(self, name)
            if value != default:
                text = ",".join(str(v) for v in value) if isinstance(value, tuple) else str(value).lower()
                parts.append(f"{name}={text}")
        return ";".join(parts)

    def with_shape(self, shape: Tuple[int, int, int, int, int]) -> AttentionProblem:
        """The same problem at another (B, H, Nq, N, D)."""
        batch, heads, nq, n, head_dim = shape
        return replace(self, batch=batch, heads=heads, Nq=nq, N=n, head_dim=head_dim)

    def to_json(self) -> dict[str, Any]:
        """The wire form: ``shape`` as a list, everything else by its field name."""
        value: dict[str, Any] = {"op": self.op, "shape": list(self.shape)}
        for name, _ in _OPTIONS:
            item = getattr(self, name)
            value[name] = list(item) if isinstance(item, tuple) else item
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AttentionProblem:
        """The inverse of ``to_json``; unknown names raise ProblemError."""
        options = {name: item for name, item in value.items() if name != "shape"}
        known = {field.name for field in fields(cls)} - _SHAPE_FIELDS | {"op"}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ProblemError(f"unknown problem fields: {', '.join(unknown)}", field=unknown[0])
        return cls.of(value.get("shape", ()), **options)

    @classmethod
    def of(cls, shape: Any, op: str = "flash_attention", **options: Any) -> AttentionProblem:
        """From a shape of five numbers (B, H, Nq, N, D), or four (B, H, N, D) where Nq = N."""
        if not isinstance(shape, (tuple, list)):
            raise ProblemError(f"shape is {shape!r}; write it as {SHAPE_FORM}", field="shape")
        sizes = tuple(shape)
        if len(sizes) == 4:
            sizes = (sizes[0], sizes[1], sizes[2], sizes[2], sizes[3])
        if len(sizes) != 5:
            raise ProblemError(f"shape has {len(sizes)} numbers; write it as {SHAPE_FORM}", field="shape")
        return cls(op, *sizes, **options)


_SHAPE_FIELDS = frozenset(("op", "batch", "heads", "Nq", "N", "head_dim"))
_OPTIONS = tuple((field.name, field.default) for field in fields(AttentionProblem) if field.name not in _SHAPE_FIELDS)


def parse_shape(text: str) -> Tuple[int, ...]:
    """``"2,16,1024,1024,64"`` to its five numbers (four stay four). Raises ProblemError.

    Strict on purpose: plain ASCII digits and commas only, so that one shape has one spelling.
    """
    parts = [part.strip(" ") for part in text.split(",")]
    if len(parts) not in (4, 5):
        raise ProblemError(f"shape {text[:60]!r} has {len(parts)} number(s); write it as {SHAPE_FORM}", field="shape")
    return tuple(_whole_number("shape", part, SHAPE_FORM) for part in parts)


def parse_window(name: str, text: str) -> Tuple[int, int]:
    """``"511,0"`` to (prev, next); ``name`` is the parameter it was given for. Raises ProblemError."""
    parts = [part.strip(" ") for part in text.split(",")]
    form = "two whole numbers prev,next, for example 511,0"
    if len(parts) != 2:
        raise ProblemError(f"{name} {text[:60]!r} has {len(parts)} number(s); write it as {form}", field=name)
    return (_whole_number(name, parts[0], form), _whole_number(name, parts[1], form))


def _whole_number(name: str, part: str, form: str) -> int:
    if not (part.isascii() and part.isdigit() and len(part) <= 12):
        raise ProblemError(f"{name}: {part[:30]!r} is no whole number; write it as {form}", field=name)
    return int(part)


def _window(name: str, value: Any) -> Tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ProblemError(f"{name} is {value!r}; it must be two whole numbers: prev,next", field=name)
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ProblemError(f"{name} is {value!r}; both numbers must be whole and at least 0", field=name)
    return (value[0], value[1])
