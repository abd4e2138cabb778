"""install(): the toolkit's module names, resolved to the emulated core.

Each module of this package holds the public names of one family of the toolkit's modules (tik_api.md 3.1), written
from their documented or observable behaviour: platform.py, checks.py, errors.py, topi.py, register.py, operators.py,
dsl.py. ``MODULES`` puts them together. A name that is not there is not emulated, and importing it fails as it should.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from autotune.kernels.davinci import expr, language, scalars, tensor
from autotune.kernels.davinci.shim import checks, dsl, errors, operators, platform, register, shapes, topi
from autotune.kernels.davinci.shim.platform import set_current_compile_soc_info

__all__ = ["MODULES", "install", "set_current_compile_soc_info"]

TIK: dict[str, Any] = {
    **platform.SCOPES,
    "Tik": language.Tik,
    "Dprofile": language.Dprofile,
    "Tensor": tensor.Tensor,
    "Scalar": tensor.Scalar,
    "InputScalar": tensor.Scalar,
    "ScalarArray": scalars.ScalarArray,
    "Expr": expr.Expr,
    "all": language.all_of,
    "any": language.any_of,
    "negate": language.negate,
}
_TIK_MODULES: dict[str, dict[str, Any]] = {
    "": TIK,
    ".common": {},
    ".common.util": platform.TIK_UTIL,
}
_PLATFORM_MODULES: dict[str, dict[str, Any]] = {
    "": platform.PLATFORM,
    ".cce_conf": platform.PLATFORM,
    ".cce_params": platform.PARAMETERS,
    ".cce_build": dsl.absent_names("te.platform.cce_build"),
    ".platform_info": platform.PLATFORM,
    ".fusion_manager": register.FUSION,
}
_UTILITY_MODULES: dict[str, dict[str, Any]] = {
    "": {},
    ".para_check": checks.PARA_CHECK,
    ".shape_util": shapes.SHAPE_UTIL,
    ".op_utils": {**checks.PARA_CHECK, **shapes.SHAPE_UTIL},
    **{f".{name}": errors.ERRORS for name in ("error_manager", "errormgr")},
    **{f".{name}.{part}": errors.ERRORS for name in ("error_manager", "errormgr") for part in errors.PARTS},
}


def _family(prefix: str, modules: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {prefix + name: names for name, names in modules.items()}


MODULES: dict[str, dict[str, Any]] = {
    "tbe": {},
    **_family("tbe.tik", _TIK_MODULES),
    "tbe.common": {},
    **_family("tbe.common.platform", _PLATFORM_MODULES),
    **_family("tbe.common.utils", _UTILITY_MODULES),
    "tbe.common.register": register.REGISTER,
    "tbe.common.context": register.CONTEXT,
    "tbe.common.context.op_context": register.CONTEXT,
    "tbe.tvm": {**dsl.absent_names("tbe.tvm"), **dsl.TVM},
    "tbe.dsl": dsl.absent_names("tbe.dsl"),
    **_family("tbe.tvm.topi", topi.TOPI_MODULES),
    "te": {},
    **_family("te.tik", _TIK_MODULES),
    **_family("te.platform", _PLATFORM_MODULES),
    **_family("te.utils", _UTILITY_MODULES),
    "te.op": register.REGISTER,
    "te.tvm": {**dsl.absent_names("te.tvm"), **dsl.TVM},
    "te.lang": {},
    "te.lang.cce": dsl.absent_names("te.lang.cce"),
    "te.lang.dynamic": {},
    "te.lang.base": {},
    "te.lang.base.operation": register.REGISTER,
    **_family("topi", topi.TOPI_MODULES),
    "impl": {},
    "impl.constant_util": operators.CONSTANTS,
    "impl.common_util": operators.COMMON,
    "impl.util": {},
    "impl.util.util_select_op_base": operators.SELECTION,
    "impl.util.platform_adapter": {},
}
"""Module name to its public names."""

_ADAPTER = {
    "tik": "tbe.tik",
    "tbe_platform": "tbe.common.platform",
    "para_check": "tbe.common.utils.para_check",
    "shape_util": "tbe.common.utils.shape_util",
    "error_manager": "tbe.common.utils.errormgr",
    "error_manager_vector": "tbe.common.utils.errormgr.error_manager_vector",
    "error_manager_cube": "tbe.common.utils.errormgr.error_manager_cube",
    "tbe_register": "tbe.common.register",
    "tbe_context": "tbe.common.context",
    "operation": "tbe.common.register",
}
"""What impl.util.platform_adapter hands on; decorators of tbe.common.register come with it."""

_GUARDED, _OPTIONAL = ("tbe", "te"), ("topi", "impl")
"""Packages whose presence means a real toolkit, and packages of which a real one is kept and used instead."""


def install() -> None:
    """Makes the toolkit's imports resolve to the emulated core; a second call changes nothing.

    Raises ImportError where a real toolkit is importable: the emulator never shadows one. A folder of the same name
    that is no package, such as the "impl" of a project of operators, stays importable.
    """
    if getattr(sys.modules.get("tbe"), "emulated", False):
        return
    for name in _GUARDED:
        if _real(name):
            raise ImportError(f"a real {name} package is installed; the emulated core does not shadow it")
    kept = tuple(f"{name}." for name in _OPTIONAL if _real(name))
    for name, names in MODULES.items():
        if not f"{name}.".startswith(kept or ("/",)):
            _add(name, names)
    adapter = sys.modules.get("impl.util.platform_adapter")
    if getattr(adapter, "emulated", False):
        adapter.__dict__.update(register.REGISTER, **{name: sys.modules[at] for name, at in _ADAPTER.items()})


def _real(name: str) -> bool:
    """Whether a package that is no mere folder is imported or importable."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) is not None
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def _add(name: str, names: Mapping[str, Any]) -> None:
    module = ModuleType(name, "Emulated by autotune.kernels.davinci.")
    parent, _, child = name.rpartition(".")
    folder = None if parent else importlib.util.find_spec(name)
    module.__dict__.update(names, emulated=True)
    if any(other.startswith(f"{name}.") for other in MODULES):
        module.__path__ = list(folder.submodule_search_locations or ()) if folder else []
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], child, module)
