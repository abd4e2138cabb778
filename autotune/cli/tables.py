"""What commands print on stdout for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from autotune import text
from autotune.kernels.targets.base import Target
from autotune.report import Report, Result
from autotune.strategies.registry import StrategyInfo

NO_TERMINAL_COLUMNS = 140
"""Width of tables in a file or a pipe."""


def show_report(report: Report) -> None:
    """The best plan of each problem beside the default's time."""
    clocks = sorted({f"{r.best.timing.kind} times, {r.best.timing.clock}" for r in report.results if r.best})
    rows = [_result(result) for result in report.results]
    headings = ("problem", "sparse default", "best", "speed-up", "plan", "by", "trials")
    _show(_table(headings, rows, title=f"{report.target}: {'; '.join(clocks) or 'no plan works'}"))


def show_targets(usable: Iterable[Target], reasons: Mapping[str, str]) -> None:
    """The targets of this machine with the chip's sizes, then those that cannot be used and why."""
    sizes = ("ub_bytes", "l1_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes")
    rows = [
        (
            target.name,
            str(target.hardware.cores),
            f"{target.hardware.clock_mhz} MHz",
            *(f"{getattr(target.hardware, size) // 1024} KiB" for size in sizes),
            target.fingerprint,
        )
        for target in usable
    ]
    _show(_table(("device", "cores", "clock", "UB", "L1", "L0A", "L0B", "L0C", "fingerprint"), rows))
    for name, reason in reasons.items():
        console().print(f"{name}: {reason}", markup=False, highlight=False)


def show_strategies(strategies: Iterable[StrategyInfo]) -> None:
    """Name, role, origin and meaning of each strategy."""
    rows = [(info.name, info.role, info.origin, info.summary) for info in strategies]
    _show(_table(("strategy", "role", "origin", "what it proposes"), rows))


def show_history(found: Mapping[str, Any]) -> None:
    """Publications of a problem, and what people decided about them."""
    rows = [
        (
            str(best["revision"]),
            f"{best['time_us']:.1f} us {best['kind']}",
            f"{best['plan']['Br']} x {best['plan']['Bc']}",
            best["provenance"]["sweep"],
            best["provenance"]["measured_at"],
        )
        for best in found["history"]
    ]
    _show(_table(("revision", "time", "Br x Bc", "sweep", "measured"), rows))
    decided = [(d["at"], f"{d['action']} {d['revision']}", d["actor"], d["reason"]) for d in found["decisions"]]
    if decided:
        _show(_table(("when", "what", "who", "why"), decided))


def show_answer(answer: Mapping[str, Any]) -> None:
    """An answer of ``/best``."""
    plan, problem = answer["plan"], answer["problem"]
    split, shape = plan["core_split"], ",".join(map(str, problem["shape"]))
    buffers = "two K/V buffers" if plan["double_buffer"] else "one K/V buffer"
    rows = [
        ("problem", f"{problem['op']} {shape} on {answer['device']}"),
        ("plan", f"Br {plan['Br']} (last {plan['last_Br']}, {plan['Tr']} blocks), "
                 f"Bc {plan['Bc']} (last {plan['last_Bc']}, {plan['Tc']} blocks)"),
        ("cores", f"{split['block_num']}, {split['rule']}; {buffers}"),
        ("match", _match(answer)),
        ("time", _times(answer)),
        *([("sure", text.of_share(answer["stays_best"]))] if answer.get("stays_best") is not None else []),
        ("proposed by", plan["strategy"]),
    ]  # fmt: skip
    for name, value in rows:
        console().print(f"{name:12} {value}", markup=False, highlight=False, soft_wrap=True)


def _match(answer: Mapping[str, Any]) -> str:
    stale = ", stale: of another kernel or timing model" if answer["stale"] else ""
    if answer["match"] != "nearest":
        return f"{answer['match']}{stale}"
    shape = ",".join(map(str, answer["matched_shape"]))
    return f"nearest: {shape}, {answer['distance']:.2f} doublings away{stale}"


def _times(answer: Mapping[str, Any]) -> str:
    if answer["time_us"] is None:
        return "never timed on this shape; `autotune sweep` does"
    default = f", {text.of_time(answer['default_time_us'])} by default" if answer["default_time_us"] else ""
    gain = f" ({text.of_speedup(answer['speedup_over_default'])})" if answer["speedup_over_default"] else ""
    return f"{text.of_time(answer['time_us'])} {answer['kind']}{default}{gain}"


def _result(result: Result) -> tuple[str, ...]:
    default = text.of_outcome(result.default) if result.default else "not tried"
    trials = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items(), reverse=True))
    best = result.best
    found = ("-", "-", "-", "-")
    if best:
        speedup = text.of_speedup(best.speedup_over_default)
        found = (text.of_time(best.timing.time_us), speedup, text.of_plan(best.plan), best.plan.strategy)
    return (text.of_problem(result.problem), default, *found, f"{trials} ({result.tried} new)")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    table = Table(*headings, title=title, title_justify="left", highlight=False)
    for row in rows:
        table.add_row(*row)
    return table


def _show(table: Table) -> None:
    console().print(table, markup=False)


def console() -> Console:
    """Stdout; wide enough for tables where nobody looks at it."""
    found = Console()
    return found if found.is_terminal else Console(width=NO_TERMINAL_COLUMNS)
