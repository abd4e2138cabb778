"""install(): the toolkit's module names, resolved to the emulated core."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

from autotune.kernels.davinci import expr, language, memory, tensor
from autotune.kernels.davinci import soc as chips

SCOPES = {
    "scope_gm": memory.GM,
    "scope_ubuf": memory.UB,
    "scope_cbuf": memory.L1,
    "scope_cbuf_out": memory.L0C,
    "scope_ca": memory.L0A,
    "scope_cb": memory.L0B,
    "scope_cc": memory.L0C,
    "scope_smask": memory.SMASK,
    "scope_reg": memory.REG,
}
"""tik_api.md 1.1."""


def set_current_compile_soc_info(
    soc_version: str, core_type: str = "AiCore", aicore_num: int | None = None, l1_fusion: Any = None
) -> str:
    """Chooses the chip; "success", or "error" for one that is not emulated (tik_api.md 3.1)."""
    try:
        chips.use(soc_version, aicore_num)
    except (KeyError, ValueError):
        return "error"
    return "success"


_TIK = {
    **SCOPES,
    "Tik": language.Tik,
    "Dprofile": language.Dprofile,
    "Tensor": tensor.Tensor,
    "Scalar": tensor.Scalar,
    "Expr": expr.Expr,
    "all": language.all_of,
    "any": language.any_of,
    "negate": language.negate,
}
_PLATFORM = {
    **SCOPES,
    **{key: key for key in chips.SPEC},
    "get_soc_spec": chips.get_soc_spec,
    "set_current_compile_soc_info": set_current_compile_soc_info,
    "te_set_version": set_current_compile_soc_info,
}
MODULES: dict[str, dict[str, Any]] = {
    "tbe": {},
    "tbe.tik": _TIK,
    "tbe.common": {},
    "tbe.common.platform": _PLATFORM,
    "te": {},
    "te.tik": _TIK,
    "te.platform": _PLATFORM,
    "te.platform.cce_conf": _PLATFORM,
}
"""Module name to its public names."""


def install() -> None:
    """Makes the toolkit's imports resolve to the emulated core; a second call changes nothing.

    Raises ImportError where a real toolkit is importable: the emulator never shadows one.
    """
    if getattr(sys.modules.get("tbe"), "emulated", False):
        return
    for name in ("tbe", "te"):
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            raise ImportError(f"a real {name} package is installed; the emulated core does not shadow it")
    for name, names in MODULES.items():
        module = ModuleType(name, "Emulated by autotune.kernels.davinci.")
        module.__dict__.update(names, emulated=True)
        if any(other.startswith(f"{name}.") for other in MODULES):
            module.__path__ = []
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
