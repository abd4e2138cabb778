"""autotune/outcome.py and hardware.py: JSON both ways, and what an error is recorded as."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import (
    CandidateError,
    CompileFailed,
    Crashed,
    ImplausibleTime,
    PlanRejected,
    RunFailed,
    TimedOut,
    WrongAnswer,
)
from autotune.hardware import Hardware
from autotune.outcome import (
    BestPlan,
    Failed,
    Outcome,
    Rejected,
    Timed,
    Timing,
    outcome_from_json,
    outcome_of_error,
    outcome_to_json,
)
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

seconds = st.floats(0, 1e6)
times_us = st.floats(1e-3, 1e9)
timings = st.builds(
    Timing,
    times_us,
    st.sampled_from(["emulated", "measured"]),
    st.text(max_size=8),
    cycles=st.none() | st.integers(1, 10**12),
    samples=st.lists(times_us, max_size=3).map(tuple),
    spread_us=seconds,
    wall_us=st.lists(times_us, max_size=3).map(tuple),
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Timed, timings, seconds, seconds, seconds, seconds),
    st.builds(Rejected, st.text(max_size=20)),
    st.builds(Failed, st.sampled_from(["compile", "run", "verify", "time"]), st.text(max_size=20)),
)


@given(timings)
def test_timing_json_both_ways(timing: Timing) -> None:
    assert Timing.from_json(json.loads(json.dumps(timing.to_json()))) == timing


@given(outcomes)
def test_outcome_json_both_ways(outcome: Outcome) -> None:
    again = outcome_from_json(json.loads(json.dumps(outcome_to_json(outcome))))
    assert again == outcome
    assert type(again) is type(outcome)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Timed(Timing(1.5, "emulated", "model-1"), 1e-3), "timed"),
        (Rejected("UB"), "rejected"),
        (Failed("run", ""), "failed"),
    ],
)
def test_the_status_is_stored_by_name(outcome: Outcome, status: str) -> None:
    assert outcome_to_json(outcome)["status"] == status


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(KeyError, match="lost"):
        outcome_from_json({"status": "lost"})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (PlanRejected("UB needs 9 bytes, has 8"), Rejected("UB needs 9 bytes, has 8")),
        (CompileFailed("no"), Failed("compile", "no")),
        (RunFailed("no"), Failed("run", "no")),
        (WrongAnswer("no"), Failed("verify", "no")),
        (TimedOut("no"), Failed("timeout", "no")),
        (Crashed("no"), Failed("crash", "no")),
        (ImplausibleTime("no"), Failed("time", "no")),
    ],
)
def test_what_a_candidates_error_is_recorded_as(error: CandidateError, outcome: Outcome) -> None:
    assert outcome_of_error(error) == outcome


def test_hardware_json_both_ways() -> None:
    chip = Hardware("Chip", 8, 1000, ub_bytes=1, l1_bytes=2, l0a_bytes=3, l0b_bytes=4, l0c_bytes=5)
    assert Hardware.from_json(json.loads(json.dumps(chip.to_json()))) == chip


def test_speedup_over_the_default() -> None:
    best = BestPlan(
        AttentionProblem.of((1, 1, 64, 64, 64)), "Chip", "emulated:Chip", "f", TilingPlan(16, 16),
        Timing(2.0, "emulated", "model-1"), 0.0, 5.0, 1, "s", "2026-12-01T00:00:00Z",
    )  # fmt: skip
    assert best.speedup_over_default == 2.5
    assert replace(best, default_time_us=None).speedup_over_default is None
