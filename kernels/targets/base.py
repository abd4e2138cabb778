"""The protocol every target follows: compile a plan, run it, time it.

Order is law: the plan is checked, compiled and verified against float64; only then it is timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from autotune.errors import RunFailed
from autotune.hardware import Hardware
from autotune.outcome import Timing
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

if TYPE_CHECKING:
    from autotune.kernels.davinci.costs import Profile
    from autotune.kernels.davinci.program import Program

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class TimingBudget:
    """How much measuring a candidate may cost. An emulated clock needs one run and ignores it."""

    repeats: int = 1
    seconds: float = 10.0


class Compiled(Protocol):
    """A kernel built for one problem and plan."""

    def run(self, inputs: Arrays) -> Arrays:
        """Row-major arrays in, row-major arrays out.

        inputs: ``q`` (B, H, Nq, D) and ``k``, ``v`` (B, H, N, D), float16 (of a bfloat16 problem float32 numbers that
        bfloat16 has, and so is o), unscaled: the kernel's adapter applies
        1/sqrt(D). ``attn_mask`` where the problem has one: (B, Nq, N) for full, (1, Nq, N) for shared; 1 = masked.
        ``dropout_mask`` (B, H, Nq, N) of 0 and 1/keep, and ``alibi`` (B, H, 1, N), likewise.
        outputs: ``o`` (B, H, Nq, D) float16 and ``lse`` (B, H, Nq) float32, the natural log-sum-exp of a row's scores.
        Op flash_attention_grad: inputs also ``o`` and ``lse`` as the forward op gives them and ``do`` (B, H, Nq, D)
        float16; outputs ``dq`` (B, H, Nq, D) and ``dk``, ``dv`` (B, H, N, D), float32.
        Raises RunFailed.
        """
        ...

    def time(self, budget: TimingBudget) -> Timing:
        """The time of one launch. Raises RunFailed."""
        ...


@runtime_checkable
class Recorded(Protocol):
    """What a compiled kernel has besides where its time is the timing model's: it can be explained."""

    @property
    def program(self) -> Program:
        """The recorded kernel."""
        ...

    @property
    def profile(self) -> Profile:
        """The numbers that it is timed with."""
        ...


@runtime_checkable
class Racing(Protocol):
    """What a target has besides where times are measured: close plans are told apart by running them in turn."""

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Mapping[str, Timing]:
        """The time of each plan by its key, the winner first; the first plan given keeps its place in a tie.

        The plans' core splits have their work. Raises CandidateError.
        """
        ...


class Target(Protocol):
    """A place where kernels run: ``name`` is what is typed, ``fingerprint`` changes when old times no longer hold."""

    name: str
    hardware: Hardware
    fingerprint: str

    def compile(self, problem: AttentionProblem, plan: TilingPlan) -> Compiled:
        """Builds the kernel. Raises PlanRejected (breaks a limit), CompileFailed."""
        ...


def input_shapes(problem: AttentionProblem) -> dict[str, tuple[int, ...]]:
    """The inputs of ``Compiled.run`` and their shapes."""
    batch, heads, nq, n, head_dim = problem.shape
    shapes: dict[str, tuple[int, ...]] = {
        "q": (batch, heads, nq, head_dim),
        "k": (batch, heads, n, head_dim),
        "v": (batch, heads, n, head_dim),
    }
    if problem.op == "flash_attention_grad":
        shapes |= {"o": shapes["q"], "do": shapes["q"], "lse": (batch, heads, nq)}
    if problem.attn_mask in ("full", "shared"):
        shapes["attn_mask"] = (batch if problem.attn_mask == "full" else 1, nq, n)
    if problem.dropout:
        shapes["dropout_mask"] = (batch, heads, nq, n)
    if problem.alibi:
        shapes["alibi"] = (batch, heads, 1, n)
    return shapes


def check_inputs(problem: AttentionProblem, inputs: Arrays) -> None:
    """Raises RunFailed for an input that is missing or of another shape."""
    for name, shape in input_shapes(problem).items():
        given = inputs[name].shape if name in inputs else None
        if given != shape:
            raise RunFailed(f"input {name} has shape {given}, the kernel was built for {shape}")
