"""The public flash-attention kernels, unmodified, on the emulated core: right where they are right by themselves."""

from dataclasses import replace

import numpy as np
import pytest

from tests.real import public_kernels, rounding_model
from tests.real.public_cases import BACKWARD, BOTH, FORWARD, Case, inputs, relative_error, truth

FORWARD_TOLERANCE, GRADIENT_TOLERANCE = 2e-3, 4e-3
"""Relative L2 against float64."""


def name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", BOTH + FORWARD, ids=name)
def test_forward(case: Case) -> None:
    given = inputs(case)
    expected = truth(case, given)
    o, lse = public_kernels.forward(case, given)
    assert o.dtype == np.float16 and lse.dtype == np.float32
    assert relative_error(o, expected.o) < FORWARD_TOLERANCE
    assert relative_error(lse, expected.lse) < FORWARD_TOLERANCE


@pytest.mark.parametrize("case", BOTH + BACKWARD, ids=name)
def test_gradients(case: Case) -> None:
    given = inputs(case)
    expected = truth(case, given)
    found = public_kernels.gradients(case, given, expected.o, expected.lse)
    for gradient, right in zip(found, (expected.dq, expected.dk, expected.dv), strict=True):
        assert gradient.dtype == np.float32
        assert relative_error(gradient, right) < GRADIENT_TOLERANCE


@pytest.mark.parametrize("case", BOTH + FORWARD, ids=name)
def test_forward_rounds_where_the_kernel_rounds(case: Case) -> None:
    given = inputs(case)
    o, lse = public_kernels.forward(case, given)
    model_o, model_lse = rounding_model.forward(case, given)
    assert np.mean(rounding_model.ulp_distance(o, model_o) > 1) < 0.001
    np.testing.assert_allclose(lse, model_lse, rtol=1e-6, atol=1e-6)


def test_the_rounding_model_is_finer_than_the_tolerance_it_is_held_to() -> None:
    """Else the two oracles could not tell a wrong rounding point from a right one."""
    case = Case((1, 2, 256, 256, 64))
    given = inputs(case)
    model_o, _ = rounding_model.forward(case, given)
    distance = rounding_model.ulp_distance(model_o, truth(case, given).o.astype(np.float16))
    assert np.mean(distance > 1) > 0.001


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_the_number_of_cores_changes_no_bit_of_the_forward(cores: int) -> None:
    case = Case((2, 2, 256, 256, 16), blocks=(64, 64))
    given = inputs(case)
    few = public_kernels.forward(replace(case, soc_cores=cores), given)
    many = public_kernels.forward(case, given)
    for one, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_inputs_are_left_as_they_were() -> None:
    case = Case((1, 1, 32, 32, 16), mask="shared")
    given, again = inputs(case), inputs(case)
    public_kernels.forward(case, given)
    for array, same in ((given.q, again.q), (given.k, again.k), (given.v, again.v), (given.attn_mask, again.attn_mask)):
        np.testing.assert_array_equal(array, same)
