"""How a sweep's events look, on a terminal and in a log."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from autotune import text
from autotune.cli.progress import LINE_SECONDS, Lines, shown
from autotune.outcome import EMULATED, Failed, Outcome, Rejected, Timed, Timing, Trial
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.report import Begun, Event, Result, Tried, Warned

PROBLEM = AttentionProblem.of((2, 16, 1024, 1024, 64), attn_mask="causal")
PLAN = TilingPlan(128, 256, CoreSplit("balanced", 32), double_buffer=True)


def timed(time_us: float) -> Timed:
    return Timed(Timing(time_us, EMULATED, "model-1"), error=1e-4)


def trial(outcome: Outcome) -> Trial:
    return Trial(PROBLEM, "Ascend910A", "emulated:Ascend910A", "f1", PLAN, outcome, "sweep-1", "2026-12-01T02:13:44Z")


def tried(done: int, outcome: Outcome, best_us: float | None) -> Tried:
    return Tried(trial(outcome), done, 40, trial(timed(best_us)) if best_us else None, 250.0, 125.0)


EVENTS: list[Event] = [
    Begun(PROBLEM, 1, 2, 750, 3),
    Warned("strategy 'foreign' stopped after 2 plan(s)"),
    tried(1, Failed("verify", "the output is 0.5 from float64"), None),
    tried(2, timed(250.0), 250.0),
    tried(3, timed(260.0), 250.0),
    tried(4, timed(200.0), 200.0),
    Result(PROBLEM, None, None, {"timed": 3, "failed": 1}, 4, False),
]


def test_a_log_has_a_line_for_each_thing_that_is_new() -> None:
    log = StringIO()
    with shown(Console(file=log, width=40)) as notify:
        for event in EVENTS:
            notify(event)
    plan = "128 x 256, balanced over 32 cores, double buffer"
    assert log.getvalue().splitlines() == [
        "problem 1 of 2: 2,16,1024,1024,64 attn_mask=causal: 750 candidates, 3 known",
        "warning: strategy 'foreign' stopped after 2 plan(s)",
        f"  1: 2/40  {plan}: 250 us  (best 250 us, 1.00 x the default, 2m05s left)",
        f"  1: 4/40  {plan}: 200 us  (best 200 us, 1.25 x the default, 2m05s left)",
        "  1: done: 4 new trials",
    ]


def test_a_log_shows_every_few_seconds_that_it_goes_on() -> None:
    log, now = StringIO(), [0.0]
    lines = Lines(Console(file=log), lambda: now[0])
    lines(tried(1, timed(200.0), 200.0))
    for done in range(2, 12):
        now[0] += LINE_SECONDS / 2
        lines(tried(done, timed(260.0), 200.0))
    assert [line.split("/")[0].strip() for line in log.getvalue().splitlines()] == ["1", "3", "5", "7", "9", "11"]


def on_a_terminal(events: list[Event]) -> str:
    """What is shown last, without colours."""
    terminal = StringIO()
    with shown(Console(file=terminal, force_terminal=True, width=140)) as notify:
        for event in events:
            notify(event)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())


def test_a_terminal_gets_a_bar_with_the_standing() -> None:
    told = on_a_terminal(EVENTS[:-1])
    assert "4/40 best 200 us, 1.25 x the default" in told
    assert re.search("problems .* 0/2 .*2m05s left", told)
    assert "warning: strategy 'foreign' stopped" in told


def test_a_problem_that_is_done_leaves_a_line_instead_of_its_bar() -> None:
    told = on_a_terminal(EVENTS)
    assert "2,16,1024,1024,64 attn_mask=causal: no plan works" in told
    assert re.search("problems .* 1/2 ", told)
    assert "4/40" not in told.rpartition("no plan works")[2]


def test_of_many_problems_those_seen_last_have_bars() -> None:
    problems = [AttentionProblem.of((1, 1, 64, 64, 16 * number)) for number in range(1, 17)]
    events: list[Event] = [Begun(problem, number, 16, 64, 0) for number, problem in enumerate(problems, 1)]
    again = replace(tried(1, timed(200.0), 200.0), trial=replace(trial(timed(200.0)), problem=problems[0]))
    last = on_a_terminal([*events, again]).rpartition("problems ")[2]
    assert [each for each in problems if re.search(rf"64,64,{each.head_dim} +[╸━]", last)] == [
        problems[0],
        *problems[5:],
    ]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (timed(172.208), "172.2 us"),
        (timed(12345.6), "12346 us"),
        (Rejected("UB needs 1 byte more"), "rejected: UB needs 1 byte more"),
        (Failed("verify", "wrong"), "verify: wrong"),
    ],
)
def test_outcomes_in_words(outcome: Outcome, words: str) -> None:
    assert text.of_outcome(outcome) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0s"), (59.6, "1m00s"), (125, "2m05s"), (3600, "1h00m"), (8 * 3600 + 61, "8h01m")]
)
def test_seconds_in_words(seconds: float, words: str) -> None:
    assert text.of_seconds(seconds) == words


def test_a_gradient_problem_is_named() -> None:
    problem = AttentionProblem.of((1, 1, 64, 64, 64), op="flash_attention_grad")
    assert text.of_problem(problem) == "flash_attention_grad 1,1,64,64,64"
