"""The present instant as everything here is dated: UTC, ISO 8601, seconds."""

import time


def now() -> str:
    """For example ``2026-12-01T02:13:44Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
