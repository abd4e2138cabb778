"""How well emulated times agree with public measurements; docs/timing.md holds the table.

python benchmarks/model_accuracy.py [--quick] [--json | --table | --ranges]      exit code 1 where a bar is missed

No number here is fitted by shape: the model's constants are those of kernels/davinci/constants.py and soc.py. Times are
emulated, so that two runs agree to the last digit and no two machines differ.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from autotune.kernels.davinci import costs, soc
from autotune.kernels.davinci.conditions import Conditions
from autotune.kernels.davinci.constants import CONSTANTS, DIFFERENCES, constants
from autotune.kernels.davinci.timing import estimate
from benchmarks import bars, micro_kernels
from benchmarks import published_timings as published
from benchmarks.matmul_910b import Product, best

TURNS = 2000
CHIP = "Ascend910B2"
"""Where the products were measured."""
CHIPS = {"dav-m100": "310", "dav-m200": "310P, 610", "dav-c220": "910B1 to B4"}
L2_READ = (76, 152)
"""Bytes per cycle of one core: between the least of davinci_timing.md 5.2 and what moves alone reach (2.5)."""
WITHIN = 1.45
"""The factor that most products must be within."""


@dataclass(frozen=True)
class Row:
    """One comparison. ratio: emulated to measured."""

    group: str
    what: str
    measured: float
    emulated: float
    unit: str

    @property
    def ratio(self) -> float:
        """1 where they agree; a rate is compared as a time."""
        fraction = self.emulated / self.measured
        return 1 / fraction if self.unit in ("TFLOPS", "GiB/s") else fraction


def main() -> int:
    """The script."""
    parser = bars.parser(__doc__, "every third product, and the first and last move of a curve")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--table", action="store_true", help="Markdown, as in docs/timing.md")
    form.add_argument("--ranges", action="store_true", help="products only, each constant at both ends of its range")
    options = parser.parse_args()
    if options.ranges:
        print("\n".join(ranges(options.quick)))
        return 0
    rows = [*peaks(), *tik_products(), *moves(options.quick), *products(options.quick)]
    report: dict[str, Any] = {"model": costs.version(), "bars": verdicts(rows)}
    report["rows"] = [{**vars(row), "ratio": row.ratio} for row in rows]
    return bars.finish(report, options.json, partial(table if options.table else text, rows))


def peaks() -> list[Row]:
    """A 910 with 30 cores at 900 MHz: the cube and the vector unit, each as busy as a program can make them."""
    found = []
    for what, measured, (program, operations) in (
        ("cube, fp16", published.TENSOR_TFLOPS, micro_kernels.product_chain("Ascend910B", TURNS)),
        ("vector, fp16", published.VECTOR_TFLOPS, micro_kernels.vector_stream("Ascend910B", TURNS)),
    ):
        found.append(Row("peak", what, measured, operations / estimate(program).time_us / 1e6, "TFLOPS"))
    return found


def tik_products() -> list[Row]:
    """tik.matmul on a 910A: cycles of the cube pipe."""
    return [
        Row("tik.matmul", "x".join(map(str, shape)), cycles, _busy(shape), "cycles")
        for shape, cycles in published.TIK_MATMUL.items()
    ]


def _busy(shape: tuple[int, int, int]) -> float:
    return float(estimate(micro_kernels.tik_matmul("Ascend910A", *shape)).busy["M"])


def moves(quick: bool) -> list[Row]:
    """One move on its own on a 910B, its tensor in L2."""
    found = []
    for (chip, route), curve in published.MOVES.items():
        for kibibytes in [min(curve), max(curve)] if quick else curve:
            program = micro_kernels.one_move(chip, route, kibibytes)
            cycles = estimate(program, conditions=Conditions(warm=True)).cycles - costs.DEFAULT["issue"]
            rate = kibibytes / 2**20 / (cycles / soc.get(chip).clock_mhz / 1e6)
            found.append(Row(f"{route}, {chip}", f"{kibibytes} KiB", curve[kibibytes], rate, "GiB/s"))
    return found


def products(quick: bool, profile: costs.Profile = costs.DEFAULT) -> list[Row]:
    """Products on a 910B2, each with the tiling that the emulator finds best, as the measured ones were tuned."""
    found = []
    for group, known in (("attention", published.ATTENTION_PRODUCTS), ("plain", published.PRODUCTS)):
        for shape in list(known)[:: 3 if quick else 1]:
            time_us = best(Product(*shape), CHIP, profile)[0].time_us
            batch, *sizes = shape
            name = f"{batch} x " * (batch > 1) + "x".join(map(str, sizes))
            found.append(Row(f"product, {group}", name, known[shape], time_us, "us"))
    return found


def ranges(quick: bool) -> list[str]:
    """Markdown: the products' bars, one number at a time at the ends of its range; what changes little is left out."""
    lines = ["| number | from | to | geometric mean | within 1.45 |", "|---|---|---|---|---|"]
    chip = soc.get(CHIP)
    numbers = {name: c for name, c in constants(chip.arch).items() if c.low is not None}
    profiles = {
        name: [costs.Profile(name, {name: value}) for value in (c.low, c.high) if value is not None]
        for name, c in numbers.items()
    }
    spans = {name: (c.low, c.high) for name, c in numbers.items()}
    spans["l2_read"] = L2_READ
    profiles["l2_read"] = [costs.Profile("l2_read", rates=replace(chip.rates, l2_read=rate)) for rate in L2_READ]
    usual = mean([row.ratio for row in products(quick)])
    for name, ends in profiles.items():
        ratios = [[row.ratio for row in products(quick, profile)] for profile in ends]
        if max(abs(mean(values) - usual) for values in ratios) > 0.005:
            means, shares = (" to ".join(f"{of(values):.2f}" for values in ratios) for of in (mean, _share))
            lines.append(f"| {name} | {spans[name][0]} | {spans[name][1]} | {means} | {shares} |")
    return lines


