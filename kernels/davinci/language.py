"""The Tik container: what ``tbe.tik`` offers a kernel."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.debug import Debugger
from autotune.kernels.davinci.errors import (
    CapacityError,
    NotEmulated,
    RangeError,
    ScopeError,
    TikError,
)
from autotune.kernels.davinci.expr import Value, condition
from autotune.kernels.davinci.high_level import RESERVED_BYTES, HighLevel
from autotune.kernels.davinci.memory import GM, UB
from autotune.kernels.davinci.program import Program
from autotune.kernels.davinci.tensor import Tensor

PROFILES = {("v100", "mini"): "Ascend310", ("v100", "cloud"): "Ascend910A", ("v200", "aic"): "Ascend310P3"}
"""Dprofile's architecture and version to a chip (tik_api.md 2.8)."""

MAX_ARGUMENTS = 64
"""Most inputs and most outputs of a kernel (tik_api.md 2.9)."""


class Dprofile:
    """The old way to name a chip: tik.Dprofile("v100", "cloud")."""

    def __init__(
        self, ai_core_arch: str | None = None, ai_core_version: str | None = None, ddk_version: Any = None
    ) -> None:
        if ai_core_arch is None:
            self.soc = chips.Current.soc
            return
        key = (ai_core_arch, ai_core_version or "")
        if key not in PROFILES:
            raise NotEmulated("Dprofile", f"{key}; known: {', '.join(map(str, PROFILES))}")
        self.soc = chips.get(PROFILES[key])

    def get_unified_buffer_size(self) -> int:
        """Bytes of UB."""
        return self.soc.ub_bytes

    def get_l1_buffer_size(self) -> int:
        """Bytes of L1."""
        return self.soc.l1_bytes

    def get_aicore_num(self) -> int:
        """Number of cores."""
        return self.soc.cores


class Tik(HighLevel):
    """Records one kernel; BuildCCE ends the recording, ``tikdb`` runs it."""

    def __init__(
        self,
        profiling: Dprofile | None = None,
        disable_debug: bool = True,
        err_msg_level: int = 0,
        block_size: int = 32,
    ) -> None:
        super().__init__(profiling.soc if profiling else chips.Current.soc)
        self.tikdb = Debugger(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotEmulated(name)

    def BuildCCE(
        self,
        kernel_name: str,
        inputs: Any,
        outputs: Any,
        output_files_path: str | None = None,
        enable_l2: bool = False,
        config: dict[str, Any] | None = None,
        flowtable: Any = None,
        evaluates: Any = None,
        extend_params: Any = None,
    ) -> Program:
        """Ends the recording. Raises ScopeError, RangeError, CapacityError where the kernel's arguments are wrong."""
        program = self.program
        program.kernel_name = kernel_name
        program.inputs, program.outputs = _listed(inputs), _listed(outputs)
        for role, arguments in (("inputs", program.inputs), ("outputs", program.outputs)):
            if len(arguments) > MAX_ARGUMENTS:
                raise RangeError(f"{len(arguments)} {role}; a kernel has at most {MAX_ARGUMENTS}", self.where())
            for tensor in arguments:
                if isinstance(tensor, Tensor) and tensor.scope != GM:
                    raise ScopeError(f"{tensor.name} among the {role} lies in {tensor.scope}, not in GM", self.where())
        self._check_arguments(program)
        self._check_reserve()
        return program

    def _check_arguments(self, program: Program) -> None:
        listed = [tensor for tensor in (*program.inputs, *program.outputs) if isinstance(tensor, Tensor)]
        buffers = [tensor.buffer for tensor in listed]
        if len(set(buffers)) != len(buffers):
            raise TikError("a tensor is among inputs and outputs twice", self.where())
        names = {tensor.name for tensor in listed}
        if len(names) != len(listed):
            raise TikError("two inputs or outputs have the same name", self.where())
        for buffer in program.global_buffers:
            own = buffer.workspace or buffer.initial is not None
            if buffer not in buffers and buffer.used and not own:
                raise TikError(f"GM tensor {buffer.name} is used but is no input, output or workspace", buffer.where)
            if own and buffer.name in names and buffer not in buffers:
                raise TikError(f"workspace {buffer.name} has the name of an input or output", buffer.where)

    def _check_reserve(self) -> None:
        free = self.program.soc.ub_bytes - self.used_bytes[UB]
        if self.uses_high_level and free < RESERVED_BYTES:
            raise CapacityError(f"UB: h_* calls need {RESERVED_BYTES} bytes free at the end, {free} are", self.where())


def _listed(arguments: Any) -> list[Any]:
    return list(arguments) if isinstance(arguments, (list, tuple)) else [arguments]


def all_of(*conditions: Value) -> Value:
    """tik.all: true where every condition is."""
    return condition("all", *conditions)


def any_of(*conditions: Value) -> Value:
    """tik.any: true where a condition is."""
    return condition("any", *conditions)


def negate(cond: Value) -> Value:
    """tik.negate: true where the condition is not."""
    return condition("negate", cond)
