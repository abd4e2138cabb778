"""Rows of the scalar unit."""

from __future__ import annotations

from autotune.kernels.davinci.isa import SCALAR, Row, S

STORE_ELEMENT = Row("store_element", S, SCALAR, lambda value: value, source="tik_api.md 2.1, davinci_timing.md 2.7")
