"""Strict mode on the public kernels: it names the line of a fault, and finds nothing where there is none."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from autotune.kernels import davinci
from autotune.kernels.davinci.errors import UninitialisedRead
from tests.real import public_kernels
from tests.real.public_cases import BACKWARD, BOTH, Case, inputs, truth

davinci.install()

from flash_attention.ops.flash_attention import flash_attention_fwd

FILE = Path(inspect.getfile(flash_attention_fwd))
SQUARE = [case for case in BOTH + BACKWARD if case.shape[2] == case.shape[3] <= 192]


def line_of(text: str) -> int:
    """The number of the one line of the public forward that holds a text."""
    (number,) = [i for i, line in enumerate(FILE.read_text(encoding="utf-8").splitlines(), 1) if text in line]
    return number


def fill_both(self: Any) -> None:
    """prepare_global_ones as it was meant: both tiles are filled."""
    with self.tik_instance.new_stmt_scope():
        for name, columns in (("ones_l1", self.Bc), ("last_ones_l1", self.last_Bc)):
            rows = -(-columns // 16) * 16
            with_ones = self.tik_instance.Tensor("float16", (rows, 16), name="ones", scope="local.UB")
            self.tik_instance.h_duplicate(with_ones, 1.0)
            self.cont_data_mv_1_bust(dst=getattr(self, name), src=with_ones, burst=rows)


@pytest.fixture
def both_ones_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    declare = flash_attention_fwd.FlashAttentionFwd.prepare_global_ones

    def prepare(self: Any) -> None:
        move = self.cont_data_mv_1_bust
        self.cont_data_mv_1_bust = lambda **operands: None
        declare(self)
        self.cont_data_mv_1_bust = move
        fill_both(self)

    monkeypatch.setattr(flash_attention_fwd.FlashAttentionFwd, "prepare_global_ones", prepare)


def test_the_tile_of_ones_that_is_never_filled() -> None:
    case = Case((1, 1, 32, 48, 16), blocks=(32, 32))
    with davinci.strict(), pytest.raises(UninitialisedRead) as caught:
        public_kernels.forward(case, inputs(case))
    declared, copied = line_of('name="last_ones_ub"'), line_of("src=last_ones_ub")
    assert str(caught.value) == (
        f"data_move reads last_ones_ub[0] in local.UB, which nothing wrote since its declaration in line {declared} "
        f"({FILE}:{copied})"
    )


@pytest.mark.usefixtures("both_ones_filled")
def test_the_reciprocals_of_rows_64_to_79_that_are_never_computed() -> None:
    case = Case((1, 1, 80, 80, 16))
    with davinci.strict(), pytest.raises(UninitialisedRead, match=r"set_as reads li_new_rec_ub\[64\]") as caught:
        public_kernels.forward(case, inputs(case))
    assert caught.value.where[0] == str(FILE)


@pytest.mark.usefixtures("both_ones_filled")
@pytest.mark.parametrize("case", SQUARE, ids=lambda case: case.name)
def test_nothing_else_is_reported(case: Case) -> None:
    given = inputs(case)
    right = truth(case, given)
    with davinci.strict():
        public_kernels.forward(case, given)
        public_kernels.gradients(case, given, right.o, right.lse)
