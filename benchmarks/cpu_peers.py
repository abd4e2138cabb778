"""Our kernel on this CPU beside torch's scaled_dot_product_attention, and as a fraction of the peak rate.

python benchmarks/cpu_peers.py [--quick] [--json]      exit code 1 where a bar is missed, 2 without a C compiler

Two threads each, both in turn; medians of 25 rounds (9 with --quick). Our plan is the winner of a race of some blocks
and core splits. Times are CPU time, which other work on the machine moves little: of our busiest thread, and of all of
torch over its threads, which wait without spinning (what they wait for each other counts for torch). Wall times of the
same runs stand beside them. The peak is a loop of independent fused multiply-adds on registers, built with the same
compiler and flags and run in the same rounds.

torch is wanted by this script alone. It runs where torch can be imported, for example in an environment of its own:

    python -m venv peers && peers/bin/pip install torch==2.13.0 numpy && peers/bin/python benchmarks/cpu_peers.py

Without torch the peer is numpy's attention without blocks, on one thread.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np

from autotune.errors import TargetUnavailable
from autotune.hardware import Hardware
from autotune.kernels.native.build import build, find_compiler
from autotune.kernels.native.library import Launch, Library
from autotune.kernels.native.machine import identity
from autotune.measure import Rules, race
from autotune.plan import CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete, distinct_rules
from benchmarks import bars

CASES = {
    "1x8x1024x1024x64": ((1, 8, 1024, 1024, 64), "none"),
    "1x8x1024x1024x128_causal": ((1, 8, 1024, 1024, 128), "causal"),
    "1x8x1024x77x64": ((1, 8, 1024, 77, 64), "none"),
    "1x2x2048x2048x64_causal": ((1, 2, 2048, 2048, 64), "causal"),
    "1x8x512x512x64": ((1, 8, 512, 512, 64), "none"),
}
BLOCKS = tuple(product((64, 128, 256, 512), (64, 128, 256, 512)))
"""Br and Bc that race; the padded length where that is shorter."""
LEAST_SPEEDUP, LEAST_SPEEDUP_OF_ONE = 1.5, 1.0
"""Geometric mean over the peer, and the worst case."""
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

Inputs = dict[str, Any]


class Torch:
    """torch's attention on two threads. Raises ImportError."""

    threads = 2

    def __init__(self) -> None:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        import torch

        self._torch = torch
        self.name = f"torch {torch.__version__}"
        torch.set_num_threads(self.threads)

    def ready(self, problem: AttentionProblem, inputs: Inputs) -> Callable[[], Any]:
        """What computes the output, as an array."""
        q, k, v = (self._torch.from_numpy(inputs[name]) for name in "qkv")
        compute = self._torch.nn.functional.scaled_dot_product_attention

        def run() -> Any:
            with self._torch.no_grad():
                return compute(q, k, v, is_causal=problem.attn_mask == "causal").numpy()

        return run


class Numpy:
    """Attention in numpy, without blocks, on one thread; of a causal mask it computes all scores."""

    threads, name = 1, "numpy"

    def ready(self, problem: AttentionProblem, inputs: Inputs) -> Callable[[], Any]:
        """As ``Torch.ready``."""
        return lambda: plain(problem, inputs)


Peer = Torch | Numpy


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "9 rounds instead of 25").parse_args()
    try:
        report = measure(find_peer(), rounds=9 if options.quick else 25)
    except TargetUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    return bars.finish(report, options.json, text)


def find_peer() -> Peer:
    """torch, or numpy where there is none."""
    try:
        return Torch()
    except ImportError:
        return Numpy()


def measure(peer: Peer, rounds: int) -> dict[str, Any]:
    """Speed-ups over the peer, and fractions of the peak."""
    with tempfile.TemporaryDirectory() as folder:
        library, peak = build_both(Path(folder))
        cases = {name: case(library, peer, shape, mask, peak, rounds) for name, (shape, mask) in CASES.items()}
    speedups = [found["speedup"] for found in cases.values()]
    held = {
        "mean_speedup": bars.at_least(statistics.geometric_mean(speedups), LEAST_SPEEDUP),
        "least_speedup": bars.at_least(min(speedups), LEAST_SPEEDUP_OF_ONE),
    }
    return {"bars": held, "peer": peer.name, "figures": cases}


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


