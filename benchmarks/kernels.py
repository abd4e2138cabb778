"""Our kernels against the public ones of flash-attention 1.0.0, and against the bound of their pipes.

python benchmarks/kernels.py [--quick] [--json] [--markdown]      exit code 1 where a bar is missed

Forward and backward, on the emulated Ascend 910A: model cycles, not silicon, the same on every run. Each kernel with
its fastest plan of a small grid (--quick: the plans that were fastest before). The public kernels' plans are those on
which they are right: blocks that divide N, and 128 x 128 alone under a causal mask; with 77 keys none is right. The
bound is the work of the busiest pipe at full rate, for the plan that was taken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np

from autotune.errors import PlanRejected
from autotune.kernels.davinci import timing
from autotune.kernels.davinci.explain import explain
from autotune.kernels.davinci.timeline import timeline
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete
from benchmarks import bars, pictures
from tests.real import public_kernels
from tests.real.public_cases import TRIANGLE, Case, Inputs

PROBLEMS = (
    AttentionProblem.of((2, 16, 1024, 1024, 64)),
    AttentionProblem.of((4, 8, 4096, 4096, 128), attn_mask="causal", dropout=True),
    AttentionProblem.of((1, 32, 4096, 4096, 128)),
    AttentionProblem.of((8, 16, 512, 512, 64)),
    AttentionProblem.of((1, 16, 4096, 77, 64)),
    AttentionProblem.of((1, 8, 16384, 16384, 128)),
)
LONG = 4096
"""Keys from which on the ratio to the bound has a bar."""
PUBLIC_DEFAULT = (128, 128)
PUBLIC_BLOCKS = ((128, 128), (64, 512), (128, 256), (64, 256), (256, 128))
EXPS = ("float32", "float16")


@dataclass(frozen=True)
class Op:
    """What differs between forward and backward.

    bars: geometric means over the shapes of the speed-up over the public kernel's best and default plan, and the
    speed-up of every shape, at least; cycles over the bound of every long shape, at most. blocks: ours to try, few for
    --quick. public: the precision of the public kernel; precision: of ours by the plan's exponential.
    """

    name: str
    bars: tuple[float, float, float, float]
    blocks: tuple[tuple[int, int], ...]
    few: tuple[tuple[int, int], ...]
    slices: tuple[int, ...]
    public: str
    precision: dict[str, str]


FORWARD = Op(
    "flash_attention",
    (4.0, 6.0, 1.0, 1.7),
    tuple(product((128, 256, 320, 512), (256, 384, 512, 1024))),
    ((128, 512), (256, 256), (256, 512), (256, 1024), (512, 80)),
    (0, 64, 128),
    "S fp16, exp fp32, P fp16",
    {"float32": "S fp32, exp fp32, P fp16", "float16": "S - max fp16, exp fp16, P fp16"},
)
BACKWARD = Op(
    "flash_attention_grad",
    (3.0, 4.0, 1.0, 2.2),
    tuple(product((128, 256, 512, 1024), (64, 96, 112, 128, 192, 256))),
    ((512, 112), (1024, 112), (256, 128), (512, 128), (1024, 80)),
    (0,),
    "S fp16, exp fp32, P, dP and dS fp16",
    {"float32": "S fp32, exp fp32, P, dP - D and dS fp16", "float16": "S - lse fp16, exp fp16, P, dP - D and dS fp16"},
)
PICTURE = (24_000, 24_000)
"""Cycles that the picture begins with and has: of a core in the middle of its work."""
BAR_NAMES = ("speedup_over_public_best", "speedup_over_public_default", "slowest_speedup", "over_bound")


@dataclass(frozen=True)
class Found:
    """The fastest plan: its cycles on the slowest core, its name, and cycles over the bound where that is known."""

    cycles: int
    plan: str
    over_bound: float | None = None


def main() -> int:
    """The script."""
    parser = bars.parser(__doc__, "few plans")
    parser.add_argument("--markdown", action="store_true", help="the tables as docs/kernels.md shows them")
    parser.add_argument("--timeline", type=Path, metavar="FILE.svg", help="draw a core before and after, and end")
    options = parser.parse_args()
    if options.timeline:
        options.timeline.write_text(before_and_after(EmulatedTarget("Ascend910A")), encoding="utf-8")
        return 0
    report = measure(options.quick)
    return bars.finish(report, options.json, markdown if options.markdown else text)


def measure(quick: bool) -> dict[str, Any]:
    """Every shape of both ops, and the bars."""
    target = EmulatedTarget("Ascend910A")
    report: dict[str, Any] = {"bars": {}, "ops": {}, "model": target.fingerprint}
    for op in (FORWARD, BACKWARD):
        problems = [replace(problem, op=op.name) for problem in PROBLEMS]
        shapes = [_shape(target, op, problem, op.few if quick else op.blocks) for problem in problems]
        report["ops"][op.name] = {"public_precision": op.public, "precision": op.precision, "shapes": shapes}
        report["bars"] |= {f"{op.name} {name}": held for name, held in _bars(op, shapes)}
    return report


def before_and_after(target: EmulatedTarget) -> str:
    """One core on the first shape: the public forward kernel by default, and ours with its plan of the table."""
    problem = PROBLEMS[0]
    plan = TilingPlan(256, 1024, CoreSplit("even"), slice_rows=64, exp="float16")
    ours = target.compile(problem, complete(plan, problem, target.hardware)).tik.program
    public = _build_public(problem, PUBLIC_DEFAULT)
    titles = ("flash-attention 1.0.0, 128 x 128", "ours, 256 x 1024 in slices of 64, fp16 exponential")
    drawn = [(title, timeline(program)) for title, program in zip(titles, (public, ours))]
    return pictures.svg(drawn, *PICTURE)


def _bars(op: Op, shapes: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    compared = [shape for shape in shapes if shape["public_best"]]
    best, default = ([shape[f"speedup_over_public_{of}"] for shape in compared] for of in ("best", "default"))
    bounds = [shape["float16"]["over_bound"] for shape in shapes if shape["N"] >= LONG]
    for name, value, bar in zip(BAR_NAMES, (_mean(best), _mean(default), min(best), max(bounds)), op.bars):
        yield name, (bars.at_most if name == "over_bound" else bars.at_least)(value, bar)


def _mean(values: list[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _shape(
    target: EmulatedTarget, op: Op, problem: AttentionProblem, blocks: tuple[tuple[int, int], ...]
) -> dict[str, Any]:
    public = {plan: cycles for plan in PUBLIC_BLOCKS if (cycles := _public(problem, plan))}
    ours = {precision: _ours(target, op, problem, blocks, precision) for precision in EXPS}
    best = min(public.items(), key=lambda item: item[1]) if public else None
    shape: dict[str, Any] = {
        "shape": problem.key.removeprefix(f"{op.name};"),
        "N": problem.N,
        "public_default": public.get(PUBLIC_DEFAULT),
        "public_best": {"plan": "{} x {}".format(*best[0]), "cycles": best[1]} if best else None,
        **{precision: vars(found) for precision, found in ours.items()},
    }
    if best:
        shape["speedup_over_public_best"] = best[1] / ours["float16"].cycles
        shape["speedup_over_public_default"] = public[PUBLIC_DEFAULT] / ours["float16"].cycles
    return shape


def _public(problem: AttentionProblem, blocks: tuple[int, int]) -> int | None:
    """Cycles of the public kernel; None for blocks on which it is wrong or that do not fit."""
    causal = problem.attn_mask == "causal"
    if problem.N % blocks[1] or problem.Nq % blocks[0] or (causal and blocks != PUBLIC_DEFAULT):
        return None
    try:
        return timing.estimate(_build_public(problem, blocks)).cycles
    except public_kernels.davinci.errors.CapacityError:
        return None


def _build_public(problem: AttentionProblem, blocks: tuple[int, int]) -> Any:
    """The public kernel's program. Raises CapacityError."""
    causal = problem.attn_mask == "causal"
    batch, heads, nq, n, head_dim = problem.shape
    q, k = (np.zeros((batch, heads, length, head_dim), np.float16) for length in (nq, n))
    dropout = (
        np.broadcast_to(np.float16(0), (batch, heads, nq, n)) if problem.dropout else None
    )  # only its shape counts
    given = Inputs(q, k, k, q, TRIANGLE if causal else None, dropout)
    case = Case(problem.shape, mask="tile" if causal else "none", dropout=problem.dropout, blocks=blocks)
    if problem.op == FORWARD.name:
        return public_kernels.build_forward(case, given).instance.program
    return public_kernels.build_gradients(case, given, q, np.zeros(q.shape[:3], np.float32)).instance.program


