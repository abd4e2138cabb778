"""Small TIK kernels that each spend their time on one thing, to measure a chip by.

A ``Body`` says what one turn of a loop does; a ``MicroKernel`` is that loop, some turns long. Nothing here depends on
the emulated core: a real toolkit's Tik container does as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, SIZES, UB

Turn = Callable[[Any], None]
"""What one turn of the loop records; it takes the turn's number, which counts on from core to core."""

BLOCK = 32
LEAST_BYTES = 1 << 16
"""Of the GM tensor of a kernel that always touches the same bytes of it."""


@dataclass(frozen=True)
class Body:
    """setup: takes the Tik container and the kernel's one GM tensor, makes local tensors, returns a turn.

    new_bytes: of that tensor, that each turn is the first to touch: they come from DDR. dtype: of its elements.
    """

    setup: Callable[[Any, Any], Turn]
    new_bytes: int = 0
    dtype: str = "float16"


@dataclass(frozen=True)
class MicroKernel:
    """So many turns of a body, on one core or on several at once."""

    body: Body
    turns: int
    cores: int = 1

    def build(self, tik: Any) -> None:
        """Records the kernel."""
        nbytes = max(self.cores * self.turns * self.body.new_bytes, LEAST_BYTES)
        memory = _tensor(tik, self.body.dtype, nbytes // SIZES[self.body.dtype], GM, "memory")
        with tik.for_range(0, self.cores, block_num=self.cores) as core:
            turn = self.body.setup(tik, memory)
            with tik.for_range(0, self.turns) as index:
                turn(core * self.turns + index)
        tik.BuildCCE(kernel_name="micro", inputs=[], outputs=[memory])


def registers(count: int) -> Body:
    """Whole numbers into a Scalar."""

    def setup(tik: Any, memory: Any) -> Turn:
        scalar = tik.Scalar("int32")
        return _times(count, lambda number: scalar.set_as(number + 1))

    return Body(setup)


def issue(count: int) -> Body:
    """One short vector instruction among so many scalar operations that S is the bottleneck."""

    def setup(tik: Any, memory: Any) -> Turn:
        scalar, target = tik.Scalar("int32"), _tensor(tik, "float16", 128, UB, "target")
        filler = _times(count, lambda number: scalar.set_as(number + 1))

        def turn(number: Any) -> None:
            tik.vec_dup(128, target, 1.0, 1, 8)
            filler(number)

        return turn

    return Body(setup)


def element_stores(count: int) -> Body:
    """Constants into one element of UB."""

    def setup(tik: Any, memory: Any) -> Turn:
        target = _tensor(tik, "float16", 128, UB, "target")
        return _times(count, lambda number: target[0].set_as(1.0))

    return Body(setup)


def element_read(scope: str) -> Body:
    """One element of UB or GM into a Scalar."""

    def setup(tik: Any, memory: Any) -> Turn:
        source = memory if scope == GM else _tensor(tik, "float16", 128, scope, "source")
        scalar = tik.Scalar("float16")
        return lambda number: scalar.set_as(source[0])

    return Body(setup)


VECTOR_CALLS: dict[str, tuple[int, tuple[float, ...]]] = {
    "vec_dup": (0, (1.0,)),
    **dict.fromkeys(("vec_exp", "vec_ln", "vec_sqrt", "vec_rec", "vec_rsqrt", "vec_abs", "vec_relu"), (1, ())),
    **dict.fromkeys(("vec_adds", "vec_muls"), (1, (1.0,))),
    **dict.fromkeys(("vec_add", "vec_sub", "vec_mul", "vec_max", "vec_min", "vec_div"), (2, ())),
}
"""Vector calls that are measured, with the number of their sources and their immediates."""


def dependent(call: str, dtype: str, repeats: int, mask: int | None = None) -> Body:
    """One vector instruction whose result is an operand of the next turn's."""
    lanes = 256 // SIZES[dtype]
    sources, numbers = VECTOR_CALLS[call]

    def setup(tik: Any, memory: Any) -> Turn:
        result, other = (_tensor(tik, dtype, repeats * lanes, UB, name) for name in ("result", "other"))
        operands, strides = (result, result, other)[: 1 + sources], (8,) * (1 + sources)
        return lambda number: getattr(tik, call)(mask or lanes, *operands, *numbers, repeats, *strides)

    return Body(setup)


def conversion(repeats: int) -> Body:
    """fp16 to fp32, over the same result again in every turn."""

    def setup(tik: Any, memory: Any) -> Turn:
        target = _tensor(tik, "float32", repeats * 64, UB, "target")
        source = _tensor(tik, "float16", repeats * 64, UB, "source")
        return lambda number: tik.vec_conv(64, "none", target, source, repeats, 8, 4)

    return Body(setup)


def independent(count: int) -> Body:
    """So many of the shortest vector instructions, on tensors of their own."""

    def setup(tik: Any, memory: Any) -> Turn:
        targets = [_tensor(tik, "float16", 128, UB, f"target{number}") for number in range(count)]

        def turn(number: Any) -> None:
            for target in targets:
                tik.vec_dup(128, target, 1.0, 1, 8)

        return turn

    return Body(setup)


def move(source: str, target: str, nbytes: int) -> Body:
    """One move of a single burst inside a core."""

    def setup(tik: Any, memory: Any) -> Turn:
        origin, goal = (_tensor(tik, "float16", nbytes // 2, s, n) for s, n in ((source, "origin"), (target, "goal")))
        return lambda number: tik.data_move(goal, origin, 0, 1, nbytes // BLOCK, 0, 0)

    return Body(setup)


def handover(repeats: int, nbytes: int) -> Body:
    """V fills what MTE3 then moves to L1: each waits for the other once a turn."""

    def setup(tik: Any, memory: Any) -> Turn:
        between = _tensor(tik, "float16", repeats * 128, UB, "between")
        goal = _tensor(tik, "float16", nbytes // 2, L1, "goal")

        def turn(number: Any) -> None:
            tik.vec_dup(128, between, 1.0, repeats, 8)
            tik.data_move(goal, between, 0, 1, nbytes // BLOCK, 0, 0)

        return turn

    return Body(setup)


def fractal_load(target: str, fractals: int) -> Body:
    """L1 to L0A or L0B."""

    def setup(tik: Any, memory: Any) -> Turn:
        origin, goal = (_tensor(tik, "float16", fractals * 256, s, n) for s, n in ((L1, "origin"), (target, "goal")))
        return lambda number: tik.load2dv1(goal, origin, 0, fractals, 1, 0, False)

    return Body(setup)


def drain(fractals: int) -> Body:
    """L0C to UB, fp32."""

    def setup(tik: Any, memory: Any) -> Turn:
        origin, goal = (_tensor(tik, "float32", fractals * 256, s, n) for s, n in ((L0C, "origin"), (UB, "goal")))
        return lambda number: tik.tensor_mov(goal, origin, "m", 1, fractals, 0, 0)

    return Body(setup)


def product(rows: int, depth: int, columns: int) -> Body:
    """One product of so many elements a side."""

    def setup(tik: Any, memory: Any) -> Turn:
        left = _tensor(tik, "float16", rows * depth, L0A, "left")
        right = _tensor(tik, "float16", depth * columns, L0B, "right")
        result = _tensor(tik, "float32", rows * columns, L0C, "result")
        return lambda number: tik.mmad(result, left, right, rows, depth, columns, 0)

    return Body(setup)


def stream(nbytes: int, blocks: bool = False) -> Body:
    """DDR to L1, other bytes in every turn; in one burst, or in single blocks with one left out between two."""
    bursts = nbytes // BLOCK if blocks else 1
    new_bytes = 2 * nbytes if blocks else nbytes

    def setup(tik: Any, memory: Any) -> Turn:
        goal = _tensor(tik, "float16", nbytes // 2, L1, "goal")
        burst, gap = (1, 1) if blocks else (nbytes // BLOCK, 0)
        return lambda number: tik.data_move(goal, memory[number * (new_bytes // 2)], 0, bursts, burst, gap, 0)

    return Body(setup, new_bytes)


def reread(target: str, nbytes: int) -> Body:
    """The same bytes of GM in every turn: from L2."""

    def setup(tik: Any, memory: Any) -> Turn:
        goal = _tensor(tik, "float16", nbytes // 2, target, "goal")
        return lambda number: tik.data_move(goal, memory, 0, 1, nbytes // BLOCK, 0, 0)

    return Body(setup)


def write(nbytes: int, atomic: bool = False) -> Body:
    """UB to GM, fp32; atomic: added to what is there."""

    def setup(tik: Any, memory: Any) -> Turn:
        origin = _tensor(tik, "float32", nbytes // 4, UB, "origin")
        if atomic:
            tik.set_atomic_add(1)
        return lambda number: tik.data_move(memory[number * (nbytes // 4)], origin, 0, 1, nbytes // BLOCK, 0, 0)

    return Body(setup, nbytes, "float32")


def queue(count: int, moves: int, nbytes: int) -> Body:
    """So many long vector instructions, and behind them moves that together take longer than all of them."""

    def setup(tik: Any, memory: Any) -> Turn:
        filled, goal = (
            _tensor(tik, "float16", 255 * 128, UB, "filled"),
            _tensor(tik, "float16", nbytes // 2, L1, "goal"),
        )

        def turn(number: Any) -> None:
            for _ in range(count):
                tik.vec_dup(128, filled, 1.0, 255, 8)
            for each in range(moves):
                place = (number * moves + each) * (nbytes // 2)
                tik.data_move(goal, memory[place], 0, 1, nbytes // BLOCK, 0, 0)

        return turn

    return Body(setup, moves * nbytes)


def _times(count: int, turn: Turn) -> Turn:
    def turns(number: Any) -> None:
        for _ in range(count):
            turn(number)

    return turns


def _tensor(tik: Any, dtype: str, elements: int, scope: str, name: str) -> Any:
    return tik.Tensor(dtype, (elements,), scope=scope, name=name)
