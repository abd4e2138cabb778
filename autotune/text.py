"""Values of the vocabulary in words, the same in progress lines, tables, answers and pages."""

from __future__ import annotations

from autotune.outcome import Outcome, Timed
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem


def of_problem(problem: AttentionProblem) -> str:
    """Shape and whatever is not at its default; the op only where it is not the usual one."""
    return problem.key.removeprefix("flash_attention;").replace(";", " ")


def of_plan(plan: TilingPlan) -> str:
    """``128 x 256, even over 32 cores, double buffer``."""
    split = plan.core_split
    slices = f", slices of {plan.slice_rows}" if plan.slice_rows else ""
    exp = f", {plan.exp} exp" if plan.exp != "float32" else ""
    buffers = ", double buffer" if plan.double_buffer else ""
    return f"{plan.Br} x {plan.Bc}, {split.rule} over {split.block_num} cores{slices}{exp}{buffers}"


def of_outcome(outcome: Outcome) -> str:
    """The time, or what went wrong and why."""
    if isinstance(outcome, Timed):
        return of_time(outcome.timing.time_us)
    stage = getattr(outcome, "stage", "rejected")
    return f"{stage}: {outcome.reason}"


def of_time(time_us: float | None) -> str:
    """Microseconds, four digits or the whole number."""
    if time_us is None:
        return "none"
    return f"{time_us:.4g} us" if time_us < 1000 else f"{time_us:.0f} us"


def of_share(stays_best: float) -> str:
    """How often a best plan stays the fastest when the timing model's uncertain numbers vary."""
    return f"the fastest in {stays_best:.0%} of draws of the timing model's uncertain numbers"


def of_speedup(speedup: float | None) -> str:
    """``1.37 x``, or a dash where the default could not be timed."""
    return "-" if speedup is None else f"{speedup:.2f} x"


def of_seconds(seconds: float) -> str:
    """``2h05m``, ``3m20s`` or ``15s``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
