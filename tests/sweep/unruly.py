"""Executors for worker processes whose plans crash, hang or have bugs: what a plan does is said by its Br."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autotune.errors import RunFailed, TargetUnavailable, WrongAnswer
from autotune.executor import InProcess
from autotune.kernels.targets.base import Target
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from tests.sweep.synthetic import SyntheticTarget


def hang(folder: Path) -> None:
    """In C, deaf to every signal that can be ignored, with a child in its group whose number it leaves behind."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / "child").write_text(str(child.pid))
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
    ctypes.CDLL(None).sleep(600)


def once(folder: Path, trouble: Callable[[], None]) -> None:
    """Trouble the first time only, in whatever process."""
    if not (folder / "happened").exists():
        (folder / "happened").touch()
        trouble()


def run_failed() -> None:
    raise RunFailed("the device was lost")


def segmentation_fault() -> None:
    ctypes.string_at(0)


def bug() -> None:
    raise ZeroDivisionError("a bug of ours")


def unplugged() -> None:
    raise TargetUnavailable("somebody took the device away")


def wrong() -> None:
    raise WrongAnswer("the output is 0.5 from float64")


def last_words() -> None:
    os.write(2, b"the device says: 0x7\n")
    os._exit(3)


WAYS: dict[str, Callable[[Path], None]] = {
    "good": lambda folder: None,
    "abort": lambda folder: os.abort(),
    "segmentation fault": lambda folder: segmentation_fault(),
    "last words": lambda folder: last_words(),
    "hang": hang,
    "run failed": lambda folder: run_failed(),
    "crash once": lambda folder: once(folder, os.abort),
    "run failed once": lambda folder: once(folder, run_failed),
    "wrong": lambda folder: wrong(),
    "bug": lambda folder: bug(),
    "unplugged": lambda folder: unplugged(),
    "slow": lambda folder: time.sleep(0.3),
}


def plan(way: str, Bc: int = 16) -> TilingPlan:
    """A plan that behaves in this way when it is verified."""
    return TilingPlan(16 * (1 + list(WAYS).index(way)), Bc, CoreSplit("even", 4))


@dataclass
class Verify:
    """Leaves the numbers of its processes behind, a line a trial."""

    folder: Path

    def __call__(self, target: Target, problem: AttentionProblem, plan: TilingPlan) -> float:
        with (self.folder / "processes").open("a") as file:
            file.write(f"{os.getpid()}\n")
        list(WAYS.values())[plan.Br // 16 - 1](self.folder)
        return 5e-4


class Racer(SyntheticTarget):
    """The one that is asked last wins."""

    def race(self, problem: AttentionProblem, plans: list[TilingPlan]) -> dict[str, object]:
        if len(plans) == 1:
            os.abort()
        return {each.key: os.getpid() for each in reversed(plans)}


def half(problem: AttentionProblem, plans: Sequence[TilingPlan]) -> float:
    """The first of two plans is as good as the other."""
    return 1 / len(plans)


def build(folder: Path) -> InProcess:
    return InProcess(Racer(), Verify(folder), sure=half)


def unavailable() -> InProcess:
    raise TargetUnavailable("no compiler here")


def make(folder: Path) -> Callable[[], InProcess]:
    return partial(build, folder)


def processes(folder: Path) -> list[int]:
    """Of each trial so far, the process that ran it."""
    return [int(line) for line in (folder / "processes").read_text().split()]
