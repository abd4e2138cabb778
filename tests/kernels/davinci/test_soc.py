"""Chips as data: sizes from the public platform files, and kernels that one chip takes and another refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.errors import CapacityError, NotEmulated, ScopeError
from autotune.kernels.davinci.language import Dprofile, Tik
from autotune.kernels.davinci.memory import L0A, L0B, L0C, L1
from tests.kernels.davinci.running import Kernel, values

KIB = 1024
PUBLISHED = {
    # cores, MHz, UB, L1, L0C in KiB, L2 in MiB, saturates (tik_api.md 3.2, davinci_timing.md 1.1)
    "Ascend310": (2, 680, 248, 1024, 256, 8, True),
    "Ascend310P1": (10, 1060, 256, 1024, 256, 16, True),
    "Ascend310P3": (8, 1060, 256, 1024, 256, 16, True),
    "Ascend910A": (32, 1000, 256, 1024, 256, 32, True),
    "Ascend910ProA": (32, 1100, 256, 1024, 256, 32, True),
    "Ascend910ProB": (30, 1150, 256, 1024, 256, 32, True),
    "Ascend910PremiumA": (32, 1220, 256, 1024, 256, 32, True),
    "Ascend910B": (30, 900, 256, 1024, 256, 32, True),
    "Ascend910B1": (24, 1850, 192, 512, 128, 192, False),
    "Ascend910B2": (24, 1800, 192, 512, 128, 192, False),
    "Ascend910B3": (20, 1800, 192, 512, 128, 192, False),
    "Ascend910B4": (20, 1500, 192, 512, 128, 96, False),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_chip_is_what_its_platform_file_says(name: str) -> None:
    cores, clock, ub, l1, l0c, l2, saturates = PUBLISHED[name]
    soc = chips.get(name)
    assert (soc.cores, soc.clock_mhz, soc.saturates) == (cores, clock, saturates)
    assert (soc.ub_bytes, soc.l1_bytes, soc.l0c_bytes) == (ub * KIB, l1 * KIB, l0c * KIB)
    assert (soc.l0a_bytes, soc.l0b_bytes, soc.l2_bytes) == (64 * KIB, 64 * KIB, l2 * KIB * KIB)


def test_every_public_name_is_there() -> None:
    assert set(PUBLISHED) <= set(chips.SOCS)
    assert chips.get("Ascend910").name == "Ascend910A"


def test_a_910b_loads_l0_at_half_the_rate_its_file_repeats_from_the_910a() -> None:
    rates = chips.get("Ascend910B3").rates
    assert (rates.l1_to_l0a, rates.l1_to_l0b) == (256, 128)
    assert (chips.get("Ascend910A").rates.l1_to_l0a, chips.get("Ascend910A").rates.l1_to_l0b) == (512, 256)


SPEC: dict[str, dict[str, object]] = {
    "Ascend910A": {"SOC_VERSION": "Ascend910A", "SHORT_SOC_VERSION": "Ascend910", "AICORE_TYPE": "AiCore",
                   "CORE_NUM": 32, "MAX_CORE_NUM": 32, "UB_SIZE": 262144, "L1_SIZE": 1048576, "L0A_SIZE": 65536,
                   "L0B_SIZE": 65536, "L0C_SIZE": 262144, "L2_SIZE": 33554432, "CUBE_SIZE": [16, 16, 16],
                   "SMASK_SIZE": 0, "CUBE_VECTOR_SPLIT": False, "CUBE_CORE_CNT": 0, "VECTOR_CORE_CNT": 0,
                   "UNZIP": 0, "VREG_SIZE": 0, "BT_SIZE": 0, "ubblock_size": 32},
    "Ascend910B1": {"SHORT_SOC_VERSION": "Ascend910B", "CORE_NUM": 24, "UB_SIZE": 196608, "L1_SIZE": 524288,
                    "L0C_SIZE": 131072, "CUBE_VECTOR_SPLIT": True, "CUBE_CORE_CNT": 24, "VECTOR_CORE_CNT": 48,
                    "BT_SIZE": 1024, "FB0_SIZE": 2048, "FB1_SIZE": 1024},
    "Ascend310": {"UB_SIZE": 253952, "CORE_NUM": 2, "L2_SIZE": 8388608},
    "Ascend310P3": {"SMASK_SIZE": 256, "SHORT_SOC_VERSION": "Ascend310P"},
}  # fmt: skip


@pytest.mark.parametrize("name", SPEC)
def test_get_soc_spec(name: str) -> None:
    chips.use(name)
    assert {key: chips.get_soc_spec(key) for key in SPEC[name]} == SPEC[name]


def test_an_unknown_key_is_an_error_that_names_it() -> None:
    with pytest.raises(RuntimeError, match="NO_SUCH_SIZE"):
        chips.get_soc_spec("NO_SUCH_SIZE")


@pytest.mark.parametrize(("name", "cores"), [("Ascend910B1", 48), ("Ascend310P3", 7)])
def test_vector_cores_have_a_ub_and_no_cube(name: str, cores: int) -> None:
    chips.use(name, core_type="VectorCore")
    found = {key: chips.get_soc_spec(key) for key in ("AICORE_TYPE", "CORE_NUM", "L1_SIZE", "L0C_SIZE")}
    assert found == {"AICORE_TYPE": "VectorCore", "CORE_NUM": cores, "L1_SIZE": 0, "L0C_SIZE": 0}
    assert chips.get_soc_spec("UB_SIZE") == chips.get(name).ub_bytes
    kernel = Kernel(name, "VectorCore")
    with pytest.raises(CapacityError, match="0 of 0 are left"):
        kernel.local("float16", (256,), L1)


@pytest.mark.parametrize(
    ("name", "cores", "kind"),
    [
        ("Ascend910A", None, "VectorCore"),
        ("Ascend910A", 33, "AiCore"),
        ("Ascend910A", 0, "AiCore"),
        ("Ascend910A", None, "Cube"),
    ],
)
def test_cores_that_a_chip_does_not_have(name: str, cores: int | None, kind: str) -> None:
    with pytest.raises(ValueError, match=r"Ascend910A|core_type"):
        chips.use(name, cores, kind)


def large_buffer(kernel: Kernel) -> None:
    kernel.local("float16", (120 * KIB,))


def l1_to_ub(kernel: Kernel) -> None:
    kernel.tik.data_move(kernel.local("float16", (16,)), kernel.local("float16", (16,), L1), 0, 1, 1, 0, 0)


def ub_to_l1(kernel: Kernel) -> None:
    kernel.tik.data_move(kernel.local("float16", (16,), L1), kernel.local("float16", (16,)), 0, 1, 1, 0, 0)


def l0c_to_ub(kernel: Kernel) -> None:
    kernel.tik.tensor_mov(kernel.local("float16", (256,)), kernel.local("float32", (256,), L0C), "m", 1, 1, 0, 0)


def ub_to_l0c(kernel: Kernel) -> None:
    kernel.tik.broadcast_ub_to_l0c(kernel.local("float16", (256,), L0C), kernel.local("float16", (16,)), 1, 1, 0, 0)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (large_buffer, "UB: .* needs 245760 bytes, 196608 of 196608"),
        (l1_to_ub, "Ascend910B1 has no path from L1 to UB"),
        (ub_to_l1, "Ascend910B1 has no path from UB to L1"),
        (l0c_to_ub, "Ascend910B1 has no path from L0C to UB"),
        (ub_to_l0c, "Ascend910B1 has no path from UB to L0C"),
    ],
)
def test_a_910a_kernel_fails_on_a_910b_with_the_reason(record: Callable[[Kernel], None], reason: str) -> None:
    record(Kernel("Ascend910A"))
    with pytest.raises((CapacityError, ScopeError), match=reason):
        record(Kernel("Ascend910B1"))


def product(soc: str, left: float, right: float) -> Any:
    """left * right + left * right through the cube, by the way that every chip has."""
    kernel = Kernel(soc)
    a, b = np.zeros((1, 16, 16), np.float16), np.zeros((1, 16, 16), np.float16)
    a[0, 0, :2], b[0, 0, :2] = left, right
    result, out = kernel.local("float32", (1, 16, 16), L0C), kernel.result("float16", (1, 16, 16))
    kernel.tik.matmul(result, kernel.filled(a, L1), kernel.filled(b, L1), 16, 16, 16)
    kernel.tik.fixpipe(out, result, 1, 32, 0, 0, {"quantize_params": {"mode": "fp322fp16", "mode_param": None}})
    return kernel.run()[0][0, 0, 0]


@pytest.mark.parametrize(
    ("soc", "expected"), [("Ascend910A", 65504.0), ("Ascend310P3", 65504.0), ("Ascend910B1", np.inf)]
)
def test_overflow_saturates_on_the_older_chips_only(soc: str, expected: float) -> None:
    assert product(soc, 300, 300) == expected
    assert product(soc, -300, 300) == -expected
    assert product(soc, 2, 3) == 12


@pytest.mark.parametrize(("soc", "is_nan"), [("Ascend910A", False), ("Ascend910B1", True)])
def test_not_a_number_becomes_zero_on_the_older_chips(soc: str, is_nan: bool) -> None:
    found = product(soc, np.nan, 1)
    assert np.isnan(found) if is_nan else found == 0


def test_l0_of_a_vector_core_is_refused_with_its_size() -> None:
    kernel = Kernel("Ascend910B1", "VectorCore")
    for scope in (L0A, L0B, L0C):
        with pytest.raises(CapacityError):
            kernel.local("float16", (256,), scope)
    kernel.shown(kernel.filled(values("float16", 64)))
    kernel.run()


@pytest.mark.parametrize(
    ("profile", "name", "cores", "l1"),
    [
        (("v100", "mini"), "Ascend310", 2, 1024 * KIB),
        (("v100", "cloud"), "Ascend910A", 32, 1024 * KIB),
        (("v200", "aic"), "Ascend310P3", 8, 1024 * KIB),
        (("v200", "vec"), "Ascend310P3", 7, 0),
    ],
)
def test_the_old_profiles_name_a_chip(profile: tuple[str, str], name: str, cores: int, l1: int) -> None:
    old = Dprofile(*profile)
    assert (old.get_aicore_num(), old.get_l1_buffer_size()) == (cores, l1)
    assert old.get_unified_buffer_size() == chips.get(name).ub_bytes
    assert (old.get_l0a_buffer_size(), old.get_l0c_buffer_size()) == ((64 * KIB, 256 * KIB) if l1 else (0, 0))
    assert Tik(old).program.soc.name == name


def test_a_profile_without_a_name_is_the_current_chip() -> None:
    chips.use("Ascend910ProB", 12)
    assert Dprofile().get_aicore_num() == 12


def test_an_unknown_profile_says_which_there_are() -> None:
    with pytest.raises(NotEmulated, match="v100"):
        Dprofile("v200", "hisi-es")
