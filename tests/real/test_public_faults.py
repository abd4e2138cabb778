"""Where the public kernels are wrong by themselves, the emulated core shows their wrong result and hides nothing."""

import numpy as np
import pytest

from tests.real import public_kernels
from tests.real.public_cases import Case, inputs
from tests.real.public_faults import FAULTS, Fault
from tests.real.public_kernels import Options

VISIBLE = 0.03
"""Relative L2 from the definition, at least: ten times what rounding alone explains."""
EXPLAINED = 4e-3
"""Relative L2 from what the fault predicts, at most."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.show.__name__)
def test_the_fault_shows(fault: Fault) -> None:
    shown = fault.show()
    assert shown.from_definition > VISIBLE
    assert shown.from_fault < EXPLAINED


def test_wukong_with_77_keys_has_illegal_strides() -> None:
    case = Case((1, 1, 64, 77, 64))
    with pytest.raises(RuntimeError, match=r"stride.*-3"):
        public_kernels.forward(case, inputs(case), Options(strategy="wukong"))


def test_dropout_gradients_with_an_unaligned_tail_cannot_reshape_the_mask() -> None:
    case = Case((1, 1, 136, 136, 16), dropout=True)
    given = inputs(case)
    with pytest.raises(RuntimeError, match="2048 elements"):
        public_kernels.gradients(case, given, o=given.q, lse=np.zeros((1, 1, 136)))
