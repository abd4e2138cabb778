"""Small TIK programs that each keep one pipe busy."""

from __future__ import annotations

from typing import Any

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB


def _tik(chip: str) -> Any:
    soc.use(chip)
    return Tik()


def _program(tik: Any, *tensors: Any) -> Any:
    tik.BuildCCE("micro", [], list(tensors))
    return tik.program


def product_chain(chip: str, turns: int) -> tuple[Any, int]:
    """Every core multiplies 256 x 64 by 64 x 256, each time from L1, with two buffers in L0. Program and operations."""
    tik = _tik(chip)
    cores = soc.get(chip).cores
    with tik.for_range(0, cores, block_num=cores):
        left, right = (tik.Tensor("float16", (4, 256, 16), L1, name) for name in ("left", "right"))
        total = tik.Tensor("float32", (16, 256, 16), L0C, "total")
        with tik.for_range(0, turns, thread_num=2):
            a = tik.Tensor("float16", (16, 4, 16, 16), L0A, "a")
            b = tik.Tensor("float16", (4, 16, 16, 16), L0B, "b")
            tik.load2dv1(a, left, 0, 64, 1, 0)
            tik.load2dv1(b, right, 0, 64, 1, 0)
            tik.mmad(total, a, b, 256, 64, 256, 1)
    return _program(tik), 2 * 256 * 64 * 256 * turns * cores


def vector_stream(chip: str, turns: int, name: str = "vec_add") -> tuple[Any, int]:
    """Every core adds fp16 vectors of 120 repeats into six tensors in turn. Program and operations (one a lane)."""
    tik = _tik(chip)
    cores, length = soc.get(chip).cores, 120 * 128
    with tik.for_range(0, cores, block_num=cores):
        a, b, *sums = (tik.Tensor("float16", (length,), UB, f"v{i}") for i in range(8))
        with tik.for_range(0, turns):
            for total in sums:
                getattr(tik, name)(128, total, a, b, 120, 8, 8, 8)
    return _program(tik), length * len(sums) * turns * cores


def tik_matmul(chip: str, m: int, k: int, n: int) -> Any:
    """One tik.matmul from L1 into L0C."""
    tik = _tik(chip)
    a = tik.Tensor("float16", (k // 16, m, 16), L1, "a")
    b = tik.Tensor("float16", (k // 16, n, 16), L1, "b")
    tik.matmul(tik.Tensor("float32", (n // 16, m, 16), L0C, "c"), a, b, m, k, n)
    return _program(tik)


def one_move(chip: str, route: str, kibibytes: int) -> Any:
    """One contiguous move of so many bytes; L0C to GM without conversion."""
    tik = _tik(chip)
    origin, goal = ({"GM": GM, "UB": UB, "L1": L1, "L0C": L0C}[name] for name in route.split("->"))
    elements, dtype = (kibibytes * 256, "float32") if origin == L0C else (kibibytes * 512, "float16")
    source = tik.Tensor(dtype, (elements,), origin, "source")
    target = tik.Tensor(dtype, (elements,), goal, "target")
    if origin == L0C:
        tik.fixpipe(target, source, kibibytes, 32, 0, 0)
    else:
        tik.data_move(target, source, 0, 1, elements // 16, 0, 0)
    return _program(tik, source if origin == GM else target)
