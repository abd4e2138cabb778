"""The built kernel behind ctypes: numpy arrays and a core split in, output and times out."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autotune.errors import CompileFailed, RunFailed
from autotune.kernels.flash_attention.plans import work_runs
from autotune.kernels.native.seen import seen
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

Singles = NDArray[np.float32]

ALIGNMENT = 64
"""Bytes: a whole vector of the widest kind."""
POINTERS = ("q", "k", "v", "attn_mask", "dropout_mask", "alibi", "first", "end", "o", "lse")
"""Inputs by the names that ``Compiled.run`` has for them; those that a problem lacks stay NULL."""
NUMBERS = ("heads", "heads_per_mask", "Nq", "N", "head_dim", "Br", "Bc", "narrow")


class _Attention(ctypes.Structure):
    """``struct attention`` of forward.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((name, ctypes.c_int64) for name in NUMBERS),
        ("scale", ctypes.c_double),
    )


class Duration(NamedTuple):
    """One launch. cpu_us: CPU time of the busiest thread; wall_us: from the first thread's start to the last's end."""

    cpu_us: float
    wall_us: float


class Library:
    """The functions of a built kernel. Raises CompileFailed where the file is no such library."""

    def __init__(self, path: Path) -> None:
        try:
            functions = ctypes.CDLL(str(path))
            self.scratch, self.forward = functions.flash_attention_scratch, functions.flash_attention_forward
            self.flush = functions.flash_attention_flush
        except (OSError, AttributeError) as error:
            raise CompileFailed(f"the built kernel {path} does not load ({error}); delete it") from error
        self.scratch.restype = ctypes.c_int64
        self.scratch.argtypes = (ctypes.c_void_p,)
        self.flush.argtypes = (ctypes.c_void_p, ctypes.c_int64)
        self.forward.argtypes = (*(ctypes.c_void_p,) * 3, ctypes.c_int64, *(ctypes.c_void_p,) * 3)


class Launch:
    """One problem with its inputs, plan and room for its results: runs as often as is asked, one at a time.

    inputs: those of ``Compiled.run``, of any float type; once, here, they are made fp32, or q, k and v of a bfloat16
    problem bfloat16. o (B, H, Nq, D) and lse (B, H, Nq) are fp32. The plan's core split has its work, which
    ``check_work`` found right.
    """

    def __init__(
        self, library: Library, problem: AttentionProblem, plan: TilingPlan, inputs: Mapping[str, NDArray[Any]]
    ) -> None:
        self._library = library
        self.o: Singles = np.empty((problem.batch, problem.heads, problem.Nq, problem.head_dim), np.float32)
        self.lse: Singles = np.empty(self.o.shape[:3], np.float32)
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.ascontiguousarray(array, np.float32) for name, array in inputs.items() if name in POINTERS
        }
        if problem.dtype == "bfloat16":
            self._arrays |= {name: narrowed(self._arrays[name]) for name in "qkv"}
        self._arrays["first"], self._arrays["end"] = seen(problem)
        self._problem = _description(problem, plan, {**self._arrays, "o": self.o, "lse": self.lse})
        work = work_runs(plan, plan.tiling(problem).Tr)
        self._runs = np.array([run for runs in work for run in runs], np.int64)
        self._run_ends = np.cumsum([len(runs) for runs in work], dtype=np.int64)
        self._scratch = _aligned(library.scratch(ctypes.byref(self._problem)) * len(work))
        self._cpu_us, self._wall_us = np.zeros(len(work)), np.zeros(1)

    def __call__(self) -> Duration:
        """Computes ``o`` and ``lse`` anew. Raises RunFailed where no thread or no memory could be had."""
        arrays = (self._scratch, self._cpu_us, self._wall_us)
        failed = self._library.forward(
            ctypes.byref(self._problem),
            self._runs.ctypes.data,
            self._run_ends.ctypes.data,
            len(self._cpu_us),
            *(array.ctypes.data for array in arrays),
        )
        if failed:
            raise RunFailed(f"the kernel could not start {len(self._cpu_us)} threads")
        return Duration(float(self._cpu_us.max()), float(self._wall_us[0]))

    def cool(self) -> None:
        """Takes inputs and results out of all caches. Raises RunFailed where the CPU has no instruction for it."""
        for array in (*self._arrays.values(), self.o, self.lse):
            if self._library.flush(array.ctypes.data, array.nbytes):
                raise RunFailed("this CPU has no instruction that empties its caches: there are no cold times")


def narrowed(array: Singles) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16 numbers, the even one of two; NaN stays NaN."""
    bits = array.view(np.uint32)
    odd = (bits >> 16) & 1
    nearest = ((bits + 0x7FFF + odd) >> 16).astype(np.uint16)
    return np.where(np.isnan(array), np.uint16(0x7FC0), nearest)


def _description(problem: AttentionProblem, plan: TilingPlan, arrays: Mapping[str, NDArray[Any]]) -> _Attention:
    numbers = {
        "heads": problem.heads_total,
        "heads_per_mask": problem.heads if problem.attn_mask == "full" else problem.heads_total,
        "Nq": problem.Nq,
        "N": problem.N,
        "head_dim": problem.head_dim,
        "Br": plan.Br,
        "Bc": plan.Bc,
        "narrow": problem.dtype == "bfloat16",
    }
    pointers = {name: array.ctypes.data for name, array in arrays.items()}
    return _Attention(**pointers, **numbers, scale=problem.head_dim**-0.5)


def _aligned(floats: int) -> Singles:
    """Zeros, so that their pages are there before the first launch is timed."""
    spare = ALIGNMENT // np.dtype(np.float32).itemsize
    memory = np.zeros(floats + spare, np.float32)
    memory.fill(0.0)
    first = (-memory.ctypes.data % ALIGNMENT) // memory.itemsize
    return memory[first : first + floats]
