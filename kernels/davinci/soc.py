"""The chips, as data. Sizes in bytes, clocks in MHz, rates in bytes per core cycle.

Source of sizes, cores, clocks and rates: the public platform_config files, as tabled in davinci_timing.md 1.1 and 1.2
and tik_api.md 3.2. Cost constants that those files do not give are named in ``timing.py`` with their source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

KIB = 1024


@dataclass(frozen=True)
class Rates:
    """Bytes per core cycle of each route (davinci_timing.md 1.2, [AICoreMemoryRates])."""

    ddr_read: int
    ddr_write: int
    l2_read: int
    l2_write: int
    l1_to_l0a: int
    l1_to_l0b: int
    l1_to_ub: int
    ub_to_l1: int
    l0c_to_ub: int
    ub_to_ddr: int


@dataclass(frozen=True)
class SoC:
    """One chip. ``saturates``: floating overflow becomes the largest finite value and NaN becomes 0 (tik_api.md 0.8)."""

    name: str
    short_name: str
    cores: int
    clock_mhz: int
    arch: str
    ub_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    l2_bytes: int
    saturates: bool
    rates: Rates

    def with_cores(self, cores: int) -> SoC:
        """The same chip with fewer cores in use (set_current_compile_soc_info's aicore_num)."""
        return replace(self, cores=cores)


_C100 = Rates(32, 32, 110, 86, 512, 256, 128, 128, 256, 64)
_M100 = Rates(67, 64, 128, 64, 512, 256, 128, 128, 256, 64)
_M200 = Rates(17, 17, 114, 114, 512, 256, 128, 256, 512, 17)


def _c100(name: str, cores: int, clock_mhz: int) -> SoC:
    return SoC(
        name, "Ascend910", cores, clock_mhz, "dav-c100",
        256 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB, 32768 * KIB, True, _C100,
    )  # fmt: skip


SOCS = {
    soc.name: soc
    for soc in (
        SoC("Ascend310", "Ascend310", 2, 680, "dav-m100", 248 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB,
            8192 * KIB, True, _M100),
        SoC("Ascend310P3", "Ascend310P", 8, 1060, "dav-m200", 256 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB,
            16384 * KIB, True, _M200),
        _c100("Ascend910A", 32, 1000),
        _c100("Ascend910ProA", 32, 1100),
        _c100("Ascend910ProB", 30, 1150),
        _c100("Ascend910PremiumA", 32, 1220),
    )
}  # fmt: skip
"""Name to chip. The 910B family splits cube and vector cores, which this model does not have yet."""

ALIASES = {"Ascend910": "Ascend910A", "Ascend310P": "Ascend310P3"}
"""Family names that public kernels use, and the chip each stands for (tik_api.md 3.2 [?])."""

DEFAULT = "Ascend310"
"""The chip of a program that never called set_current_compile_soc_info (tik_api.md 3.1)."""


def get(name: str) -> SoC:
    """The chip of that name or alias. Raises KeyError."""
    return SOCS[ALIASES.get(name, name)]


class Current:
    """The chip that programs are recorded for, as set_current_compile_soc_info leaves it."""

    soc: SoC = SOCS[DEFAULT]


def use(name: str, cores: int | None = None) -> SoC:
    """Makes a chip the current one and returns it. Raises KeyError for an unknown name, ValueError for its cores."""
    soc = get(name)
    if cores is not None:
        if not 1 <= cores <= soc.cores:
            raise ValueError(f"aicore_num is {cores}; {soc.name} has 1 to {soc.cores}")
        soc = soc.with_cores(cores)
    Current.soc = soc
    return soc


SPEC: dict[str, Callable[[SoC], object]] = {
    "SOC_VERSION": lambda soc: soc.name,
    "FULL_SOC_VERSION": lambda soc: soc.name,
    "SHORT_SOC_VERSION": lambda soc: soc.short_name,
    "AICORE_TYPE": lambda soc: "AiCore",
    "CORE_NUM": lambda soc: soc.cores,
    "MAX_CORE_NUM": lambda soc: soc.cores,
    "UB_SIZE": lambda soc: soc.ub_bytes,
    "L2_SIZE": lambda soc: soc.l2_bytes,
    "L1_SIZE": lambda soc: soc.l1_bytes,
    "L0A_SIZE": lambda soc: soc.l0a_bytes,
    "L0B_SIZE": lambda soc: soc.l0b_bytes,
    "L0C_SIZE": lambda soc: soc.l0c_bytes,
    "CUBE_SIZE": lambda soc: [16, 16, 16],
    "SMASK_SIZE": lambda soc: 256 if soc.arch == "dav-m200" else 0,
    "Compiler_arch": lambda soc: soc.arch,
    "CUBE_VECTOR_SPLIT": lambda soc: False,
}
"""What get_soc_spec answers (tik_api.md 3.1)."""


def get_soc_spec(key: str) -> object:
    """A property of the current chip; sizes in bytes. Raises RuntimeError on an unknown key, as the toolkit does."""
    if key not in SPEC:
        raise RuntimeError(f"get_soc_spec has no key {key!r}; known: {', '.join(SPEC)}")
    return SPEC[key](Current.soc)
