"""The chips, as data. Sizes in bytes, clocks in MHz, rates in bytes per core cycle.

Source of sizes, cores, clocks and rates: the public platform_config files, as tabled in davinci_timing.md 1.1 and 1.2
and tik_api.md 3.2. Cost constants that those files do not give are named in ``constants.py`` with their source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

KIB = 1024
MIB = 1024 * KIB
AI_CORE, VECTOR_CORE = "AiCore", "VectorCore"


ATOMIC_TYPES = ("float32", "float16", "int16", "int32", "int8", "bfloat16")
"""What set_atomic_add's modes 1, 2, ... add (tik_api.md 1.15)."""


@dataclass(frozen=True)
class Rates:
    """Bytes per core cycle of each route (davinci_timing.md 1.2, [AICoreMemoryRates]).

    l0c_to_gm: what a fixpipe writes; it reads at l0c_to_ub. ub_to_ddr: from UB or L1 to GM, in L2 or not. source,
    confidence: as of a constant.
    """

    ddr_read: int
    l2_read: int
    l1_to_l0a: int
    l1_to_l0b: int
    l1_to_ub: int
    ub_to_l1: int
    l0c_to_ub: int
    ub_to_ddr: int
    gm_to_ub: int
    l0c_to_gm: int
    source: str = "1.2, platform file"
    confidence: str = "published"


@dataclass(frozen=True)
class SoC:
    """One chip, or the vector cores of one.

    cores: those that a kernel runs on. vector_cores: separate vector cores, 0 where there are none. saturates: floating
    overflow becomes the largest finite value and NaN becomes 0 (tik_api.md 0.8). atomics: how many of ATOMIC_TYPES
    moves to GM can add. missing: routes that other chips have, as (from, to) by the names of the memories. core_type:
    AiCore or VectorCore.
    """

    name: str
    short_name: str
    cores: int
    vector_cores: int
    clock_mhz: int
    arch: str
    ub_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    l2_bytes: int
    saturates: bool
    atomics: int
    missing: tuple[tuple[str, str], ...]
    rates: Rates
    core_type: str = AI_CORE

    @property
    def split(self) -> bool:
        """Whether cube and vector unit are separate cores."""
        return self.arch == "dav-c220"

    def with_cores(self, cores: int) -> SoC:
        """The same chip with fewer cores in use (set_current_compile_soc_info's aicore_num)."""
        return replace(self, cores=cores)

    def vector_view(self) -> SoC:
        """The chip's vector cores alone: they have a UB and no cube. Raises ValueError where it has none."""
        if not self.vector_cores:
            raise ValueError(f"{self.name} has no vector cores")
        rates = _M200_VECTOR if self.arch == "dav-m200" else self.rates
        return replace(
            self, core_type=VECTOR_CORE, cores=self.vector_cores, rates=rates,
            l1_bytes=0, l0a_bytes=0, l0b_bytes=0, l0c_bytes=0,
        )  # fmt: skip


_C100 = Rates(32, 110, 512, 256, 128, 128, 256, 64, 110, 64)
_M100 = Rates(67, 128, 512, 256, 128, 128, 256, 64, 128, 64)
_M200 = Rates(17, 114, 512, 256, 128, 256, 512, 17, 114, 17)
_M200_VECTOR = replace(_M200, ddr_read=9, l2_read=57, ub_to_ddr=9, gm_to_ub=57)
_C220 = Rates(
    96, 119, 256, 128, 128, 128, 256, 64, 46, 128,
    "2.3, 2.5, 2.6 and 5.6; the platform file repeats the 910A's", "measured",
)  # fmt: skip
"""DDR: the vendor's model of convolutions. L2: 220 GB/s (5.6), between 262 GiB/s that moves alone reach and 186 GB/s of
a whole product on one core. L1 to L0A and L0B, UB to GM (110 GiB/s), GM to UB (78.6 GiB/s, of a 910B1): measured. A
fixpipe's two ends: published."""
_C220_B3 = replace(_C220, gm_to_ub=122)
"""2.5: 158 GiB/s with moves of 60 KiB and 187 with 192 KiB, the same tool as for the 910B1."""

_SPLIT = (("L1", "UB"), ("UB", "L1"), ("L0C", "UB"), ("UB", "L0C"))
"""Between the cube and the vector core of a 910B there is only GM (davinci_timing.md 1.2)."""


def _c100(name: str, cores: int, clock_mhz: int) -> SoC:
    return SoC(
        name, "Ascend910", cores, 0, clock_mhz, "dav-c100", 256 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB,
        32 * MIB, True, 1, (), _C100,
    )  # fmt: skip


def _m200(name: str, short_name: str, cores: int, vector_cores: int, clock_mhz: int, l2_bytes: int) -> SoC:
    return SoC(
        name, short_name, cores, vector_cores, clock_mhz, "dav-m200", 256 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB,
        256 * KIB, l2_bytes, True, 3, (), _M200,
    )  # fmt: skip


def _c220(name: str, cores: int, clock_mhz: int, l2_bytes: int, rates: Rates = _C220) -> SoC:
    return SoC(
        name, "Ascend910B", cores, 2 * cores, clock_mhz, "dav-c220", 192 * KIB, 512 * KIB, 64 * KIB, 64 * KIB,
        128 * KIB, l2_bytes, False, 6, _SPLIT, rates,
    )  # fmt: skip


