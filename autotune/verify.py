"""Whether a plan computes attention: its kernel on a small problem with the same blocks, against float64.

Order is law: a candidate is timed only after it came through here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.errors import WrongAnswer
from autotune.hardware import Hardware
from autotune.kernels.flash_attention import reference
from autotune.kernels.flash_attention.reference import WINDOW_BLOCK
from autotune.kernels.flash_attention.windows import some_see_nothing
from autotune.kernels.targets.base import Target
from autotune.plan import TilingPlan, ceil_div
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

OUTPUT_TOLERANCE = 2e-3
"""Relative L2 distance of the whole output: 4 times the rounding of fp16, which is 2**-11."""
ROW_TOLERANCE = 1e-2
"""Distance of one row over the root mean square of all rows' lengths: one wrong row hides in the whole output."""
GRADIENT_TOLERANCE = 4e-3
"""Relative L2 distance of a whole gradient."""
LEAST_GRADIENT = 0.05
"""Share of the output's gradient, over sqrt(head_dim), that a gradient counts as at least."""
LEAST_OUTPUT = 0.5
"""Length that an output counts as at least, over that of as many means of N unit normal numbers: few may cancel."""
LSE_TOLERANCE = 2e-2
"""Absolute distance of a row's log-sum-exp: 2.5 steps of fp16 from 8 to 16, where a kernel may round it to fp16."""
LEAST_LSE = -1e30
"""The log-sum-exp of a row without keys is -inf, or less than this where a chip saturates."""
HEADS = 2
"""Heads (over the batch) of the small problem: enough to see one head's data reach another."""
MASKED = 0.3
"""Share of keys that a full or shared mask hides; every row sees its first key, so that no row sums nothing."""
KEEP = 0.5
"""Share of the probabilities that dropout keeps, and each row's first beside them. A row with one key has the gradients
0, and cancels exactly where 1 / KEEP is a power of two."""

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
    rows see a whole key block and then cross the diagonal in another. Windows are shortened, to at most a key block,
    and lengths are such that some rows leave the first key block out, some the last, and some see no key where some do
    so in the problem.
    """
    tiling = plan.tiling(problem)
    batch = min(problem.batch, HEADS)
    whole_rows = whole_keys = 2
    if problem.attn_mask == "causal":
        whole_rows = max(whole_rows, ceil_div(plan.Bc, plan.Br))
        whole_keys = max(1, (whole_rows * plan.Br + tiling.last_Br - 1) // plan.Bc)
    window, tokens = _shorten(problem.window, (problem.Nq - 1, problem.N - 1), partial(_last_part, block=plan.Bc))
    ends = ((problem.Nq - 1) // WINDOW_BLOCK, (problem.N - 1) // WINDOW_BLOCK)
    block_window, blocks = _shorten(problem.block_window, ends, partial(min, 1))
    if window or block_window:
        reach = plan.Bc + max(tokens, (blocks + 1) * WINDOW_BLOCK if block_window else 0)
        whole_keys = max(whole_keys, 1 + ceil_div(reach + plan.Br, plan.Bc))
        if some_see_nothing(problem):
            reach += (whole_keys + 1) * plan.Bc
        whole_rows = max(whole_rows, 1 + ceil_div(reach, plan.Br))
    return replace(
        problem,
        batch=batch,
        heads=min(problem.heads, HEADS // batch),
        Nq=min(problem.Nq, whole_rows * plan.Br + tiling.last_Br),
        N=min(problem.N, whole_keys * plan.Bc + tiling.last_Bc),
        window=window,
        block_window=block_window,
    )


Window = tuple[int, int] | None


def _shorten(window: Window, ends: tuple[int, int], short: Callable[[int], int]) -> tuple[Window, int]:
    """A window whose sides are shortened where some key lies outside of them, and the longest of these then.

    ends: the least sides outside of which there is no key; such a side stays.
    """
    if window is None:
        return None, 0
    cut = [(short(side), side < end) for side, end in zip(window, ends)]
    before, after = (new if hides else side for side, (new, hides) in zip(window, cut))
    return (before, after), max((new for new, hides in cut if hides), default=0)


def _last_part(tokens: int, block: int) -> int:
    """What is left of so many tokens without whole blocks: 0 of none, else 1 to ``block``."""
    return (tokens - 1) % block + 1 if tokens else 0


def reduced_plan(plan: TilingPlan, small: AttentionProblem, hardware: Hardware) -> TilingPlan:
    """The same blocks and rule on so few cores that one computes several blocks, as it does in the real problem."""
    blocks = small.heads_total * plan.dealt_blocks(small)
    cores = max(1, min(plan.core_split.block_num, blocks // 2))
    return complete(plan, small, replace(hardware, cores=cores))


def _judge(target: Target, problem: AttentionProblem, plan: TilingPlan) -> float | WrongAnswer:
    kernel, inputs = target.compile(problem, plan), _inputs(problem)
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    extras: dict[str, Any] = {name: array for name, array in inputs.items() if name not in ("q", "k", "v")}
    o, lse = reference.forward(q, k, v, problem, **extras)
    try:
        if problem.op == "flash_attention_grad":
            do = _do(problem)
            known: dict[str, Array] = {"o": o.astype(np.float16), "lse": lse.astype(np.float32), "do": do}
            exact = dict(zip(("dq", "dk", "dv"), reference.gradients(q, k, v, do, problem, **extras)))
            return _compare_gradients(kernel.run({**inputs, **known}), exact, do.astype(np.float64))
        outputs = kernel.run(inputs)
        return _compare(outputs["o"].astype(np.float64), o, outputs["lse"].astype(np.float64), lse, problem.N)
    except WrongAnswer as error:
        return error


def _inputs(problem: AttentionProblem) -> dict[str, Array]:
    """Normal numbers, always the same: scores of about 1, some 4 times that."""
    random = np.random.default_rng(0)
    batch, heads, nq, n, head_dim = problem.shape
    shapes = {"q": (batch, heads, nq, head_dim), "k": (batch, heads, n, head_dim), "v": (batch, heads, n, head_dim)}
    inputs: dict[str, Array] = {
        name: _stored(random.standard_normal(shape), problem.dtype) for name, shape in shapes.items()
    }
    if problem.attn_mask in ("full", "shared"):
        mask = random.random((batch if problem.attn_mask == "full" else 1, nq, n)) < MASKED
        mask[..., 0] = False
        inputs["attn_mask"] = mask.astype(np.float16)
    if problem.dropout:
        kept = random.random((batch, heads, nq, n)) < KEEP
        kept[..., 0] = True
        inputs["dropout_mask"] = np.where(kept, 1 / KEEP, 0.0).astype(np.float16)
    if problem.alibi:
        inputs["alibi"] = random.normal(scale=2.0, size=(batch, heads, 1, n)).astype(np.float16)
    return inputs


def _stored(numbers: Array, dtype: str) -> Array:
    """Numbers that a problem's type has: float16, or float32 cut to the 16 upper bits, which are a bfloat16."""
    if dtype == "float16":
        return numbers.astype(np.float16)
    bits = numbers.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def _do(problem: AttentionProblem) -> Array:
    """The output's gradient: normal numbers, always the same."""
    batch, heads, nq, _, head_dim = problem.shape
    return np.random.default_rng(1).standard_normal((batch, heads, nq, head_dim)).astype(np.float16)


