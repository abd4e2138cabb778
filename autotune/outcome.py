"""What became of a candidate, and the record kept of it. Standard library only, Python 3.8 syntax."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Mapping, Tuple, Union

from autotune.errors import CandidateError
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

EMULATED, MEASURED = "emulated", "measured"
"""Kinds of time. They are never compared as if they were the same; a measured plan outranks an emulated one."""


@dataclass(frozen=True)
class Timing:
    """A time in microseconds and where it comes from.

    kind: EMULATED or MEASURED. clock: the timing model with its version, or the measuring protocol.
    cycles: core cycles of the slowest core, where known. samples: raw times in microseconds, empty when emulated.
    spread_us: between their quartiles. wall_us: the same runs by the wall clock, where another clock decides.
    stays_best: of a best plan with an emulated time, how often it stays the fastest (0 to 1) when the numbers of the
    timing model that nobody is sure of are drawn anew; None where that is not known.
    machine: of a measured time, the machine's state then: load, cpus, mhz, and drift, by how much a run that is always
    the same was slower after the samples than before them (0.05 is 5 %).
    """

    time_us: float
    kind: str
    clock: str
    cycles: int | None = None
    samples: Tuple[float, ...] = ()
    spread_us: float = 0.0
    wall_us: Tuple[float, ...] = ()
    stays_best: float | None = None
    machine: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Field names to values."""
        value = asdict(self)
        return {**value, "samples": list(self.samples), "wall_us": list(self.wall_us)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Timing:
        """The inverse of ``to_json``."""
        return cls(**{**value, **{name: tuple(value.get(name, ())) for name in ("samples", "wall_us")}})


@dataclass(frozen=True)
class Timed:
    """The plan compiled, matched the float64 reference and was timed.

    error: relative L2 distance of O (or the worst gradient) to the reference.
    compile_s, verify_s, time_s: host seconds of the three stages.
    """

    timing: Timing
    error: float
    compile_s: float = 0.0
    verify_s: float = 0.0
    time_s: float = 0.0


@dataclass(frozen=True)
class Rejected:
    """The plan breaks a limit: it was never run. ``reason`` names the limit and the numbers."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """The candidate was tried and failed at ``stage``: compile, run, verify, time, crash or timeout."""

    stage: str
    reason: str


Outcome = Union[Timed, Rejected, Failed]


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """One object with ``status`` timed, rejected or failed and the fields of that outcome."""
    if isinstance(outcome, Timed):
        return {"status": "timed", **asdict(outcome), "timing": outcome.timing.to_json()}
    return {"status": "rejected" if isinstance(outcome, Rejected) else "failed", **asdict(outcome)}


def outcome_from_json(value: Mapping[str, Any]) -> Outcome:
    """The inverse of ``outcome_to_json``. Raises KeyError on an unknown status."""
    fields = {name: item for name, item in value.items() if name != "status"}
    if value["status"] == "timed":
        return Timed(**{**fields, "timing": Timing.from_json(value["timing"])})
    unsuccessful: dict[str, type[Rejected] | type[Failed]] = {"rejected": Rejected, "failed": Failed}
    return unsuccessful[value["status"]](**fields)


def outcome_of_error(error: CandidateError) -> Outcome:
    """The outcome that records a candidate's error: Rejected before it ran, Failed after."""
    return Rejected(str(error)) if error.stage == "check" else Failed(error.stage, str(error))


@dataclass(frozen=True)
class Trial:
    """One candidate of one sweep: what was tried where, and what became of it.

    device: hardware name, e.g. Ascend910A. target: e.g. emulated:Ascend910A. fingerprint: the target's, at that time.
    sweep: identifier of the sweep. at: UTC, ISO 8601, seconds.
    """

    problem: AttentionProblem
    device: str
    target: str
    fingerprint: str
    plan: TilingPlan
    outcome: Outcome
    sweep: str
    at: str


@dataclass(frozen=True)
class BestPlan:
    """The best verified plan of one (problem, device, target), with its evidence.

    default_time_us: the ``sparse`` default on the same target, where it could be timed.
    trials: candidates that the sweep had tried for this problem. revision: counts publications in this database.
    finished: False where the sweep that published it goes on, or was ended before it was through with the problem.
    """

    problem: AttentionProblem
    device: str
    target: str
    fingerprint: str
    plan: TilingPlan
    timing: Timing
    error: float
    default_time_us: float | None
    trials: int
    sweep: str
    measured_at: str
    revision: int = 0
    finished: bool = True

    @property
    def speedup_over_default(self) -> float | None:
        """default_time_us / time_us, or None where the default could not be timed."""
        return self.default_time_us / self.timing.time_us if self.default_time_us else None
