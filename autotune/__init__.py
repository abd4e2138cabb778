"""Autotuner for attention kernels on Ascend NPUs: finds and serves the fastest tiling plan.

Importing this package imports nothing else, so that ``autotune.client`` stays cheap inside a kernel build.
"""

__version__ = "0.1.0"
