"""Which targets there are, and what the service knows of them. A new target is one line of ``_KINDS``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from autotune.cli.device_lock import held
from autotune.cli.options import check_names
from autotune.errors import InvalidInput, ProblemError, TargetUnavailable, UnknownName
from autotune.executor import Executor, InProcess
from autotune.explain import explain
from autotune.kernels.davinci import profiles, soc
from autotune.kernels.davinci.calibration import Timer, emulated
from autotune.kernels.davinci.costs import Profile
from autotune.kernels.davinci.sensitivity import stays_best
from autotune.kernels.davinci.soc import SOCS, SoC
from autotune.kernels.flash_attention import backward_plans, plans
from autotune.kernels.native import plans as native_plans
from autotune.kernels.targets.base import Racing, Recorded, Target, TimingBudget
from autotune.kernels.targets.cpu import CpuTarget
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import TilingPlan
from autotune.pool import Pool
from autotune.problem import AttentionProblem
from autotune.service.device import Check, Device, Devices
from autotune.settings import AUTO, cache_folder
from autotune.strategies.core_split import complete
from autotune.verify import Verifier

CONFIDENCE_DRAWS = 10
"""Draws of the timing model's uncertain numbers for each best plan; `autotune explain --sensitivity` makes more."""
BUDGET = TimingBudget(repeats=9, seconds=4.0)
"""Of one trial where times are measured: for warming up, and again for the samples."""
AHEAD = 2
"""Trials of a problem that are chosen before the first of them is known, where several can run at once.

Share of the best known time after 40 trials, mean of 16 seeds, on the emulated problems 1,4,384,384,32 and
1,8,1024,1024,64: 0.992 and 0.920 one by one, 0.983 and 0.925 with two, 0.982 and 0.889 with four.
"""

_TARGETS: dict[str, Callable[..., Target]] = {
    **{f"emulated:{name}": partial(EmulatedTarget, name) for name in SOCS},
    "cpu": lambda: CpuTarget(cache_folder()),
    "cpu-cold": lambda: CpuTarget(cache_folder(), cold=True),
}
_CHECKS = {"flash_attention": plans.check, "flash_attention_grad": backward_plans.check}


def open_target(name: str, profile: Path | None = None) -> Target:
    """The target of that name, timed with a profile's numbers. Raises UnknownName, InvalidInput, TargetUnavailable."""
    if ":" not in name and name not in _TARGETS:
        raise UnknownName(f"--device {name[:60]!r} is no kind:name; known: {', '.join(_TARGETS)}", "device")
    check_names([name], list(_TARGETS), "device")
    if profile and not name.startswith("emulated:"):
        raise InvalidInput(f"--profile: {name} is measured; only an emulated target takes a profile", "profile")
    return _TARGETS[name](profile=_profile(profile)) if profile else _TARGETS[name]()


def _profile(path: Path) -> Profile:
    try:
        return profiles.read(path)
    except OSError as error:
        raise InvalidInput(f"--profile: cannot read {path}: {error.strerror}", "profile") from error
    except ValueError as error:
        raise InvalidInput(f"--profile {path} cannot be used: {error}", "profile") from error


def confidence(target: Target) -> Callable[[AttentionProblem, Sequence[TilingPlan]], float | None]:
    """Of a target with an emulated clock, how often the first plan stays the fastest; None of any other."""

    def share(problem: AttentionProblem, fastest: Sequence[TilingPlan]) -> float | None:
        plans_with_work = [complete(plan, problem, target.hardware) for plan in fastest]
        kernels = [target.compile(problem, plan) for plan in plans_with_work]
        programs = [kernel.program for kernel in kernels if isinstance(kernel, Recorded)]
        return stays_best(programs, CONFIDENCE_DRAWS) if len(programs) > 1 else None

    return share


def micro_timer(target: Target) -> tuple[Timer, SoC]:
    """What times micro-kernels on a target, and its chip. Raises TargetUnavailable where nothing does."""
    if not isinstance(target, EmulatedTarget):
        raise TargetUnavailable(f"{target.name} cannot run micro-kernels yet")
    chip = soc.get(target.hardware.name)
    return emulated(chip, target.profile), chip


def targets() -> tuple[list[Target], dict[str, str]]:
    """The targets that can be used here, and of the others by name why not."""
    usable, reasons = [], {}
    for name, make in _TARGETS.items():
        try:
            usable.append(make())
        except TargetUnavailable as error:
            reasons[name] = str(error)
    return usable, reasons


def devices(first: str) -> Devices:
    """What plans are served for: the chips of all usable targets, that of the target ``first`` before others."""
    usable = targets()[0]
    found = {
        target.hardware.name: Device(
            target.hardware,
            {each.name: each.fingerprint for each in usable if each.hardware == target.hardware},
            kernel_check(target),
            partial(explain, target) if isinstance(target, EmulatedTarget) else None,
        )
        for target in usable
    }
    return dict(sorted(found.items(), key=lambda item: first not in item[1].targets))


def in_process(name: str) -> InProcess:
    """Runs trials on the target of that name in this process. Raises as ``open_target``."""
    return _in_process(open_target(name))


def _in_process(target: Target) -> InProcess:
    return InProcess(target, Verifier(), BUDGET, confidence(target))


def executor(target: Target, workers: str) -> AbstractContextManager[Executor]:
    """Runs trials in so many processes: ``auto`` is one where times are measured, else one for each core.

    Raises InvalidInput for more than one where times are measured.
    """
    if workers == "0":
        return nullcontext(_in_process(target))
    count = (1 if isinstance(target, Racing) else len(os.sched_getaffinity(0))) if workers == AUTO else int(workers)
    if isinstance(target, Racing) and count > 1:
        raise InvalidInput(
            f"--workers {count}: trials on {target.name} would disturb each other; it takes 1", "workers"
        )
    return Pool(partial(in_process, target.name), target.fingerprint, count)


def window(target: Target) -> int:
    """Trials of a problem that are chosen ahead: the same for any number of workers, so that the same are chosen."""
    return 1 if isinstance(target, Racing) else AHEAD


def reserved(target: Target) -> AbstractContextManager[None]:
    """Keeps a measured target to ourselves; an emulated one is everybody's. Raises TargetUnavailable."""
    if not isinstance(target, Racing):
        return nullcontext()
    return held("cpu" if isinstance(target, CpuTarget) else target.name)


def kernel_check(target: Target) -> Check:
    """Whether our kernel can execute a plan on a target."""
    if isinstance(target, CpuTarget):
        return native_plans.check

    def check(problem: AttentionProblem, plan: TilingPlan) -> None:
        _CHECKS[problem.op](problem, plan, target.hardware)

    return check


def check_supported(problems: Iterable[AttentionProblem], device: str) -> None:
    """Raises ProblemError for a problem that no kernel of ours computes yet, or not on the device of that name."""
    for problem in problems:
        on_cpu = device in ("cpu", "cpu-cold")
        for asked, what in () if on_cpu else plans.NOT_DONE:
            if asked(problem):
                raise ProblemError(f"{problem.key}: no kernel for NPUs computes {what} yet")
        if on_cpu and problem.op != "flash_attention":
            raise ProblemError(f"{problem.key}: only the kernels for NPUs compute op {problem.op} yet")
