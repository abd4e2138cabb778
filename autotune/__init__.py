"""Autotuner for attention kernels on Ascend NPUs: finds and serves the fastest tiling plan.

Importing this package imports nothing else, so that ``autotune.client`` stays cheap inside a kernel build;
``autotune.attention`` is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.attend import attention as attention

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "attention":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autotune.attend import attention

    return attention
