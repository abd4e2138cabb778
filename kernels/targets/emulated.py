"""The target on any machine: kernels recorded, run and timed on the emulated Da Vinci core."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.errors import CompileFailed, PlanRejected, RunFailed, TargetUnavailable, UnknownName
from autotune.hardware import Hardware
from autotune.kernels import flash_attention as kernel_package
from autotune.kernels.davinci import costs, install, set_current_compile_soc_info, timing
from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.errors import CapacityError, NotEmulated, TikError
from autotune.kernels.davinci.program import Program
from autotune.kernels.flash_attention.backward import flash_attention_grad
from autotune.kernels.flash_attention.forward import flash_attention
from autotune.kernels.flash_attention.layout import from_nz, to_nz
from autotune.kernels.targets.base import TimingBudget, check_inputs, input_shapes
from autotune.outcome import EMULATED, Timing
from autotune.plan import TilingPlan, pad
from autotune.problem import AttentionProblem

RESULTS = {"flash_attention": ("o", "lse"), "flash_attention_grad": ("dq", "dk", "dv")}
"""A kernel's outputs, in its own order."""
NO_KERNEL_SOURCE = frozenset(("reference.py",))
"""Files beside the kernel that do not change what it does or how long it takes."""


class EmulatedTarget:
    """One emulated chip, timed with the numbers of a profile.

    Raises UnknownName for a chip that is not emulated, TargetUnavailable where a real toolkit is installed (it is never
    shadowed) or the chip's cube and vector unit are separate cores.
    """

    def __init__(self, soc: str, core_num: int | None = None, profile: costs.Profile = costs.DEFAULT) -> None:
        try:
            chip = chips.get(soc)
        except KeyError:
            raise UnknownName(
                f"no emulated chip {soc[:60]!r}; known: {', '.join(chips.SOCS)}", field="device"
            ) from None
        if chip.split:
            raise TargetUnavailable(f"{chip.name} has separate cube and vector cores; no kernel here runs on those yet")
        try:
            install()
        except ImportError as error:
            raise TargetUnavailable(f"the emulated core is not available: {error}") from error
        self.name = f"emulated:{chip.name}"
        self.hardware = _hardware(chip if core_num is None else chip.with_cores(core_num))
        self.fingerprint = f"{_kernel_hash()}/{costs.version(profile)}"
        self.profile = profile

    def compile(self, problem: AttentionProblem, plan: TilingPlan) -> EmulatedKernel:
        """Records the kernel; the plan's core split must have its work. Raises PlanRejected, CompileFailed."""
        if set_current_compile_soc_info(self.hardware.name, aicore_num=self.hardware.cores) != "success":
            raise CompileFailed(f"{self.hardware.name} does not have {self.hardware.cores} cores")
        try:
            build = flash_attention_grad if problem.op == "flash_attention_grad" else flash_attention
            return EmulatedKernel(problem, build(problem, plan), self.profile)
        except CapacityError as error:
            raise PlanRejected(str(error)) from error
        except (TikError, NotEmulated) as error:
            raise CompileFailed(str(error)) from error


@dataclass(frozen=True)
class EmulatedKernel:
    """A recorded kernel. ``tik`` is its Tik container; profile: the numbers that it is timed with."""

    problem: AttentionProblem
    tik: Any
    profile: costs.Profile = costs.DEFAULT

    @property
    def program(self) -> Program:
        """The recorded kernel."""
        program: Program = self.tik.program
        return program

    def run(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """As ``Compiled.run``: row-major arrays in and out. Raises RunFailed."""
        check_inputs(self.problem, inputs)
        feed = {name: self._to_device(name, np.asarray(inputs[name])) for name in input_shapes(self.problem)}
        try:
            results = self.tik.tikdb.start_debug(feed_dict=feed, interactive=False)
        except (TikError, NotEmulated) as error:
            raise RunFailed(str(error)) from error
        names = RESULTS[self.problem.op]
        return {name: self._to_host(name, array) for name, array in zip(names, results)}

    def _to_device(self, name: str, array: np.ndarray) -> np.ndarray:
        if name == "alibi":
            padding = [(0, 0), (0, pad(self.problem.N) - self.problem.N)]
            return np.pad(array.reshape(self.problem.heads_total, -1).astype(np.float16), padding)
        if name != "lse":
            return to_nz(array.astype(np.float16))
        padding = [(0, 0), (0, pad(self.problem.Nq) - self.problem.Nq)]
        return np.pad(array.reshape(self.problem.heads_total, -1).astype(np.float32), padding)

    def _to_host(self, name: str, array: np.ndarray) -> np.ndarray:
        batch, heads, nq, n, head_dim = self.problem.shape
        if name == "lse":
            return array.reshape(batch, heads, pad(nq))[:, :, :nq].copy()
        return from_nz(array, n if name in ("dk", "dv") else nq, head_dim)

    def time(self, budget: TimingBudget) -> Timing:
        """The timing model's answer: one run says it all, so the budget does not matter."""
        found = timing.estimate(self.program, profile=self.profile)
        return Timing(found.time_us, EMULATED, found.model, cycles=found.cycles)


def _hardware(chip: chips.SoC) -> Hardware:
    sizes = (chip.ub_bytes, chip.l1_bytes, chip.l0a_bytes, chip.l0b_bytes, chip.l0c_bytes)
    return Hardware(chip.name, chip.cores, chip.clock_mhz, *sizes)


def _kernel_hash() -> str:
    """Changes with every source file of the kernel."""
    digest = hashlib.sha256()
    for source in sorted(Path(str(kernel_package.__file__)).parent.glob("*.py")):
        if source.name not in NO_KERNEL_SOURCE:
            digest.update(source.name.encode() + source.read_bytes())
    return f"kernel-{digest.hexdigest()[:8]}"
