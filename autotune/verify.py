"""Whether a plan computes attention: its kernel on a small problem with the same blocks, against float64.

Order is law: a candidate is timed only after it came through here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.errors import WrongAnswer
from autotune.hardware import Hardware
from autotune.kernels.flash_attention import reference
from autotune.kernels.targets.base import Target
from autotune.plan import TilingPlan, ceil_div
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

OUTPUT_TOLERANCE = 2e-3
"""Relative L2 distance of the whole output: 4 times the rounding of fp16, which is 2**-11."""
ROW_TOLERANCE = 1e-2
"""Distance of one query row over the root mean square of all rows' lengths: one wrong row hides in the whole output."""
LSE_TOLERANCE = 2e-2
"""Absolute distance of a row's log-sum-exp: 2.5 steps of fp16 from 8 to 16, where a kernel may round it to fp16."""
HEADS = 2
"""Heads (over the batch) of the small problem: enough to see one head's data reach another."""
MASKED = 0.3
"""Share of keys that a full or shared mask hides; every row sees its first key, so that no row sums nothing."""

Array = NDArray[Any]


class Verifier:
    """Verifies plans, each small problem once: two lengths with the same tails share it."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str, str], float | WrongAnswer] = {}

    def __call__(self, target: Target, problem: AttentionProblem, plan: TilingPlan) -> float:
        """Relative L2 distance of the output to float64; the plan's core split may lack its ``work``.

        Raises WrongAnswer beyond the tolerances or for a number that is none, and what compiling and running raise.
        """
        small = reduced(problem, plan)
        small_plan = reduced_plan(plan, small, target.hardware)
        case = (target.name, small.key, small_plan.key)
        if case not in self._errors:
            self._errors[case] = _judge(target, small, small_plan)
        known = self._errors[case]
        if isinstance(known, WrongAnswer):
            raise known
        return known


def reduced(problem: AttentionProblem, plan: TilingPlan) -> AttentionProblem:
    """At most two heads, and of queries and keys two whole blocks and the problem's own tail block, where it has them.

    Under a causal mask as many query blocks as reach the second key block, and as many key blocks as they reach: some
    rows see a whole key block and then cross the diagonal in another.
    """
    tiling = plan.tiling(problem)
    batch = min(problem.batch, HEADS)
    whole_rows = whole_keys = 2
    if problem.attn_mask == "causal":
        whole_rows = max(whole_rows, ceil_div(plan.Bc, plan.Br))
        whole_keys = max(1, (whole_rows * plan.Br + tiling.last_Br - 1) // plan.Bc)
    return replace(
        problem,
        batch=batch,
        heads=min(problem.heads, HEADS // batch),
        Nq=min(problem.Nq, whole_rows * plan.Br + tiling.last_Br),
        N=min(problem.N, whole_keys * plan.Bc + tiling.last_Bc),
    )


def reduced_plan(plan: TilingPlan, small: AttentionProblem, hardware: Hardware) -> TilingPlan:
    """The same blocks and rule on so few cores that one computes several row blocks, as it does in the real problem."""
    row_blocks = small.heads_total * plan.tiling(small).Tr
    cores = max(1, min(plan.core_split.block_num, row_blocks // 2))
    return complete(plan, small, replace(hardware, cores=cores))


def _judge(target: Target, problem: AttentionProblem, plan: TilingPlan) -> float | WrongAnswer:
    inputs = _inputs(problem)
    outputs = target.compile(problem, plan).run(inputs)
    o, lse = reference.forward(inputs["q"], inputs["k"], inputs["v"], problem, inputs.get("attn_mask"))
    try:
        return _compare(outputs["o"].astype(np.float64), o, outputs["lse"].astype(np.float64), lse)
    except WrongAnswer as error:
        return error


def _inputs(problem: AttentionProblem) -> dict[str, Array]:
    """Normal numbers, always the same: scores of about 1, some 4 times that."""
    random = np.random.default_rng(0)
    batch, heads, nq, n, head_dim = problem.shape
    shapes = {"q": (batch, heads, nq, head_dim), "k": (batch, heads, n, head_dim), "v": (batch, heads, n, head_dim)}
    inputs: dict[str, Array] = {
        name: random.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()
    }
    if problem.attn_mask in ("full", "shared"):
        mask = random.random((batch if problem.attn_mask == "full" else 1, nq, n)) < MASKED
        mask[..., 0] = False
        inputs["attn_mask"] = mask.astype(np.float16)
    return inputs


def _compare(o: Array, exact_o: Array, lse: Array, exact_lse: Array) -> float:
    for name, given in (("output", o), ("log-sum-exp", lse)):
        if not np.isfinite(given).all():
            raise WrongAnswer(f"the {name} has {np.count_nonzero(~np.isfinite(given))} values that are no numbers")
    distance, length = (np.linalg.norm(rows, axis=-1) for rows in (o - exact_o, exact_o))
    error = float(np.linalg.norm(distance) / np.linalg.norm(length))
    _limit("the output", error, OUTPUT_TOLERANCE, distance)
    _limit("a row of the output", float(distance.max() / np.sqrt(np.mean(length**2))), ROW_TOLERANCE, distance)
    lse_distance = np.abs(lse - exact_lse)
    _limit("a log-sum-exp", float(lse_distance.max()), LSE_TOLERANCE, lse_distance)
    return error


def _limit(what: str, found: float, allowed: float, by_row: Array) -> None:
    """by_row: (batch, heads, Nq), to say where it is worst."""
    if found > allowed:
        batch, head, row = np.unravel_index(int(by_row.argmax()), by_row.shape)
        raise WrongAnswer(
            f"{what} is {found:.1e} from float64, at most {allowed:.0e} is right; worst in batch {batch}, head {head}, "
            f"query row {row} of the small problem"
        )