def verdicts(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """What the model is held to."""
    product_ratios = [row.ratio for row in rows if row.group.startswith("product")]
    worst = {group: max(abs(row.ratio - 1) for row in rows if row.group == group) for group in ("peak", "tik.matmul")}
    average = mean(product_ratios)
    return {
        "peak_rates_off_by_at_most": _bar(worst["peak"], "0.05", worst["peak"] <= 0.05),
        "tik_matmul_cycles_off_by_at_most": _bar(worst["tik.matmul"], "0.05", worst["tik.matmul"] <= 0.05),
        "products_geometric_mean": _bar(average, "0.9 to 1.1", 0.9 <= average <= 1.1),
        "products_within_1.45": _bar(_share(product_ratios), "0.8", _share(product_ratios) >= 0.8),
    }


def _bar(value: float, bar: str, ok: bool) -> dict[str, Any]:
    return {"value": value, "bar": bar, "ok": ok}


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def _share(ratios: Sequence[float]) -> float:
    return sum(1 / WITHIN <= ratio <= WITHIN for ratio in ratios) / len(ratios)


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by their group, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return found


def numbers() -> list[str]:
    """Markdown: every number of the model, for the 910A and where another chip differs."""
    lines = ["| number | chips | value | range | unit | confidence | source |", "|---|---|---|---|---|---|---|"]
    tables = {"910A": CONSTANTS, **{CHIPS[arch]: own for arch, own in DIFFERENCES.items()}}
    for name in CONSTANTS:
        for chips, known in tables.items():
            if name in known:
                c = known[name]
                span = "" if c.low is None else f"{c.low} to {c.high}"
                lines.append(f"| {name} | {chips} | {c.value} | {span} | {c.unit} | {c.confidence} | {c.source} |")
    return lines


def text(rows: Sequence[Row], report: dict[str, Any]) -> str:
    """The report for a reader."""
    lines = [report["model"]]
    for group, members in groups(rows).items():
        lines.append(f"{group}: geometric mean {mean([row.ratio for row in members]):.2f}")
        lines += [f"  {r.what}: {r.emulated:.4g} {r.unit}, measured {r.measured:g} ({r.ratio:.2f})" for r in members]
    return "\n".join([*lines, *bars.lines(report)])


def table(rows: Sequence[Row], report: dict[str, Any]) -> str:
    """The same as Markdown, after the numbers of the model."""
    lines = [
        *numbers(),
        "",
        f"Model when this was run: `{report['model']}`.",
        "",
        "| bar | value | must be | |",
        "|---|---|---|---|",
    ]
    for name, bar in report["bars"].items():
        lines.append(
            f"| {name.replace('_', ' ')} | {bar['value']:.3f} | {bar['bar']} | {'met' if bar['ok'] else 'missed'} |"
        )
    lines += ["", "| what | | measured | emulated | | time, emulated / measured |", "|---|---|---|---|---|---|"]
    for group, members in groups(rows).items():
        lines += [
            f"| {group} | {r.what} | {r.measured:g} | {r.emulated:.4g} | {r.unit} | {r.ratio:.2f} |" for r in members
        ]
        lines.append(f"| {group} | *geometric mean* | | | | *{mean([row.ratio for row in members]):.2f}* |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
