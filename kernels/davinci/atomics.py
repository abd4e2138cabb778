"""Moves to GM: they overwrite, or add while set_atomic_add says so (tik_api.md 1.15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import DataTypeError
from autotune.kernels.davinci.expr import Registers
from autotune.kernels.davinci.half import round_half, saturate_float
from autotune.kernels.davinci.operands import Array, Store
from autotune.kernels.davinci.program import Instruction
from autotune.kernels.davinci.recorder import ATOMIC_REGISTER
from autotune.kernels.davinci.soc import ATOMIC_TYPES


def to_global(
    instruction: Instruction, compute: Callable[..., Any], store: Store, saturate: bool
) -> Callable[[Registers, Sequence[Array], Sequence[Any]], None]:
    """What a move to GM does; it raises DataTypeError where it adds and its type is not the one to be added."""
    dtype = instruction.outputs[0].dtype

    def apply(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        result, mode = compute(*values), r[ATOMIC_REGISTER]
        if not mode:
            store(places[0], result)
            return
        added = ATOMIC_TYPES[mode - 1]
        if added != dtype:
            raise DataTypeError(
                f"{instruction.row.name} moves {dtype} to GM while set_atomic_add says {added}", instruction.where
            )
        _add(places[0], result, saturate)

    return apply


def _add(place: Array, values: Array, saturate: bool) -> None:
    """Floats are rounded once; whole numbers wrap around."""
    if place.dtype == np.float16:
        place[...] = round_half(place.astype(np.float32) + values, saturate)
    elif place.dtype == np.float32 and saturate:
        place[...] = saturate_float(place + values)
    else:
        np.add(place, values, out=place, casting="unsafe")
