"""The Tik container: what ``tbe.tik`` offers a kernel."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci import options
from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.arguments import check_arguments
from autotune.kernels.davinci.debug import Debugger
from autotune.kernels.davinci.errors import CapacityError, NotEmulated, RangeError, TikError
from autotune.kernels.davinci.expr import Value, condition
from autotune.kernels.davinci.high_level import RESERVED_BYTES, HighLevel
from autotune.kernels.davinci.memory import UB
from autotune.kernels.davinci.printing import formatter
from autotune.kernels.davinci.program import Print, Program
from autotune.kernels.davinci.recorder import NAME

PROFILES = {
    ("v100", "mini"): chips.get("Ascend310"),
    ("v100", "cloud"): chips.get("Ascend910A"),
    ("v200", "aic"): chips.get("Ascend310P3"),
    ("v200", "vec"): chips.get("Ascend310P3").vector_view(),
}
"""Dprofile's architecture and version to a chip (tik_api.md 2.8)."""

CONFIG_KEYS = frozenset((
    "kernel_meta_parent_dir", "tbe_debug_level", "enable_const_fold", "double_buffer_non_reuse", "dump_cce_code",
    "save_temp_cce_file", "out_of_bound_sync_check", "dynamic_tik", "enable_s64_to_s32", "enable_s64_to_s32_vector",
    "sync_mode", "build_fatbin", "tir.noalias", "l2_mode",
))  # fmt: skip
"""Keys of BuildCCE's config, which change nothing on the emulated core (tik_api.md 2.9)."""


PRODUCT_NAMES = {"dav-m100": "mini", "dav-c100": "cloud", "dav-m200": "aic", "dav-c220": "cloud"}
"""Architecture to what Dprofile calls its product (tik_api.md 2.8)."""


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
        self.soc = PROFILES[key]

    def get_product_name(self) -> str:
        """The second word that names the chip: mini, cloud, aic, or vec for vector cores alone; [?] on a 910B."""
        return "vec" if self.soc.core_type == chips.VECTOR_CORE else PRODUCT_NAMES[self.soc.arch]

    def get_unified_buffer_size(self) -> int:
        """Bytes of UB."""
        return self.soc.ub_bytes

    def get_l1_buffer_size(self) -> int:
        """Bytes of L1."""
        return self.soc.l1_bytes

    def get_l0a_buffer_size(self) -> int:
        """Bytes of L0A."""
        return self.soc.l0a_bytes

    def get_l0b_buffer_size(self) -> int:
        """Bytes of L0B."""
        return self.soc.l0b_bytes

    def get_l0c_buffer_size(self) -> int:
        """Bytes of L0C."""
        return self.soc.l0c_bytes

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
        if profiling is not None and not isinstance(profiling, Dprofile):
            raise TikError(f"Tik takes a tik.Dprofile or nothing, not {profiling!r}")
        if err_msg_level not in (0, 1):
            raise RangeError(f"err_msg_level is {err_msg_level!r}; it must be 0 or 1")
        super().__init__(profiling.soc if profiling else chips.Current.soc)
        self.tikdb = Debugger(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotEmulated(name)

    def printf(self, format_string: str, *values: Any) -> None:
        """Writes values to standard output when the kernel runs, with C's format."""
        self.emit(Print(formatter(format_string, values), self.where()))

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
        """Ends the recording; with ``output_files_path`` the kernel's description is written to kernel_meta/ there.

        inputs: GM tensors, then InputScalars; outputs: GM tensors; a bare one stands for a list of it. flowtable: more
        of the inputs, which steer the kernel.
        Raises ScopeError, RangeError, CapacityError or TikError where the kernel's arguments are wrong.
        """
        program = self.program
        if not isinstance(kernel_name, str) or not NAME.fullmatch(kernel_name):
            raise TikError(f"a kernel cannot be called {kernel_name!r}: letters, digits and _ only, no digit first")
        unknown = sorted(set(config or ()) - CONFIG_KEYS)
        if unknown:
            raise TikError(f"BuildCCE config has no key {', '.join(unknown)}; known: {', '.join(sorted(CONFIG_KEYS))}")
        program.kernel_name = kernel_name
        program.inputs, program.outputs = _listed(inputs), _listed(outputs)
        check_arguments(program, _listed(flowtable or []))
        self._check_reserve()
        if output_files_path is not None:
            from autotune.kernels.davinci.description import write_description  # json and pathlib, rarely needed

            write_description(program, output_files_path)
        if built := options.current().built:
            built(program)
        return program

    def _check_reserve(self) -> None:
        free = self.program.soc.ub_bytes - self.used_bytes[UB]
        if self.uses_high_level and free < RESERVED_BYTES:
            raise CapacityError(f"UB: h_* calls need {RESERVED_BYTES} bytes free at the end, {free} are")


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
