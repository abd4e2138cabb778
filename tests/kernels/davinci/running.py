"""Small kernels on the emulated core: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0C, L1, UB
from autotune.kernels.davinci.tensor import Tensor

Array = np.ndarray[Any, Any]


class Kernel:
    """One kernel for one chip. ``tik`` records it; ``run`` feeds it the given arrays and returns the results."""

    def __init__(self, soc: str = "Ascend910A", core_type: str = chips.AI_CORE) -> None:
        chips.use(soc, None, core_type)
        self.tik: Any = Tik(disable_debug=False)
        self.feed: dict[str, Array] = {}
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.count = 0

    def given(self, array: Array, name: str = "") -> Tensor:
        """An input in GM."""
        self.inputs.append(self.tik.Tensor(str(array.dtype), array.shape, name=name or self._name(), scope=GM))
        self.feed[self.inputs[-1].name] = array
        return self.inputs[-1]

    def result(self, dtype: str, shape: Any) -> Tensor:
        """An output in GM; zero where nothing is written."""
        self.outputs.append(self.tik.Tensor(dtype, shape, name=self._name(), scope=GM))
        return self.outputs[-1]

    def local(self, dtype: str, shape: Any, scope: str = UB) -> Tensor:
        """A tensor in a memory of the core."""
        return self.tik.Tensor(dtype, shape, name=self._name(), scope=scope)  # type: ignore[no-any-return]

    def filled(self, array: Array, scope: str = UB) -> Tensor:
        """A tensor of the core that holds an array."""
        source = self.given(array)
        if scope == GM:
            return source
        target = self.local(str(array.dtype), array.shape, scope)
        if scope != L0C:
            self.tik.data_move(target, source, 0, 1, array.nbytes // 32, 0, 0)
            return target
        between = self.local(str(array.dtype), array.shape)
        self.tik.data_move(between, source, 0, 1, array.nbytes // 32, 0, 0)
        self.tik.data_move(target, between, 0, 1, array.size // 256, 0, 0)
        return target

    def shown(self, tensor: Tensor) -> None:
        """Adds the whole of a tensor to the results."""
        nbytes = tensor.buffer.nbytes
        target = self.result(tensor.dtype, tensor.shape)
        if tensor.scope == L0C:
            between = self.local(tensor.dtype, tensor.shape)
            self.tik.data_move(between, tensor, 0, 1, tensor.buffer.size // 256, 0, 0)
            tensor = between
        assert tensor.scope in (UB, L1)
        self.tik.data_move(target, tensor, 0, 1, nbytes // 32, 0, 0)

    def run(self) -> list[Array]:
        """The results, in the order in which they were asked for."""
        self.tik.BuildCCE("kernel", self.inputs, self.outputs)
        return self.tik.tikdb.start_debug(self.feed, False)  # type: ignore[no-any-return]

    def _name(self) -> str:
        self.count += 1
        return f"t{self.count}"


def values(dtype: str, size: int, seed: int = 0) -> Array:
    """Repeatable values that differ from one another where the type allows."""
    if dtype.startswith("float"):
        return np.random.default_rng(seed).standard_normal(size).astype(dtype)
    limits = np.iinfo(dtype)
    numbers = np.random.default_rng(seed).integers(max(limits.min, -(1 << 31)), min(limits.max, 1 << 31), size)
    return numbers.astype(dtype)
