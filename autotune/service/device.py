"""What the service knows of a device: its sizes, its targets and what is legal on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.errors import UnknownName
from autotune.hardware import Hardware
from autotune.outcome import BestPlan
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

if TYPE_CHECKING:
    from autotune.explain import Explained

Check = Callable[[AttentionProblem, TilingPlan], None]
"""Legality: returns when the kernel can execute the plan on the problem exactly, raises PlanRejected when it cannot.

The plan's core split has its rule and block_num; its ``work`` may be empty.
"""

Explain = Callable[[AttentionProblem, TilingPlan], "Explained"]
"""Where the emulated time of a plan goes. Raises PlanError, CandidateError."""


@dataclass(frozen=True)
class Device:
    """One chip that plans are served for.

    fingerprints: target name (``emulated:Ascend910A``) to the fingerprint a result of that target has at present;
    a stored result of a known target with another fingerprint is stale. check: see ``Check``; O(1) in the shape.
    explain: see ``Explain``; None for a chip whose times are measured.
    """

    hardware: Hardware
    fingerprints: Mapping[str, str]
    check: Check
    explain: Explain | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets that time this chip, e.g. ``("emulated:Ascend910A",)``."""
        return tuple(self.fingerprints)

    def is_stale(self, best: BestPlan) -> bool:
        """Whether the result is not what this machine would find today; of a target it does not have, nobody knows."""
        return self.fingerprints.get(best.target, best.fingerprint) != best.fingerprint


Devices = Mapping[str, Device]
"""Hardware name (``Ascend910A``) to its Device; the first is the one that a question without a device means."""


def find_device(devices: Devices, name: str) -> tuple[Device, str | None]:
    """The device of a hardware name, or of a target name and then that target too. Raises UnknownName.

    ``Ascend910A`` means every result for that chip, ``emulated:Ascend910A`` only the emulated ones.
    """
    if name in devices:
        return devices[name], None
    for device in devices.values():
        if name in device.targets:
            return device, name
    known = [*devices, *(target for device in devices.values() for target in device.targets)]
    raise UnknownName(f"device {name[:60]!r} is unknown; the known ones are {', '.join(known)}", field="device")
