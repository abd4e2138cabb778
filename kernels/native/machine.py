"""The CPU of this machine: its name, what distinguishes it from others, and how fast it is."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from pathlib import Path
from typing import Any

from autotune.hardware import Hardware

CPUINFO = Path("/proc/cpuinfo")
MAX_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
"""In kHz; virtual machines often lack it."""
IDENTITY = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU part", "Features")
"""Lines of /proc/cpuinfo that decide what code runs and how fast, on x86 and ARM."""


def hardware() -> Hardware:
    """Cores that this process may use; sizes 0, as no memory of a CPU is handed out by a plan."""
    about = _first_processor()
    model = about.get("model name") or platform.processor() or platform.machine()
    name = "-".join(re.findall(r"[a-z0-9]+", re.sub(r"\((r|tm)\)", "", model.lower()))) or "unknown"
    return Hardware(f"cpu-{name}", len(os.sched_getaffinity(0)), _clock_mhz(about))


def identity() -> str:
    """Eight hexadecimal digits that change with the CPU's model and instruction set."""
    about = _first_processor()
    text = "\n".join((platform.machine(), *(about.get(name, "") for name in IDENTITY)))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def state() -> dict[str, Any]:
    """What the machine is doing: load (runnable processes, mean of a minute), cpus that this process may use, and mhz,
    the present clock of the fastest, where it can be read."""
    found: dict[str, Any] = {"load": round(os.getloadavg()[0], 2), "cpus": sorted(os.sched_getaffinity(0))}
    lines = _lines()
    clocks = [float(value) for name, value in lines if name == "cpu MHz" and value.replace(".", "", 1).isdigit()]
    return {**found, "mhz": round(max(clocks))} if clocks else found


def _clock_mhz(about: dict[str, str]) -> int:
    """The highest clock where it can be read, else the present one, else 0."""
    try:
        return int(MAX_FREQUENCY.read_text()) // 1000
    except (OSError, ValueError):
        return round(float(about.get("cpu MHz", 0)))


def _first_processor() -> dict[str, str]:
    """/proc/cpuinfo's lines about the first processor; none where there is no such file."""
    found: dict[str, str] = {}
    for name, value in _lines():
        if name in found or not name:
            break
        found[name] = value
    return found


def _lines() -> list[tuple[str, str]]:
    """Names and values of /proc/cpuinfo, empty ones between processors."""
    try:
        lines = CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
