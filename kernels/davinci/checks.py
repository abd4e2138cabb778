"""The one check of operands against their row of the instruction table."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, ScopeError
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.rows_chips import signatures
from autotune.kernels.davinci.soc import SoC
from autotune.kernels.davinci.tensor import Tensor


def check(row: Row, soc: SoC, *operands: Tensor) -> None:
    """Raises ScopeError or DataTypeError where the row does not take these operands on that chip; destination first."""
    for place, (operand, scope) in enumerate(zip(operands, row.scopes)):
        if operand.scope != scope:
            raise ScopeError(f"{row.name} takes its {_name(place)} in {scope}; {operand.name} lies in {operand.scope}")
    check_types(row, soc, [operand.dtype for operand in operands])


def check_types(row: Row, soc: SoC, dtypes: Sequence[str]) -> None:
    """Raises DataTypeError where the row does not take these types on that chip; destination first."""
    taken = signatures(row, soc.arch)
    if tuple(dtypes) in taken:
        return
    if not taken:
        raise DataTypeError(f"{soc.name} has no {row.name}")
    for place, dtype in enumerate(dtypes):
        allowed = sorted({types[place] for types in taken})
        if dtype not in allowed:
            raise DataTypeError(
                f"{row.name} on {soc.name} takes {' or '.join(allowed)} as its {_name(place)}, not {dtype}"
            )
    together = sorted(", ".join(types) for types in taken)
    raise DataTypeError(f"{row.name} on {soc.name} takes {'; '.join(together)}; not {', '.join(dtypes)} together")


def no_stride_unit(api: str, stride_unit: object) -> None:
    """Raises NotEmulated for strides in other units than 32-byte blocks from head to head."""
    if stride_unit:
        raise NotEmulated(api, f"stride_unit {stride_unit!r}")


def _name(place: int) -> str:
    return "destination" if place == 0 else f"source {place}"
