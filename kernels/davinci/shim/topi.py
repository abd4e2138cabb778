"""topi.cce.util: which product the kernel is for, and the oldest form of the parameter checks (tik_api.md 3.1)."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.shim import checks, dsl, shapes

PRODUCTS = {"dav-m100": "mini", "dav-c100": "cloud", "dav-m200": "1.60", "dav-c220": "cloud_v2"}
"""Architecture to what get_product_version answers; [?] beyond mini and cloud."""


def get_product_version() -> str:
    """VERSION_MINI on a 310, VERSION_CLOUD on a 910A; another word elsewhere."""
    return PRODUCTS[chips.Current.soc.arch]


def is_mini_version() -> bool:
    """Whether the chip is a 310."""
    return get_product_version() == PRODUCTS["dav-m100"]


def is_cloud_version() -> bool:
    """Whether the chip is a 910A or one of its relatives."""
    return get_product_version() == PRODUCTS["dav-c100"]


def is_v200_version() -> bool:
    """Whether the chip is a 310P or 610."""
    return chips.Current.soc.arch == "dav-m200"


_UTIL: dict[str, Any] = {
    **checks.PARA_CHECK,
    **shapes.SHAPE_UTIL,
    "VERSION_MINI": PRODUCTS["dav-m100"],
    "VERSION_CLOUD": PRODUCTS["dav-c100"],
    "get_product_version": get_product_version,
    "is_mini_version": is_mini_version,
    "is_cloud_version": is_cloud_version,
    "is_v200_version": is_v200_version,
}
TOPI_MODULES: dict[str, dict[str, Any]] = {
    "": {},
    ".cce": {},
    ".cce.util": _UTIL,
    ".generic": dsl.absent_names("topi.generic"),
}
