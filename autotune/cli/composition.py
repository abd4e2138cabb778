"""Which targets there are, and what the service knows of them. A new target is one line of ``_KINDS``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from autotune.cli.options import check_names
from autotune.errors import ProblemError, TargetUnavailable
from autotune.hardware import Hardware
from autotune.kernels.davinci.soc import SOCS
from autotune.kernels.flash_attention import backward_plans, plans
from autotune.kernels.targets.base import Target
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.service.device import Check, Device, Devices

_TARGETS: dict[str, Callable[[], Target]] = {f"emulated:{name}": partial(EmulatedTarget, name) for name in SOCS}
_CHECKS = {"flash_attention": plans.check, "flash_attention_grad": backward_plans.check}


def open_target(name: str) -> Target:
    """The target of that name. Raises UnknownName, TargetUnavailable."""
    check_names([name], list(_TARGETS), "device")
    return _TARGETS[name]()


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
    found = {
        target.hardware.name: Device(target.hardware, {target.name: target.fingerprint}, kernel_check(target.hardware))
        for target in targets()[0]
    }
    return dict(sorted(found.items(), key=lambda item: first not in item[1].targets))


def kernel_check(hardware: Hardware) -> Check:
    """Whether our kernel can execute a plan on a chip."""

    def check(problem: AttentionProblem, plan: TilingPlan) -> None:
        _CHECKS[problem.op](problem, plan, hardware)

    return check


def check_supported(problems: Iterable[AttentionProblem]) -> None:
    """Raises ProblemError for a problem that no kernel of ours computes yet."""
    for problem in problems:
        for asked, what in plans.NOT_DONE:
            if asked(problem):
                raise ProblemError(f"{problem.key}: no kernel here computes {what} yet")
