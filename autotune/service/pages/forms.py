"""What can be chosen in the form that asks about a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.problem import ATTN_MASKS, DTYPES, OPS


def choices(devices: Sequence[str]) -> dict[str, Any]:
    """The values of each field."""
    return {"devices": devices, "ops": OPS, "attn_masks": ATTN_MASKS, "dtypes": DTYPES}


def typed(parameters: Mapping[str, str]) -> dict[str, str]:
    """What was filled in: a form sends what was left empty too."""
    return {name: value for name, value in parameters.items() if value}
