"""tbe.common.platform, te.platform and te.tik.common.util: the chip as kernels ask for it (tik_api.md 3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from autotune.kernels.davinci import memory, table
from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.memory import BLOCK, SIZES

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
    soc_version: str, core_type: str = chips.AI_CORE, aicore_num: int | None = None, l1_fusion: Any = None
) -> str:
    """Chooses the chip; "success", or "error" for one that is not emulated or cores that it does not have."""
    try:
        chips.use(soc_version, None if aicore_num is None else int(aicore_num), core_type or chips.AI_CORE)
    except (KeyError, ValueError):
        return "error"
    return "success"


def te_set_version(
    soc_version: str, core_type: str = chips.AI_CORE, aicore_num: int | None = None, l1_fusion: Any = None
) -> None:
    """The older form of set_current_compile_soc_info. Raises RuntimeError where that says "error"."""
    if set_current_compile_soc_info(soc_version, core_type, aicore_num, l1_fusion) == "error":
        raise RuntimeError(
            f"{soc_version} with core_type {core_type} and aicore_num {aicore_num} is not emulated; there are "
            f"{', '.join(chips.SOCS)}"
        )


def api_check_support(api: str, dtype: str = "") -> bool:
    """Whether a tik call ("tik.vadd") is emulated for an operand type on the current chip; "" is any type."""
    return table.supports(api, dtype, chips.Current.soc)


def intrinsic_check_support(intrinsic: str, dtype: str = "") -> bool:
    """Whether an instruction ("Intrinsic_exp") is emulated for an operand type on the current chip."""
    return table.supports(intrinsic, dtype, chips.Current.soc)


def get_bit_len(dtype: str) -> int:
    """Bits of an element type. Raises RuntimeError for an unknown one."""
    if dtype not in SIZES:
        raise RuntimeError(f"no data type {dtype!r}; there are {', '.join(SIZES)}")
    return 8 * SIZES[dtype]


def get_block_size() -> int:
    """Bytes of a block."""
    return BLOCK


def get_cube_mkn(dtype: str = "float16") -> list[int]:
    """Rows, depth and columns of one cube tile."""
    return list(CUBE_MKN[dtype]["mac"])


_OLD_KEYS = {
    "Unified_Buffer": "UB_SIZE", "L1_Buffer": "L1_SIZE", "L0A_Buffer": "L0A_SIZE", "L0B_Buffer": "L0B_SIZE",
    "L0C_Buffer": "L0C_SIZE", "SMASK_Buffer": "SMASK_SIZE", "L2_Buffer": "L2_SIZE", "Core_num": "CORE_NUM",
    "CUBE_SIZE": "CUBE_SIZE", "Compiler_arch": "Compiler_arch",
}  # fmt: skip
"""What the chip's properties were called before get_soc_spec."""


def get_value(key: str) -> object:
    """A property of the current chip by its old name or get_soc_spec's."""
    return chips.get_soc_spec(_OLD_KEYS.get(key, key))


class CceProductParams:
    """The current chip, as cce_conf described it before get_soc_spec."""

    @property
    def cce_product(self) -> str:
        """Its name."""
        return chips.Current.soc.name

    def getParams(self, key: str) -> object:
        """A property by its old name."""
        return get_value(key)

    get = getParams


def te_set_l2_mode(mode: Any) -> None:
    """Where intermediate results of a network lie; a single kernel does not notice."""


CUBE_MKN = {
    dtype: {"mac": [16, depth, 16]}
    for dtype, depth in (("float16", 16), ("float32", 16), ("int32", 16), ("int8", 32), ("uint8", 32))
}
PARAMETERS: dict[str, Any] = {
    **SCOPES,
    "BLOCK_IN": 16,
    "BLOCK_OUT": 16,
    "BLOCK_REDUCE": 16,
    "BLOCK_REDUCE_INT8": 32,
    "BLOCK_VECTOR": 1,
    "C0_SIZE": 16,
    "CUBE_MKN": CUBE_MKN,
    "VECTOR_INST_BLOCK_WIDTH": 256,
    "VECTOR_INST_BLOCK_NUM": 8,
    "VECTOR_INST_MAX_REPEAT_TIMES": 255,
    "VECTOR_COPY_NBURST_LIMIT": 4096,
    "ELEMENTS_VECTOR_OP_FP16": 128,
    "ASCEND_310": "Ascend310",
    "ASCEND_310P": "Ascend310P",
    "ASCEND_610": "Ascend610",
    "ASCEND_910": "Ascend910",
    "ASCEND_910B": "Ascend910B",
}
"""te.platform.cce_params (tik_api.md 3.1); C0 is that of float16."""

PLATFORM: dict[str, Any] = {
    **PARAMETERS,
    **{key: key for key in chips.SPEC},
    "get_soc_spec": chips.get_soc_spec,
    "set_current_compile_soc_info": set_current_compile_soc_info,
    "te_set_version": te_set_version,
    "te_update_version": te_set_version,
    "api_check_support": api_check_support,
    "intrinsic_check_support": intrinsic_check_support,
    "get_bit_len": get_bit_len,
    "get_block_size": get_block_size,
    "get_cube_mkn": get_cube_mkn,
    "getValue": get_value,
    "CceProductParams": CceProductParams,
    "te_set_l2_mode": te_set_l2_mode,
}


def ceil_div(value: Any, factor: Any) -> Any:
    """value / factor rounded up; symbolic where an argument is."""
    return (value + factor - 1) // factor


def reduce_mul(values: Iterable[Any]) -> Any:
    """The product of a shape."""
    return prod(values)


TIK_UTIL = {"DTYPE_SIZE": dict(SIZES), "ceil_div": ceil_div, "reduce_mul": reduce_mul, "get_bit_len": get_bit_len}
"""te.tik.common.util."""
