"""The page that sets two published plans side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi.responses import HTMLResponse

from autotune import text
from autotune.outcome import BestPlan
from autotune.service.pages import links
from autotune.service.pages.render import page


def compare_page(
    given: Mapping[str, str], pair: Sequence[BestPlan] = (), fault: str = "", status: int = 200
) -> HTMLResponse:
    """given: what was typed, shown again. pair: two plans, or none. fault: why there is nothing to show."""
    sides = [(best, links.query(best.problem, best.device)) for best in pair]
    rows = [(name, *texts) for name, *texts in zip(_NAMES, *map(_texts, pair), strict=True)] if pair else []
    verdict = _verdict(*pair) if pair else ""
    return page(
        "compare.html", status, title="Two plans", given=given, fault=fault, sides=sides, rows=rows, verdict=verdict
    )


def _verdict(left: BestPlan, right: BestPlan) -> str:
    """What the two times say of each other, which is nothing where they are not of one problem, chip and clock."""
    if (left.problem, left.device) != (right.problem, right.device):
        return "These are plans of different problems or chips: their times cannot be compared."
    if (left.timing.kind, left.timing.clock) != (right.timing.kind, right.timing.clock):
        return "The times come from different clocks and cannot be compared."
    ratio = left.timing.time_us / right.timing.time_us
    if left.plan == right.plan:
        return f"The same plan, timed twice: revision {left.revision} at {ratio:.3f} x revision {right.revision}."
    if ratio == 1:
        return "Both plans take the same time."
    first, second, gain = (right, left, ratio) if ratio > 1 else (left, right, 1 / ratio)
    return f"Revision {first.revision} is {gain:.3f} x as fast as revision {second.revision}."


_NAMES = (
    "problem", "chip", "time", "clock", "spread", "default's time", "gain over the default", "Br", "Bc",
    "query blocks", "key blocks", "core split", "cores", "slice rows", "exp", "double buffer", "proposed by",
    "error", "target", "fingerprint", "trials", "sweep", "found",
)  # fmt: skip


def _texts(best: BestPlan) -> tuple[str, ...]:
    plan, tiling, timing = best.plan, best.plan.tiling(best.problem), best.timing
    return (
        text.of_problem(best.problem),
        best.device,
        f"{text.of_time(timing.time_us)} {timing.kind}",
        timing.clock,
        f"{timing.spread_us:.3g} us between quartiles" if timing.samples else "",
        text.of_time(best.default_time_us),
        text.of_speedup(best.speedup_over_default),
        str(plan.Br),
        str(plan.Bc),
        f"{tiling.Tr}, the last of {tiling.last_Br} rows",
        f"{tiling.Tc}, the last of {tiling.last_Bc} rows",
        plan.core_split.rule,
        str(plan.core_split.block_num),
        str(plan.slice_rows or "all of a block"),
        plan.exp,
        "yes" if plan.double_buffer else "no",
        plan.strategy,
        f"{best.error:.2e}",
        best.target,
        best.fingerprint,
        str(best.trials),
        best.sweep,
        best.measured_at,
    )
