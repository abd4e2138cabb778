"""python -m autotune.kernels.davinci.document > docs/emulator.md: the instruction set and what is covered of TIK."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from autotune.kernels.davinci import shim
from autotune.kernels.davinci.coverage import ENTRIES
from autotune.kernels.davinci.debug import Debugger
from autotune.kernels.davinci.isa import Row, Types
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.rows_chips import CONVERSIONS, DIFFERENCES, SHORT, signatures
from autotune.kernels.davinci.soc import SOCS, SoC
from autotune.kernels.davinci.table import ROWS

CHOICES = (
    "The fp16 exponential and logarithm are numpy's in float32, rounded once; vrec, vrsqrt and vdiv are correctly "
    "rounded, where the chip's are approximate. Denormals are kept.",
    "vmla, vmadd, vmaddrelu and vaxpy are fused: their product is not rounded.",
    "int32 sums and products wrap around; conversions to whole numbers keep to the type's limits.",
    "'away-zero' takes ties away from zero in vector conversions. In scalar_conv it rounds magnitudes up on the 910A "
    "and takes ties away elsewhere.",
    "'round' is accepted wherever a conversion to a floating type takes no mode: both are to nearest even.",
    "A mask leaves lanes out of a reduction: sums take them as 0. A block of vcgmax or vcgmin without active lanes "
    "gives the other end of the type. Blocks behind the last active lane are not written.",
    "vcmp_* give 0 for lanes outside their mask. There is one comparison mask register: each vcmp_* overwrites it.",
    "vcmax, vcmin and vec_reduce_max, vec_reduce_min give the first of equal elements. The index that vec_reduce_* "
    "give is the element's place from the start of the source.",
    "vec_reduce_* and vec_*_high_preci do not write their work tensor; the size that vec_ln_high_preci and "
    "vec_expm1_high_preci need of it is not checked.",
    "A whole Scalar that takes a float element of its size takes its bits, as kernels do with the index of vcmax.",
    "vreduce: a mask in normal mode counts the lanes of each repeat; in counter mode it counts elements of each "
    "repeat, on every chip. Patterns 1 to 6 are even, odd, first to fourth of four lanes; 7 is all.",
    "mask_mode 'counter' counts elements on 310P and 910B and is a mask as always on 310 and 910A. "
    "Repeat strides count.",
    "Repeats are executed one after the other wherever one may read or overwrite what an earlier one wrote; inside a "
    "repeat everything is read before anything is written.",
    "vec_trans_scatter with one repeat starts one stride further, as documented.",
    "The cube sums in float32, inside one call in the host's order; NaN becomes 0 where the chip saturates.",
    "Local memory holds repeatable noise until it is written. Cores run one after the other.",
    "data_move takes tensors of different types where it is known never to be executed: under a constant condition "
    "that does not hold, or in a loop of constant zero turns. Elsewhere that is an error.",
    "A local tensor ends with its last aligned piece: a whole block may be moved into one of fewer elements.",
    "BS9SX1AA, a relative of the 310P whose figures are not published, is taken for an Ascend310P1.",
    "stride_unit other than 0, ldst_high_half and the max_cnt_index of vcmax are not emulated.",
)
"""Where the documentation leaves a question open: what the emulated core does."""

_HEAD = """\
# The emulated core

`kernels/davinci` runs TIK programs without an Ascend chip: `python -m autotune.kernels.davinci SCRIPT`. This page is
written by `python -m autotune.kernels.davinci.document` from the instruction table; do not edit it by hand.

Sources are sections of the project's notes on the public documentation: `tik_api.md` for what an instruction does,
`davinci_timing.md` for what it costs.
"""


def text() -> str:
    """The page."""
    return "\n".join((_HEAD, *_instructions(), *_differences(), *_conversions(), *_coverage(), *_choices()))


def main() -> None:
    """Writes the page to standard output."""
    sys.stdout.write(text())


def _table(*columns: str) -> Iterable[str]:
    return f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"


def _instructions() -> Iterable[str]:
    yield "## Instructions\n"
    yield (
        "Operands and types are those of the 910A, destination first; `=` is the destination's type. Cost: the form "
        "and, of vector instructions, cycles a repeat with 16-bit and 32-bit elements.\n"
    )
    yield from _table("name", "operands", "types", "pipe", "cost", "source")
    chip = SOCS["Ascend910A"]
    for row in ROWS:
        operands = " ← ".join(_scope(scope) for scope in row.scopes)
        cost = f"{row.form} {row.half:g}/{row.single:g}" if row.pipe == "V" else row.form
        yield f"| {row.name} | {operands} | {_types(row, chip)} | {row.pipe} | {cost} | {row.source} |"
    yield ""


def _scope(scope: str) -> str:
    return "GM" if scope == "global" else scope.removeprefix("local.")


def _types(row: Row, chip: SoC) -> str:
    if row.name in ("vconv", "h_cast"):
        return "see conversions"
    return _listed(tuple(sorted(signatures(row, chip.arch)))) or "none"


def _listed(types: Types) -> str:
    return "; ".join(dict.fromkeys(_short(one) for one in types))


_CODES = {name: code for code, name in SHORT.items()}


def _short(types: tuple[str, ...]) -> str:
    codes = [_CODES.get(dtype, dtype) for dtype in types]
    if len(set(codes)) == 1:
        return codes[0]
    return " ".join(code if place == 0 or code != codes[0] else "=" for place, code in enumerate(codes))


def _differences() -> Iterable[str]:
    yield "## Other chips\n"
    yield from _table("architecture", "chips", "other operand types than the 910A")
    for arch, rows in DIFFERENCES.items():
        chips = ", ".join(soc.name for soc in SOCS.values() if soc.arch == arch)
        changes = "; ".join(f"{name}: {_listed(types) or 'none'}" for name, types in rows.items())
        yield f"| {arch} | {chips} | {changes} |"
    yield ""


def _conversions() -> Iterable[str]:
    yield "## Conversions\n"
    yield from _table("architecture", "source to destination: rounding modes")
    for arch, pairs in CONVERSIONS.items():
        entries = [
            f"{_CODES[source]} to {_CODES[target]}: {', '.join(mode or 'none' for mode in modes) or 'deqscale'}"
            for (source, target), modes in pairs.items()
        ]
        yield f"| {arch} | {'; '.join(entries)} |"
    yield ""


def emulated(call: str) -> bool:
    """Whether a call of the list exists here."""
    owner, _, name = call.rpartition(".")
    if owner == "tik":
        return name in shim.MODULES["tbe.tik"]
    return hasattr(Debugger if owner == "tikdb" else Tik, name)


def _coverage() -> Iterable[str]:
    yield "## Coverage\n"
    yield "The calls of public TIK kernels, most frequent first (`tik_api.md` 4.1).\n"
    yield from _table("#", "priority", "emulated", "not emulated")
    for entry in ENTRIES:
        there = ", ".join(call for call in entry.calls if emulated(call))
        missing = ", ".join(call for call in entry.calls if not emulated(call))
        yield f"| {entry.number} | {entry.priority} | {there or '-'} | {missing or '-'} |"
    yield ""


def _choices() -> Iterable[str]:
    yield "## Open points, and what was chosen\n"
    yield from (f"- {choice}" for choice in CHOICES)
    yield ""


if __name__ == "__main__":
    main()
