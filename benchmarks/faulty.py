"""A sweep over an emulated chip some of whose plans crash, hang or compute wrongly: the same ones each time."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from autotune.cli.composition import kernel_check, window
from autotune.db.store import Store
from autotune.executor import InProcess
from autotune.kernels.targets.base import Compiled, Target, TimingBudget
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.outcome import Timing
from autotune.plan import TilingPlan
from autotune.pool import Limit, Pool
from autotune.problem import AttentionProblem
from autotune.sweep import Sweep
from autotune.tuning import Effort
from autotune.verify import Verifier

CHIP = "Ascend910A"
SHARES = {"crash": 0.10, "hang": 0.02, "wrong": 0.01}
"""Of all plans."""
LIMIT = Limit(first_s=8.0, least_s=3.0, times=6.0)
TRIES = "tries"
"""The file with a line for each time that a plan was tried: the problem's key and the plan's."""


def problems(count: int) -> list[AttentionProblem]:
    """Small ones, so that trials are short; each has more than 50 plans."""
    shapes = [
        (batch, heads, Nq, N, head_dim)
        for Nq in (64, 128, 192, 256, 96)
        for N in (64, 160)
        for head_dim in (16, 32)
        for batch, heads in ((1, 2), (2, 3))
    ]
    return [AttentionProblem.of(shape) for shape in shapes[:count]]


def fault(problem: AttentionProblem, plan: TilingPlan) -> str | None:
    """What is wrong with a plan: a name of SHARES, drawn from its key."""
    digest = hashlib.sha256(f"{problem.key} {plan.key}".encode()).digest()
    drawn = int.from_bytes(digest[:8], "big") / 2**64
    for name, share in SHARES.items():
        if drawn < share:
            return name
        drawn -= share
    return None


@dataclass(frozen=True)
class Wrong:
    """A target whose kernels compute almost attention."""

    inner: Target

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def compile(self, problem: AttentionProblem, plan: TilingPlan) -> Compiled:
        return WrongKernel(self.inner.compile(problem, plan))


@dataclass(frozen=True)
class WrongKernel:
    """Its first row is a tenth too large."""

    inner: Compiled

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        outputs = dict(self.inner.run(inputs))
        outputs["o"] = outputs["o"].copy()
        outputs["o"][:, :, 0] *= 1.1
        return outputs

    def time(self, budget: TimingBudget) -> Timing:
        return self.inner.time(budget)


@dataclass(frozen=True)
class Verify:
    """Verifies, and does what is wrong with the plan. folder: where its tries are written down."""

    folder: Path
    verifier: Verifier

    def __call__(self, target: Target, problem: AttentionProblem, plan: TilingPlan) -> float:
        with (self.folder / TRIES).open("a") as file:
            file.write(f"{problem.key} {plan.key}\n")
        match fault(problem, plan):
            case "crash":
                os.abort()
            case "hang":
                signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
                ctypes.CDLL(None).sleep(3600)
            case "wrong":
                return Verifier()(Wrong(target), problem, plan)
        return self.verifier(target, problem, plan)


def in_process(folder: Path) -> InProcess:
    """What a worker runs."""
    return InProcess(EmulatedTarget(CHIP), Verify(folder, Verifier()))


def sweep(folder: Path, count: int, trials: int, workers: int) -> None:
    """The first ``count`` problems, into ``plans.db`` of the folder."""
    target = EmulatedTarget(CHIP)
    store = Store.open(f"sqlite:///{folder / 'plans.db'}")
    with Pool(partial(in_process, folder), target.fingerprint, workers, LIMIT) as pool:
        Sweep(
            name=f"soak-{os.getpid()}",
            target=target,
            store=store,
            executor=pool,
            effort=Effort(trials),
            check=kernel_check(target),
            window=window(target),
        ).run(problems(count))
    store.close()
