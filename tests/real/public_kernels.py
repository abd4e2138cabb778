"""Builds and runs the unmodified kernels of the PyPI package flash-attention 1.0.0 on the emulated core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.kernels import davinci
from tests.real.fractal import pack, unpack
from tests.real.public_cases import Case, Inputs

davinci.install()

from flash_attention.ops.flash_attention.flash_attention_bwd import flash_attention_grad
from flash_attention.ops.flash_attention.flash_attention_fwd import flash_attention as flash_attention
from flash_attention.ops.flash_attention.tiling_strategy import wukong_tiling as _registers_wukong  # noqa: F401
from flash_attention.ops.flash_attention.tiling_strategy.strategy import TilingStrategy as TilingStrategy
from tbe.common.platform import set_current_compile_soc_info as set_current_compile_soc_info

UNLIMITED = 65536
"""The public kernels' own default for a block window."""


@dataclass(frozen=True)
class Options:
    """What a kernel is built with besides its arrays. ``window`` is (prev_block_num, next_block_num).

    ``strategy`` is a name of the public registry and replaces the case's blocks. ``alibi`` is (B, H, 1, N).
    """

    strategy: str = ""
    window: tuple[int, int] | None = None
    alibi: np.ndarray | None = None


@dataclass(frozen=True)
class Operand:
    """One array as a kernel takes it, with the name of its GM tensor and the shape that it stands for."""

    name: str
    array: np.ndarray
    ori_shape: tuple[int, ...]

    @property
    def description(self) -> dict[str, Any]:
        """The dict parameter of the public entry points."""
        return {"shape": self.array.shape, "ori_shape": self.ori_shape, "dtype": str(self.array.dtype)}


@dataclass(frozen=True)
class Built:
    """A kernel on the emulated core, with the arrays to feed it."""

    instance: Any
    feed: dict[str, np.ndarray]

    def run(self) -> list[np.ndarray]:
        """The kernel's outputs, in its own layouts."""
        return self.instance.tikdb.start_debug(feed_dict=self.feed, interactive=False)  # type: ignore[no-any-return]


def forward(case: Case, given: Inputs, options: Options = Options()) -> tuple[np.ndarray, np.ndarray]:
    """O (B, H, Nq, D) fp16 and log-sum-exp (B, H, Nq) fp32."""
    o, lse = build_forward(case, given, options).run()
    return unpack(o, case.shape[2], case.shape[4]), lse.reshape(case.shape[:3])


def gradients(
    case: Case, given: Inputs, o: np.ndarray, lse: np.ndarray, options: Options = Options()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dQ (B, H, Nq, D) and dK, dV (B, H, N, D) fp32, from the forward's ``o`` and ``lse``; they start at zero."""
    dq, dk, dv = build_gradients(case, given, o, lse, options).run()
    _, _, nq, n, d = case.shape
    return unpack(dq, nq, d), unpack(dk, n, d), unpack(dv, n, d)


def build_forward(case: Case, given: Inputs, options: Options = Options()) -> Built:
    """The forward kernel of a case."""
    operands = [*_attended(case, given), *_masks(given, options)]
    return _build(flash_attention, case, operands, {"output": None, "rowsum": None}, options)


def build_gradients(case: Case, given: Inputs, o: np.ndarray, lse: np.ndarray, options: Options = Options()) -> Built:
    """The backward kernel of a case."""
    computed = [
        _fractal("O_gm", o.astype(np.float16), case.padding),
        _fractal("dO_gm", given.do, case.padding),
        _flat("l_gm", lse.astype(np.float32)),
    ]
    operands = [*_attended(case, given), *computed, *_masks(given, options)]
    return _build(flash_attention_grad, case, operands, {"dq": None, "dk": None, "dv": None}, options)


def _build(
    kernel: Any, case: Case, operands: list[Operand | None], outputs: dict[str, None], options: Options
) -> Built:
    set_current_compile_soc_info("Ascend910", aicore_num=case.soc_cores)
    before, after = options.window or (UNLIMITED, 0 if case.mask == "tile" else UNLIMITED)
    instance = kernel(
        *[operand and operand.description for operand in operands],
        **outputs,
        prev_block_num=before,
        next_block_num=after,
        tiling_stgy_name=options.strategy or (fixed_blocks(*case.blocks) if case.blocks else "sparse"),
        disable_debug=False,
    )
    return Built(instance, {operand.name: operand.array for operand in operands if operand})


def _attended(case: Case, given: Inputs) -> list[Operand | None]:
    arrays = {"Q_gm": given.q, "K_gm": given.k, "V_gm": given.v}
    return [_fractal(name, array, case.padding) for name, array in arrays.items()]


def _masks(given: Inputs, options: Options) -> list[Operand | None]:
    return [
        _fractal("att_mask_gm", given.attn_mask),
        _flat("drop_mask_gm", given.dropout_mask),
        _flat("alibi_mask_gm", options.alibi),
    ]


def _fractal(name: str, array: np.ndarray | None, padding: float = 0.0) -> Operand | None:
    return None if array is None else Operand(name, pack(array, padding), array.shape)


def _flat(name: str, array: np.ndarray | None) -> Operand | None:
    return None if array is None else Operand(name, array, array.shape)


def fixed_blocks(Br: int, Bc: int) -> str:
    """Registers a strategy of these blocks with the public package, as its users would, and returns its name."""
    name = f"fixed_{Br}x{Bc}"

    def tiling(self: Any) -> Any:
        self.Br, self.Bc = Br, Bc
        self.Tr, self.Tc = -(-self.Nq // Br), -(-self.N // Bc)
        self.last_Br, self.last_Bc = self.Nq - (self.Tr - 1) * Br, self.N - (self.Tc - 1) * Bc
        return self.gen_tiling_para()

    type(name, (TilingStrategy,), {"strategy_name": classmethod(lambda cls: name), "tiling": tiling})
    return name