def _compare(o: Array, exact_o: Array, lse: Array, exact_lse: Array, keys: int) -> float:
    """A row without keys has to have zeros and a log-sum-exp whose exponential is 0."""
    without_keys = np.isinf(exact_lse)
    _finite("output", o)
    _finite("log-sum-exp", lse[~without_keys])
    least = LEAST_OUTPUT * (o.size / keys) ** 0.5
    error = _compare_rows("the output", o, exact_o, OUTPUT_TOLERANCE, least)
    wrong = without_keys & (o.any(axis=-1) | ~(lse < LEAST_LSE))
    _limit("a row without keys", float(wrong.max()), 0.0, wrong)
    lse_distance = np.abs(np.where(without_keys, 0.0, lse) - np.where(without_keys, 0.0, exact_lse))
    _limit("a log-sum-exp", float(lse_distance.max()), LSE_TOLERANCE, lse_distance)
    return error


def _compare_gradients(found: Mapping[str, Array], exact: Mapping[str, Array], do: Array) -> float:
    """The largest of the three gradients' distances.

    Where a row sees one key, dQ and dK cancel to rounding: they count as at least a share of the output's gradient.
    """
    for name in exact:
        _finite(f"gradient {name}", found[name])
    least = LEAST_GRADIENT * float(np.linalg.norm(do)) / do.shape[-1] ** 0.5
    return max(
        _compare_rows(f"gradient {name}", found[name].astype(np.float64), exact[name], GRADIENT_TOLERANCE, least)
        for name in exact
    )


def _finite(name: str, given: Array) -> None:
    if not np.isfinite(given).all():
        raise WrongAnswer(f"the {name} has {np.count_nonzero(~np.isfinite(given))} values that are no numbers")


def _compare_rows(what: str, found: Array, exact: Array, tolerance: float, least: float = 0.0) -> float:
    """Relative L2 distance of the whole, whose length is at least ``least``; a row is held against the mean row."""
    distance = np.linalg.norm(found - exact, axis=-1)
    length = max(float(np.linalg.norm(exact)), least)
    error = float(np.linalg.norm(distance)) / length
    _limit(what, error, tolerance, distance)
    _limit(f"a row of {what}", float(distance.max()) * distance.size**0.5 / length, ROW_TOLERANCE, distance)
    return error


def _limit(what: str, found: float, allowed: float, by_row: Array) -> None:
    """by_row: (batch, heads, rows), to say where it is worst."""
    if found > allowed:
        batch, head, row = np.unravel_index(int(by_row.argmax()), by_row.shape)
        raise WrongAnswer(
            f"{what} is {found:.1e} from float64, at most {allowed:.0e} is right; worst in batch {batch}, head {head}, "
            f"row {row} of the small problem"
        )
