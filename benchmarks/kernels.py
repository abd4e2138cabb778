"""Our forward kernel against the public one of flash-attention 1.0.0, and against the bound of its pipes.

python benchmarks/kernels.py [--quick] [--json] [--markdown]      exit code 1 where a bar is missed

Both on the emulated Ascend 910A: model cycles, not silicon, the same on every run. Each kernel with its fastest plan of
a small grid (--quick: the plans that were fastest before). The public kernel's plans are those on which it is right:
blocks that divide N, and 128 x 128 alone under a causal mask; with 77 keys it is right on none. It has no dropout here:
our kernel does not compute it yet. The bound is the work of the busiest pipe at full rate, for the plan that was taken.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np

from autotune.errors import PlanRejected
from autotune.kernels.davinci import timing
from autotune.kernels.davinci.explain import explain
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete
from benchmarks import bars
from tests.real import public_kernels
from tests.real.public_cases import TRIANGLE, Case, Inputs

PROBLEMS = (
    AttentionProblem.of((2, 16, 1024, 1024, 64)),
    AttentionProblem.of((4, 8, 4096, 4096, 128), attn_mask="causal"),
    AttentionProblem.of((1, 32, 4096, 4096, 128)),
    AttentionProblem.of((8, 16, 512, 512, 64)),
    AttentionProblem.of((1, 16, 4096, 77, 64)),
    AttentionProblem.of((1, 8, 16384, 16384, 128)),
)
LONG = 4096
"""Keys from which on the ratio to the bound has a bar."""
BARS = {"speedup_over_public_best": 4.0, "speedup_over_public_default": 6.0, "slowest_speedup": 1.0, "over_bound": 1.7}
"""Geometric means over the shapes at least; every shape at least; every long shape at most."""
PUBLIC_DEFAULT = (128, 128)
PUBLIC_BLOCKS = ((128, 128), (64, 512), (128, 256), (64, 256), (256, 128))
OUR_BLOCKS = tuple(product((128, 256, 320, 512), (256, 384, 512, 1024)))
QUICK_BLOCKS = ((128, 512), (256, 256), (256, 512), (256, 1024), (512, 80))
PUBLIC_PRECISION = "S fp16, exp fp32, P fp16"
OUR_PRECISION = {"float32": "S fp32, exp fp32, P fp16", "float16": "S - max fp16, exp fp16, P fp16"}


@dataclass(frozen=True)
class Found:
    """The fastest plan: its cycles on the slowest core, its name, and cycles over the bound where that is known."""

    cycles: int
    plan: str
    over_bound: float | None = None


def main() -> int:
    """The script."""
    parser = bars.parser(__doc__, "few plans")
    parser.add_argument("--markdown", action="store_true", help="the table as docs/kernels.md shows it")
    options = parser.parse_args()
    report = measure(QUICK_BLOCKS if options.quick else OUR_BLOCKS)
    return bars.finish(report, options.json, (lambda r: table(r["shapes"])) if options.markdown else text)


def measure(blocks: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """Every shape, and the bars."""
    target = EmulatedTarget("Ascend910A")
    shapes = [_shape(target, problem, blocks) for problem in PROBLEMS]
    compared = [shape for shape in shapes if shape["public_best"]]
    best, default = ([shape[f"speedup_over_public_{of}"] for shape in compared] for of in ("best", "default"))
    bounds = [shape["float16"]["over_bound"] for shape in shapes if shape["N"] >= LONG]
    values = dict(zip(BARS, (_mean(best), _mean(default), min(best), max(bounds))))
    met = {name: bars.at_most if name == "over_bound" else bars.at_least for name in BARS}
    held = {name: met[name](value, BARS[name]) for name, value in values.items()}
    return {"bars": held, "shapes": shapes, "model": target.fingerprint}


def _mean(values: list[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _shape(target: EmulatedTarget, problem: AttentionProblem, blocks: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    public = {plan: cycles for plan in PUBLIC_BLOCKS if (cycles := _public(problem, plan))}
    ours = {precision: _ours(target, problem, blocks, precision) for precision in OUR_PRECISION}
    best = min(public.items(), key=lambda item: item[1]) if public else None
    shape: dict[str, Any] = {
        "shape": problem.key.removeprefix("flash_attention;"),
        "N": problem.N,
        "public_default": public.get(PUBLIC_DEFAULT),
        "public_best": {"plan": "{} x {}".format(*best[0]), "cycles": best[1]} if best else None,
        "public_precision": PUBLIC_PRECISION,
    }
    for precision, found in ours.items():
        shape[precision] = {**vars(found), "precision": OUR_PRECISION[precision]}
    if best:
        shape["speedup_over_public_best"] = best[1] / ours["float16"].cycles
        shape["speedup_over_public_default"] = public[PUBLIC_DEFAULT] / ours["float16"].cycles
    return shape


def _public(problem: AttentionProblem, blocks: tuple[int, int]) -> int | None:
    """Cycles of the public kernel; None for blocks on which it is wrong or that do not fit."""
    causal = problem.attn_mask == "causal"
    if problem.N % blocks[1] or problem.Nq % blocks[0] or (causal and blocks != PUBLIC_DEFAULT):
        return None
    batch, heads, nq, n, head_dim = problem.shape
    q, k = (np.zeros((batch, heads, length, head_dim), np.float16) for length in (nq, n))
    given = Inputs(q, k, k, q, TRIANGLE if causal else None, None)
    case = Case(problem.shape, mask="tile" if causal else "none", blocks=blocks)
    try:
        return timing.estimate(public_kernels.build_forward(case, given).instance.program).cycles
    except public_kernels.davinci.errors.CapacityError:
        return None


def _ours(
    target: EmulatedTarget, problem: AttentionProblem, blocks: tuple[tuple[int, int], ...], precision: str
) -> Found:
    rule = "balanced" if problem.attn_mask == "causal" else "even"
    best: tuple[int, TilingPlan, Any] | None = None
    cut = {(min(Br, pad(problem.Nq)), min(Bc, pad(problem.N))) for Br, Bc in blocks}
    for (Br, Bc), rows, double in product(sorted(cut), (0, 64, 128), (False, True)):
        plan = TilingPlan(Br, Bc, CoreSplit(rule), double, slice_rows=rows, exp=precision)
        try:
            program = target.compile(problem, complete(plan, problem, target.hardware)).tik.program
        except PlanRejected:
            continue
        cycles = timing.estimate(program).cycles
        if best is None or cycles < best[0]:
            best = cycles, plan, program
    assert best is not None
    cycles, plan, program = best
    slices = f" in slices of {plan.slice_rows}" if plan.slice_rows else ""
    name = f"{plan.Br} x {plan.Bc}{slices}{', double buffer' if plan.double_buffer else ''}"
    return Found(cycles, name, cycles / explain(program).bound[1])


def table(shapes: list[dict[str, Any]]) -> str:
    """Markdown; millions of cycles."""
    head = ("shape", "public 128 x 128", "public best", "ours, fp32 exp", "ours, fp16 exp", "plan", "best / default",
            "over the bound")  # fmt: skip
    lines = [head, tuple("---" for _ in head)]
    for shape in shapes:
        best, ours = shape["public_best"], shape["float16"]
        lines.append((
            shape["shape"].replace(";attn_mask=", " "),
            f"{shape['public_default'] / 1e6:.3f}" if best else "wrong",
            f"{best['cycles'] / 1e6:.3f} ({best['plan']})" if best else "wrong",
            f"{shape['float32']['cycles'] / 1e6:.3f}",
            f"{ours['cycles'] / 1e6:.3f}",
            ours["plan"],
            f"{shape['speedup_over_public_best']:.2f} / {shape['speedup_over_public_default']:.2f}" if best else "-",
            f"{ours['over_bound']:.2f}",
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    precision = [f"public: {PUBLIC_PRECISION}"] + [
        f"ours, {name}: {rounded}" for name, rounded in OUR_PRECISION.items()
    ]
    return "\n".join([table(report["shapes"]), *precision, *bars.lines(report), f"model {report['model']}"])


if __name__ == "__main__":
    sys.exit(main())
