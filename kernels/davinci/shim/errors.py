"""error_manager and errormgr: how operators report wrong parameters. Every report is a RuntimeError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

PARTS = ("error_manager_vector", "error_manager_cube", "error_manager_util")
"""Modules of the family that operators import by name; they share their functions."""

_SENTENCES = {
    "raise_err_input_value_invalid": "parameter {1} should be {2}, not {3}",
    "raise_err_input_shape_invalid": "the shape of {1} is wrong: {2}",
    "raise_err_input_format_invalid": "the format of {1} should be one of {2}, not {3}",
    "raise_err_input_dtype_not_supported": "the type of {1} should be one of {2}, not {3}",
    "raise_err_input_param_not_in_range": "parameter {1} should be {2} to {3}, not {4}",
    "raise_err_input_param_range_invalid": "the number of axes of {1} should be {2} to {3}, not {4}",
    "raise_err_inputs_shape_not_equal": "{1} and {2} have the shapes {3} and {4}; expected {5}",
    "raise_err_inputs_dtype_not_equal": "{1} and {2} have the types {3} and {4}",
    "raise_err_two_input_shape_invalid": "the shapes of {1} and {2} do not fit: {3}",
    "raise_err_two_input_dtype_invalid": "the types of {1} and {2} do not fit: {3}",
    "raise_err_two_input_format_invalid": "the formats of {1} and {2} do not fit: {3}",
    "raise_err_check_params_rules": "{1} (parameter {2} is {3})",
    "raise_err_specific_reson": "{1}",
    "raise_err_specific": "{1}",
    "raise_err_missing_parameter": "parameter {1} is missing",
    "raise_err_miss_mandatory_parameter": "parameter {1} is missing",
    "raise_err_message_cube": "{0}",
    "raise_err_common": "{1}: {2}",
}
"""Function to its sentence; the first argument names the operator."""


def _raiser(name: str, sentence: str) -> Callable[..., NoReturn]:
    def report(*arguments: Any, **named: Any) -> NoReturn:
        given = (*arguments, *named.values())
        padded = (*given, *("?",) * 6)
        raise RuntimeError(f"{given[0] if given else 'operator'}: {sentence.format(*padded)}")

    report.__name__, report.__doc__ = name, f"Raises RuntimeError: {sentence}."
    return report


def get_error_message(details: Mapping[str, Any]) -> str:
    """A report, given as an error code with what belongs to it, as text."""
    rest = ", ".join(f"{key} {value}" for key, value in details.items() if key != "errCode")
    return f"{details.get('errCode', 'error')}: {rest}"


def raise_runtime_error(details: Mapping[str, Any]) -> NoReturn:
    """Raises RuntimeError with the details and their text."""
    raise RuntimeError(dict(details), get_error_message(details))


ERRORS: dict[str, Any] = {
    **{name: _raiser(name, sentence) for name, sentence in _SENTENCES.items()},
    "get_error_message": get_error_message,
    "raise_runtime_error": raise_runtime_error,
}