def case(library: Library, peer: Peer, shape: Any, mask: str, peak: Callable[[], float], rounds: int) -> dict[str, Any]:
    """One problem: all three in turn."""
    problem = AttentionProblem.of(shape, attn_mask=mask)
    inputs = draw(problem)
    plan, launch = fastest(library, problem, inputs, peer)
    compute = peer.ready(problem, inputs)
    launch()
    for _ in range(3):
        theirs_o = compute()
    exact = plain(problem, inputs)
    np.testing.assert_allclose(launch.o, exact, atol=1e-5)
    np.testing.assert_allclose(theirs_o, exact, atol=1e-5)
    rows = []
    for _ in range(rounds):
        theirs = timed(compute, peer.threads)
        ours = launch()
        rows.append((ours.cpu_us, ours.wall_us, *theirs, peak()))
    ours_us, ours_wall_us, theirs_us, theirs_wall_us, rate = (statistics.median(column) for column in zip(*rows))
    scores = sum(min(row + 1, problem.N) for row in range(problem.Nq)) if mask == "causal" else problem.Nq * problem.N
    flops = 4.0 * problem.heads_total * scores * problem.head_dim
    return {
        "plan": plan.key,
        "ours_us": ours_us,
        "theirs_us": theirs_us,
        "speedup": theirs_us / ours_us,
        "wall_speedup": theirs_wall_us / ours_wall_us,
        "peak_fraction": flops / peer.threads / ours_us / rate,
    }


def timed(compute: Callable[[], Any], threads: int) -> tuple[float, float]:
    """CPU time of the process over its threads, and wall time, in microseconds."""
    start = time.process_time_ns(), time.perf_counter_ns()
    compute()
    return (time.process_time_ns() - start[0]) / threads / 1e3, (time.perf_counter_ns() - start[1]) / 1e3


def fastest(library: Library, problem: AttentionProblem, inputs: Inputs, peer: Peer) -> tuple[TilingPlan, Launch]:
    """The winner of a race of all blocks and splits, by CPU time."""
    hardware = Hardware("this CPU", peer.threads, 0)
    launches = {}
    for rows, keys in BLOCKS:
        Br, Bc = min(rows, pad(problem.Nq)), min(keys, pad(problem.N))
        for rule in distinct_rules(problem, Br, Bc, hardware):
            plan = complete(TilingPlan(Br, Bc, CoreSplit(rule)), problem, hardware)
            launches[plan] = Launch(library, problem, plan, inputs)
    runs = {plan: (lambda launch=launch: launch().cpu_us) for plan, launch in launches.items()}
    winner = race(runs, next(iter(runs)), Random(0), Rules(runs_each=10.0)).winner
    return winner, launches[winner]


def draw(problem: AttentionProblem) -> Inputs:
    """Normal numbers in fp32."""
    random = np.random.default_rng(0)
    batch, heads, nq, n, d = problem.shape
    lengths = zip("qkv", (nq, n, n))
    return {name: random.standard_normal((batch, heads, length, d), np.float32) for name, length in lengths}


def plain(problem: AttentionProblem, inputs: Inputs) -> Any:
    """Softmax of q k^T times v, one head at a time, in fp32."""
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
        f"{name}: {found['ours_us']:.0f} us, {found['speedup']:.2f} times as fast as {report['peer']} "
        f"({found['wall_speedup']:.2f} by the wall clock), "
        f"{found['peak_fraction']:.2f} of the peak, {found['plan']}"
        for name, found in report["figures"].items()
    ]
    return "\n".join([*figures, *bars.lines(report)])


if __name__ == "__main__":
    sys.exit(main())
