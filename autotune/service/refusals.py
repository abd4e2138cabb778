"""Why the service refuses, beside what is in ``autotune.errors``; and the HTTP status of every error it may meet."""

from __future__ import annotations

from autotune.errors import AutotuneError, CandidateError, InvalidInput, Overtaken, StoreError


class NotFound(AutotuneError):
    """What was asked for is not there. ``field`` names the parameter."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Unauthorized(AutotuneError):
    """No key, or none that is good."""


class Forbidden(AutotuneError):
    """A key that may not do this."""


class Busy(AutotuneError):
    """Others have to end first, or this service does not do it at all."""


class AlreadyRunning(AutotuneError):
    """A sweep runs on that target, and two would spoil each other's times."""


STATUS: dict[type[AutotuneError], int] = {
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    AlreadyRunning: 409,
    Overtaken: 412,
    StoreError: 503,
    Busy: 503,
    InvalidInput: 422,
    CandidateError: 422,
}
"""The narrower before the wider: a StoreError is an InvalidInput."""


def status_of(error: AutotuneError) -> int:
    """The HTTP status that says what is the matter."""
    return next(status for kind, status in STATUS.items() if isinstance(error, kind))