def _ours(
    target: EmulatedTarget, op: Op, problem: AttentionProblem, blocks: tuple[tuple[int, int], ...], precision: str
) -> Found:
    rule = "balanced" if problem.attn_mask == "causal" else "even"
    best: tuple[int, TilingPlan, Any] | None = None
    cut = {(min(Br, pad(problem.Nq)), min(Bc, pad(problem.N))) for Br, Bc in blocks}
    for (Br, Bc), rows, double in product(sorted(cut), op.slices, (False, True)):
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
            shape["shape"].replace(";attn_mask=", " ").replace(";dropout=true", " with dropout"),
            f"{shape['public_default'] / 1e6:.3f}" if best else "wrong",
            f"{best['cycles'] / 1e6:.3f} ({best['plan']})" if best else "wrong",
            f"{shape['float32']['cycles'] / 1e6:.3f}",
            f"{ours['cycles'] / 1e6:.3f}",
            ours["plan"],
            f"{shape['speedup_over_public_best']:.2f} / {shape['speedup_over_public_default']:.2f}" if best else "-",
            f"{ours['over_bound']:.2f}",
        ))  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown(report: dict[str, Any]) -> str:
    """Both tables."""
    return "\n\n".join(table(op["shapes"]) for op in report["ops"].values())


def text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    parts = []
    for name, op in report["ops"].items():
        precision = [f"ours, {exponential}: {rounded}" for exponential, rounded in op["precision"].items()]
        parts += [name, table(op["shapes"]), f"public: {op['public_precision']}", *precision]
    return "\n".join([*parts, *bars.lines(report), f"model {report['model']}"])


if __name__ == "__main__":
    sys.exit(main())
