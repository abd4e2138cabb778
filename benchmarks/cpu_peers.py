"""Our kernel on this CPU beside numpy's matmul, and as a fraction of the peak rate of fused multiply-adds.

python benchmarks/cpu_peers.py [--quick] [--json]      exit code 1 where a bar is missed, 2 without a C compiler

One core each, CPU time, both in turn; medians of 15 rounds (5 with --quick). numpy's attention is the plain one:
softmax of q k^T, one head at a time, in fp32. The peak is a loop of independent fused multiply-adds on registers, built
with the same compiler and flags and run in the same rounds.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np

from autotune.errors import TargetUnavailable
from autotune.hardware import Hardware
from autotune.kernels.native.build import build, find_compiler
from autotune.kernels.native.library import Launch, Library
from autotune.kernels.native.machine import identity
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete
from benchmarks import bars

CASES = {
    "1x8x512x512x64": ((1, 8, 512, 512, 64), "none"),
    "1x8x1024x1024x64": ((1, 8, 1024, 1024, 64), "none"),
    "1x8x1024x1024x128_causal": ((1, 8, 1024, 1024, 128), "causal"),
    "1x8x1024x77x64": ((1, 8, 1024, 77, 64), "none"),
    "1x2x2048x2048x64_causal": ((1, 2, 2048, 2048, 64), "causal"),
}
BLOCKS = (256, 256)
"""Br and Bc, or the whole length where that is shorter: good nearly everywhere, and no tuning in a comparison."""
LEAST_SPEEDUP = 1.5
"""Geometric mean over numpy."""
ONE_CORE = Hardware("one core", 1, 0)

PEAK_SOURCE = """
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
typedef float vector __attribute__((vector_size(LANES * sizeof(float))));
static vector sink;

/* Returns the floating-point operations done: 12 different chains, so that no unit waits and none is left out. */
double multiply_adds(long rounds, float by) {
    vector sum[12], factor = by - (vector){0};
    for (int chain = 0; chain < 12; chain++)
        sum[chain] = factor * (float)chain;
    for (long i = 0; i < rounds; i++)
#pragma GCC unroll 12
        for (int chain = 0; chain < 12; chain++)
            sum[chain] = sum[chain] * factor + factor;
    for (int chain = 0; chain < 12; chain++)
        sink += sum[chain];
    return 2.0 * 12 * LANES * rounds;
}
"""
PEAK_ROUNDS = 200_000


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "5 rounds instead of 15").parse_args()
    try:
        report = measure(rounds=5 if options.quick else 15)
    except TargetUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    return bars.finish(report, options.json, text)


def measure(rounds: int) -> dict[str, Any]:
    """Speed-ups over numpy, and fractions of the peak."""
    with tempfile.TemporaryDirectory() as folder:
        library, peak = build_both(Path(folder))
        cases = {name: case(library, shape, mask, peak, rounds) for name, (shape, mask) in CASES.items()}
    speedup = statistics.geometric_mean(found["speedup"] for found in cases.values())
    return {"bars": {"speedup_over_numpy": bars.at_least(speedup, LEAST_SPEEDUP)}, "figures": cases}


def build_both(folder: Path) -> tuple[Library, Callable[[], float]]:
    """The kernel, and what measures the peak in floating-point operations a microsecond of CPU time."""
    compiler = find_compiler()
    source = folder / "peak.c"
    source.write_text(PEAK_SOURCE)
    function = ctypes.CDLL(str(build(compiler, identity(), folder / "peak", source))).multiply_adds
    function.argtypes, function.restype = (ctypes.c_long, ctypes.c_float), ctypes.c_double

    def peak() -> float:
        start = time.thread_time_ns()
        done: float = function(PEAK_ROUNDS, 0.5)
        return done / (time.thread_time_ns() - start) * 1e3

    return Library(build(compiler, identity(), folder / "kernel")), peak


def case(library: Library, shape: Any, mask: str, peak: Callable[[], float], rounds: int) -> dict[str, float]:
    """One problem: all three in turn."""
    problem = AttentionProblem.of(shape, attn_mask=mask)
    inputs = draw(problem)
    rows, keys = (min(block, -(-length // 16) * 16) for block, length in zip(BLOCKS, (problem.Nq, problem.N)))
    launch = Launch(library, problem, complete(TilingPlan(rows, keys), problem, ONE_CORE), inputs)
    check(launch, problem, inputs)
    found = [(launch().cpu_us, numpy_us(problem, inputs), peak()) for _ in range(rounds)]
    ours, numpy_, rate = (statistics.median(column) for column in zip(*found))
    scores = sum(min(row + 1, problem.N) for row in range(problem.Nq)) if mask == "causal" else problem.Nq * problem.N
    flops = 4.0 * problem.heads_total * scores * problem.head_dim
    return {"ours_us": ours, "numpy_us": numpy_, "speedup": numpy_ / ours, "peak_fraction": flops / ours / rate}


def draw(problem: AttentionProblem) -> dict[str, Any]:
    """Normal numbers in fp32."""
    random = np.random.default_rng(0)
    batch, heads, nq, n, d = problem.shape
    lengths = zip("qkv", (nq, n, n))
    return {name: random.standard_normal((batch, heads, length, d), np.float32) for name, length in lengths}


def check(launch: Launch, problem: AttentionProblem, inputs: dict[str, Any]) -> None:
    """Both compute the same."""
    launch()
    np.testing.assert_allclose(launch.o, plain(problem, inputs), atol=1e-5)


def numpy_us(problem: AttentionProblem, inputs: dict[str, Any]) -> float:
    """CPU time of numpy's attention."""
    start = time.thread_time_ns()
    plain(problem, inputs)
    return (time.thread_time_ns() - start) / 1e3


def plain(problem: AttentionProblem, inputs: dict[str, Any]) -> Any:
    """Attention in numpy, without blocks; of a causal mask it computes all scores."""
    hidden = np.triu(np.full((problem.Nq, problem.N), -1e4, np.float32), 1) if problem.attn_mask == "causal" else None
    o = np.empty_like(inputs["q"])
    for head in np.ndindex(problem.batch, problem.heads):
        scores = (inputs["q"][head] * np.float32(problem.head_dim**-0.5)) @ inputs["k"][head].T
        if hidden is not None:
            scores += hidden
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        o[head] = (scores @ inputs["v"][head]) / scores.sum(axis=1, keepdims=True)
    return o


def text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    figures = [
        f"{name}: {found['ours_us']:.0f} us, {found['speedup']:.2f} times as fast as numpy, "
        f"{found['peak_fraction']:.2f} of the peak"
        for name, found in report["figures"].items()
    ]
    return "\n".join([*figures, *bars.lines(report)])


if __name__ == "__main__":
    sys.exit(main())