SOCS = {
    soc.name: soc
    for soc in (
        SoC(
            "Ascend310", "Ascend310", 2, 0, 680, "dav-m100", 248 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB,
            8 * MIB, True, 0, (), _M100,
        ),
        _m200("Ascend310P1", "Ascend310P", 10, 8, 1060, 16 * MIB),
        _m200("Ascend310P3", "Ascend310P", 8, 7, 1060, 16 * MIB),
        _m200("Ascend610", "Ascend610", 10, 0, 960, 0),
        _c100("Ascend910A", 32, 1000),
        _c100("Ascend910ProA", 32, 1100),
        _c100("Ascend910ProB", 30, 1150),
        _c100("Ascend910PremiumA", 32, 1220),
        _c100("Ascend910B", 30, 900),
        _c220("Ascend910B1", 24, 1850, 192 * MIB),
        _c220("Ascend910B2", 24, 1800, 192 * MIB),
        _c220("Ascend910B3", 20, 1800, 192 * MIB, _C220_B3),
        _c220("Ascend910B4", 20, 1500, 96 * MIB),
    )
}  # fmt: skip
"""Name to chip. A 910B1 to B4 is seen as one core with the memories of its cube and its vector core and no way between
them; "Ascend910B" without a digit is an older chip of the 910A's kind (davinci_timing.md 0.6). The 610's L2 is not
published."""

ALIASES = {"Ascend910": "Ascend910A", "Ascend310P": "Ascend310P3", "BS9SX1AA": "Ascend310P1"}
"""Names that public kernels use, and the chip each stands for (tik_api.md 3.2 [?]): families, and a relative of the
310P whose figures are not published."""

DEFAULT = "Ascend310"
"""The chip of a program that never called set_current_compile_soc_info (tik_api.md 3.1)."""


def get(name: str) -> SoC:
    """The chip of that name or alias. Raises KeyError."""
    return SOCS[ALIASES.get(name, name)]


class Current:
    """The chip that programs are recorded for, as set_current_compile_soc_info leaves it."""

    soc: SoC = SOCS[DEFAULT]


def use(name: str, cores: int | None = None, core_type: str = AI_CORE) -> SoC:
    """Makes a chip the current one and returns it.

    Raises KeyError for an unknown name, ValueError for its cores or their kind.
    """
    soc = get(name)
    if core_type not in (AI_CORE, VECTOR_CORE):
        raise ValueError(f"core_type is {core_type!r}; it must be {AI_CORE} or {VECTOR_CORE}")
    if core_type == VECTOR_CORE:
        soc = soc.vector_view()
    if cores is not None:
        if not 1 <= cores <= soc.cores:
            raise ValueError(f"aicore_num is {cores}; {soc.name} has 1 to {soc.cores}")
        soc = soc.with_cores(cores)
    Current.soc = soc
    return soc


def _whole(soc: SoC) -> SoC:
    return get(soc.name)


SPEC: dict[str, Callable[[SoC], object]] = {
    "SOC_VERSION": lambda soc: soc.name,
    "FULL_SOC_VERSION": lambda soc: soc.name,
    "SHORT_SOC_VERSION": lambda soc: soc.short_name,
    "AICORE_TYPE": lambda soc: soc.core_type,
    "CORE_NUM": lambda soc: soc.cores,
    "MAX_CORE_NUM": lambda soc: _whole(soc).vector_cores if soc.core_type == VECTOR_CORE else _whole(soc).cores,
    "CUBE_CORE_CNT": lambda soc: _whole(soc).cores if soc.split else 0,
    "VECTOR_CORE_CNT": lambda soc: soc.vector_cores,
    "CORE_TYPE_LIST": lambda soc: "CubeCore,VectorCore" if soc.split else "AiCore",
    "CUBE_VECTOR_SPLIT": lambda soc: soc.split,
    "UB_SIZE": lambda soc: soc.ub_bytes,
    "L2_SIZE": lambda soc: soc.l2_bytes,
    "L1_SIZE": lambda soc: soc.l1_bytes,
    "CUBE_SIZE": lambda soc: [16, 16, 16],
    "L0A_SIZE": lambda soc: soc.l0a_bytes,
    "L0B_SIZE": lambda soc: soc.l0b_bytes,
    "L0C_SIZE": lambda soc: soc.l0c_bytes,
    "SMASK_SIZE": lambda soc: 256 if soc.arch == "dav-m200" and soc.core_type == AI_CORE else 0,
    "UNZIP": lambda soc: 0,
    **{f"{kind}REG_SIZE": lambda soc: 0 for kind in "VAPUW"},
    **{f"FB{index}_SIZE": lambda soc, size=size: size if soc.split else 0  # type: ignore[misc]
       for index, size in enumerate((2048, 1024, 2048, 2048))},
    "FB_SIZE": lambda soc: 2048 if soc.split else 0,
    "BT_SIZE": lambda soc: 1024 if soc.split else 0,
    "Compiler_arch": lambda soc: soc.arch,
    "ubblock_size": lambda soc: 32,
}  # fmt: skip
"""What get_soc_spec answers (tik_api.md 3.1); sizes of memories that no emulated chip has are 0."""


def get_soc_spec(key: str) -> object:
    """A property of the current chip; sizes in bytes. Raises RuntimeError on an unknown key, as the toolkit does."""
    if key not in SPEC:
        raise RuntimeError(f"get_soc_spec has no key {key!r}; known: {', '.join(SPEC)}")
    return SPEC[key](Current.soc)
