"""Programs drawn at random: loops in loops, branches, scalar reads, moves, rings of slices, products."""

from __future__ import annotations

import random
from typing import Any

from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0C, L1, UB
from autotune.kernels.davinci.program import Program


def vector(tik: Tik, name: str = "ub") -> Any:
    """1024 fp16 elements in UB."""
    return tik.Tensor("float16", (1024,), UB, name)


def built(tik: Tik, *tensors: Any) -> Program:
    """The recorded program."""
    tik.BuildCCE("kernel", [], list(tensors))
    return tik.program


def random_program(seed: int) -> Program:
    """One program for 1, 3 or 5 cores, whose numbers of turns come from a table that it stores itself; from a ladder of
    conditions on the core's number where the seed is odd."""
    return _Drawn(random.Random(seed), ladder=seed % 2 == 1).program()


class _Drawn:
    def __init__(self, draw: random.Random, ladder: bool) -> None:
        self.draw, self.tik, self.ladder = draw, Tik(), ladder
        self.gm = self.tik.Tensor("float16", (4096,), GM, "gm")
        self.operand: Any = self.tik.Tensor("float16", (4096,), L1, "operand")
        self.product: Any = self.tik.Tensor("float32", (4096,), L0C, "product")
        self.table: Any = self.tik.Tensor("int32", (64,), UB, "table")

    def program(self) -> Program:
        cores = self.draw.choice((1, 3, 5))
        if not self.ladder:
            for i in range(8):
                self.table[i] = self.draw.randint(1, 4)
        if cores > 1:
            with self.tik.for_range(0, cores, block_num=cores) as core:
                self.core(core)
        else:
            self.core(0)
        return built(self.tik, self.gm)

    def core(self, core: Any) -> None:
        tik = self.tik
        turns = tik.Scalar("int32")
        if self.ladder:
            self.climb(core, turns)
        else:
            turns.set_as(self.table[core])
        tensors = [vector(tik, f"t{i}") for i in range(4)]
        with tik.for_range(0, turns) as outer:
            tik.data_move(tensors[2], self.gm, 0, 1, 64, 0, 0)
            self.block(tensors, 1, outer)
            tik.data_move(self.gm, tensors[2], 0, 1, 64, 0, 0)

    def climb(self, core: Any, turns: Any) -> None:
        turns.set_as(self.draw.randint(1, 4))
        for number in range(4):
            with self.tik.if_scope(core == number):
                turns.set_as(self.draw.randint(1, 3))

    def block(self, tensors: list[Any], depth: int, index: Any) -> None:
        for _ in range(self.draw.randint(1, 5)):
            kind = self.draw.randrange(13)
            if kind == 0 and depth < 3:
                with self.tik.for_range(0, self.draw.randint(1, 40), thread_num=self.draw.choice((1, 1, 2))) as inner:
                    self.block([*tensors, vector(self.tik, "own")], depth + 1, inner)
            elif kind == 1:
                with self.tik.if_scope(index < self.draw.randint(0, 10)):
                    self.block(tensors, depth, index)
                with self.tik.else_scope():
                    self.tik.vec_dup(128, self.draw.choice(tensors), 1.0, self.draw.randint(1, 8), 8)
            else:
                self.statement(kind, tensors, index)

    def statement(self, kind: int, tensors: list[Any], index: Any) -> None:
        draw, tik = self.draw, self.tik
        a, b = draw.choice(tensors), draw.choice(tensors)
        repeats = draw.randint(1, 8)
        if kind == 2:
            scalar = tik.Scalar("float16")
            scalar.set_as(a[draw.randrange(64)])
            tik.vec_dup(128, b, scalar, repeats, 8)
        elif kind == 3:
            tik.data_move(tensors[0], a, 0, 1, draw.randint(1, 64), 0, 0)
        elif kind == 4:
            tik.data_move(tensors[1], tensors[0], 0, draw.randint(1, 4), 8, 0, 0)
        elif kind == 5:
            count = tik.Scalar("int32", init_value=index % 3)
            with tik.for_range(0, count + 1):
                tik.vec_muls(128, a, a, 0.5, repeats, 8, 8)
        elif kind == 6:
            with tik.for_range(0, draw.randint(2, 130)) as row:
                scalar = tik.Scalar("float16")
                scalar.set_as(a[row])
                tik.h_duplicate(b[16:32], scalar)
        elif kind == 7:
            tik.vec_muls(128, a[index % 2 * 512], b[draw.choice((0, 256, 512))], 0.5, draw.randint(1, 4), 8, 8)
        elif kind == 8:
            tik.vec_dup(128, a[draw.choice((0, 256, 512))], 1.0, draw.randint(1, 4), 8)
        elif kind == 9:
            for element in range(6):
                scalar = tik.Scalar("float16")
                scalar.set_as(tensors[0][element])
                tensors[3][element * 16].set_as(scalar)
        elif kind == 10:
            m, k, n = [16 * draw.randint(1, 4) for _ in range(3)]
            tik.matmul(self.product, self.operand, self.operand, m, k, n)
        elif kind == 11:
            tik.data_move(self.operand, a, 0, 1, draw.randint(1, 64), 0, 0)
        else:
            tik.vec_add(128, a, a, b, repeats, 8, 8, 8)
