"""impl.constant_util, impl.common_util and impl.util.util_select_op_base: what operators of the toolkit share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci.memory import BLOCK, REPEAT, SIZES, UB

_TYPES = ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64")
CONSTANTS: dict[str, Any] = {
    **{f"DATA_TYPE_{name.upper().replace('FLOAT', 'FP')}": name for name in _TYPES},
    **{f"DATA_SIZE_{name}": size for name, size in (("ONE", 1), ("TWO", 2), ("FOUR", 4), ("EIGHT", 8))},
    "BLOCK_SIZE": BLOCK,
    "VECTOR_BYTE_SIZE": REPEAT,
    "MAX_BLOCK_NUMBER": BLOCK,
    "MASK128": 128,
    "MASK64": 64,
    "SID": 0,
    "INT_DEFAULT_ZERO": 0,
    "FLOAT_DEFAULT_ZERO": 0.0,
    "STRIDE_ZERO": 0,
    "STRIDE_ONE": 1,
    "BLOCK_STRIDE_ONE": 1,
    "REPEAT_STRIDE_EIGHT": 8,
    "REPEAT_STRIDE_FOUR": 4,
    "REPEAT_TIME_ONCE": 1,
    "DEFAULT_REPEAT_TIME": 1,
    "DEFAULT_NBURST": 1,
    "DEFAULT_BURST_LEN": 1,
    "SCALAR_SIZE": 1,
    "MINI": "mini",
    "CLOUD": "cloud",
    "AIC": "aic",
    "HISI_ES": "hisi-es",
}


def get_data_size(datatype: str) -> int:
    """Bytes of an element. Raises RuntimeError for an unknown type."""
    if datatype not in _TYPES:
        raise RuntimeError(f"no data type {datatype!r}; there are {', '.join(_TYPES)}")
    return SIZES[datatype]


def get_block_element(datatype: str) -> int:
    """Elements of a block of 32 bytes."""
    return BLOCK // get_data_size(datatype)


def _rounded_up(tik_instance: Any, total_size: Any, unit: int) -> Any:
    count = tik_instance.Scalar("int32")
    count.set_as((total_size + (unit - 1)) // unit)
    return count


def get_vector_repeat_times(tik_instance: Any, total_size: Any) -> Any:
    """A Scalar: repeats of 256 bytes that cover ``total_size`` bytes."""
    return _rounded_up(tik_instance, total_size, REPEAT)


def get_datamove_nburst(tik_instance: Any, total_size: Any) -> Any:
    """A Scalar: blocks of 32 bytes that cover ``total_size`` bytes."""
    return _rounded_up(tik_instance, total_size, BLOCK)


def move_out_non32_alignment(input_dict: Mapping[str, Any]) -> None:
    """Moves ``element_num`` elements of UB (out_ub) to GM (out_gm, from gm_offset on) and writes none behind them.

    Whole blocks are moved as they are; the rest goes out as the last 32 bytes of the data, which overwrite elements
    that were moved already, or that lie before gm_offset where there is less than a block. instance: the
    Tik. dsize: bytes of an element.
    """
    tik, source, target = input_dict["instance"], input_dict["out_ub"], input_dict["out_gm"]
    start, count = input_dict["gm_offset"], input_dict["element_num"]
    block = BLOCK // input_dict["dsize"]
    blocks, rest = tik.Scalar("int32", "blocks"), tik.Scalar("int32", "rest")
    blocks.set_as(count // block)
    rest.set_as(count % block)
    with tik.if_scope(blocks > 0):
        tik.data_move(target[start], source, 0, 1, blocks, 0, 0)
    with tik.if_scope(rest > 0):
        last = tik.Tensor(source.dtype, (block,), name="last_block", scope=UB)
        element = tik.Scalar(source.dtype, "element")
        first = count - block
        with tik.if_scope(blocks == 0):
            tik.data_move(last, target[start + first], 0, 1, 1, 0, 0)
        with tik.for_range(0, block) as i, tik.if_scope(first + i >= 0):
            element.set_as(source[first + i])
            last[i].set_as(element)
        tik.data_move(target[start + first], last, 0, 1, 1, 0, 0)


COMMON: dict[str, Any] = {
    "get_data_size": get_data_size,
    "get_block_element": get_block_element,
    "get_vector_repeat_times": get_vector_repeat_times,
    "get_datamove_nburst": get_datamove_nburst,
    "move_out_non32_alignment": move_out_non32_alignment,
}


@dataclass(frozen=True)
class Parameter:
    """One operand of an operator with the types and layouts it takes, each a list with commas."""

    classify: str
    name: str
    datatype: str
    format: str
    unknownshape_format: str = ""

    def described(self) -> dict[str, str]:
        """As the operator's description has it."""
        found = {"name": self.name, "dtype": self.datatype, "format": self.format}
        return {**found, "unknownshape_format": self.unknownshape_format} if self.unknownshape_format else found


def gen_param(classify: str, name: str, datatype: str, format: str, unknownshape_format: str = "") -> Parameter:
    """Describes an operand, e.g. gen_param("input0", "x", "float16,float32", "ND,ND")."""
    return Parameter(classify, name, datatype, format, unknownshape_format)


def get_dynamic_param_in_json(param_desc_in: Sequence[Parameter]) -> str:
    """Descriptions of operands as JSON, by their class (input0, output0, ...)."""
    return json.dumps({parameter.classify: parameter.described() for parameter in param_desc_in})


SELECTION: dict[str, Any] = {"gen_param": gen_param, "get_dynamic_param_in_json": get_dynamic_param_in_json}
