"""What the timing model says of kernels that we did not write: which blocks are faster on a 910A."""

from __future__ import annotations

from autotune.kernels.davinci.timing import Estimate, estimate
from tests.real.public_kernels import fixed_blocks, flash_attention, set_current_compile_soc_info


def _forward(Br: int, Bc: int) -> Estimate:
    """N = 4096, D = 64, 32 heads in all; no arrays are needed."""
    set_current_compile_soc_info("Ascend910")
    operand = {"shape": (1, 32, 4, 256, 16, 16), "ori_shape": (1, 32, 4096, 64), "dtype": "float16"}
    masks_and_outputs = (None,) * 5
    tik = flash_attention(operand, operand, operand, *masks_and_outputs, tiling_stgy_name=fixed_blocks(Br, Bc))
    return estimate(tik.program)


def test_larger_blocks_of_the_public_forward_are_faster() -> None:
    """The public strategies choose the largest blocks that fit (davinci_timing.md 4)."""
    times = {blocks: _forward(*blocks).time_us for blocks in ((128, 256), (128, 128), (64, 64))}
    assert times[128, 256] < times[128, 128] < times[64, 64]


def test_scalars_and_the_vector_unit_hold_up_the_public_forward() -> None:
    """davinci_timing.md 5.3: its cube unit is busy 4 to 8 percent of the time, S and V most of it."""
    found = _forward(128, 128)
    assert 0.03 < found.busy["M"] / found.cycles < 0.10
    assert found.busy["V"] + found.busy["S"] > 0.4 * found.cycles
