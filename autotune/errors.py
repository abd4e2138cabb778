"""Every error this product raises on purpose.

::

    AutotuneError
    ├── InvalidInput            what somebody typed or sent is wrong: exit code 2, HTTP 422
    │   ├── ProblemError        a shape, mask or option that is no attention problem
    │   ├── PlanError           numbers that are no tiling plan
    │   ├── UnknownName         no such device, strategy or core split; names the known ones
    │   └── StoreError          the database cannot be used as given (path, permission, schema, corruption)
    ├── CandidateError          one candidate plan failed: the sweep records it and goes on
    │   ├── PlanRejected        the plan breaks a limit of the kernel or the chip
    │   ├── CompileFailed       the kernel did not build
    │   ├── RunFailed           the built kernel did not run
    │   ├── WrongAnswer         the result is not the float64 reference's
    │   ├── Crashed             the process that ran the candidate ended
    │   ├── TimedOut            the candidate used up its time limit
    │   └── ImplausibleTime     a measured time that cannot be true
    ├── Overtaken               what a decision rests on stands no more: exit code 1, HTTP 412
    ├── TargetUnavailable       the target is not on this machine: exit code 1, HTTP 503
    └── ServiceUnavailable      the service does not answer, or not as one of ours does: exit code 1

Anything else that is raised is a bug and must fly. Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations


class AutotuneError(Exception):
    """Base of every error that this product raises on purpose; its text is one clear sentence."""


class InvalidInput(AutotuneError, ValueError):
    """Wrong input. ``field`` names the parameter as its user typed it, e.g. ``shape``."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class ProblemError(InvalidInput):
    """A shape, mask or option that describes no attention problem we accept."""


class PlanError(InvalidInput):
    """Numbers that are no tiling plan, or not one for the problem asked about."""


class UnknownName(InvalidInput):
    """A name nobody registered: device, strategy, core split."""


class StoreError(InvalidInput):
    """The database cannot be used as given."""


class CandidateError(AutotuneError):
    """One candidate plan failed. ``stage`` is check, compile, run, verify, time, crash or timeout."""

    stage = "run"


class PlanRejected(CandidateError):
    """The plan breaks a limit; the message carries the numbers (bytes asked for, bytes there are)."""

    stage = "check"


class CompileFailed(CandidateError):
    """The kernel did not build with this plan."""

    stage = "compile"


class RunFailed(CandidateError):
    """The built kernel did not run to its end."""

    stage = "run"


class WrongAnswer(CandidateError):
    """The kernel ran, and its result is not the float64 reference's within the stated tolerance."""

    stage = "verify"


class Crashed(CandidateError):
    """The process that ran the candidate ended: a signal, an exit. The message says which, and its last words."""

    stage = "crash"


class TimedOut(CandidateError):
    """The candidate used up its time limit."""

    stage = "timeout"


class ImplausibleTime(CandidateError):
    """A time was measured that cannot be true: not positive, no number, or beyond the machine's peak rate."""

    stage = "time"


class Overtaken(AutotuneError):
    """What was decided upon is not what stands by now; look again and decide again."""


class TargetUnavailable(AutotuneError):
    """The target cannot be used on this machine; the message says what to install or connect."""


class ServiceUnavailable(AutotuneError):
    """The service that was asked does not answer, or what answers is none of ours."""
