"""autotune/settings.py: one table, read from AUTOTUNE_* variables, and its page."""

from pathlib import Path
from typing import Any

import pytest

from autotune.errors import InvalidInput
from autotune.settings import SETTINGS, Setting, cache_folder, page

DOCS = Path(__file__).parents[1] / "docs"
DEFAULTS = {
    "AUTOTUNE_DB": "sqlite:///autotune.db",
    "AUTOTUNE_URL": "http://127.0.0.1:8321",
    "AUTOTUNE_HOST": "127.0.0.1",
    "AUTOTUNE_PORT": 8321,
    "AUTOTUNE_DEVICE": "emulated:Ascend910A",
    "AUTOTUNE_TRIALS": 40,
    "AUTOTUNE_SEED": 0,
    "AUTOTUNE_WORKERS": "auto",
}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


def test_the_page_is_fresh() -> None:
    assert (DOCS / "settings.md").read_text() == page()


def test_the_page_names_every_variable() -> None:
    assert [variable for variable in DEFAULTS if f"| `{variable}` |" not in page()] == []


def test_defaults() -> None:
    assert {variable: setting.value() for variable, setting in BY_VARIABLE.items()} == DEFAULTS


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_an_empty_variable_counts_as_unset(setting: Setting[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting.variable, " ")
    assert setting.value() == DEFAULTS[setting.variable]


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("AUTOTUNE_DB", "sqlite:////plans.db", "sqlite:////plans.db"),
        ("AUTOTUNE_URL", "https://tuner:1/", "https://tuner:1"),
        ("AUTOTUNE_HOST", "::1", "::1"),
        ("AUTOTUNE_PORT", "65535", 65535),
        ("AUTOTUNE_DEVICE", "cpu", "cpu"),
        ("AUTOTUNE_TRIALS", " 1 ", 1),
        ("AUTOTUNE_SEED", "0", 0),
    ],
)
def test_a_variable_outranks_the_default(
    variable: str, text: str, value: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    assert BY_VARIABLE[variable].value() == value


@pytest.mark.parametrize(
    ("variable", "text", "wanted"),
    [
        ("AUTOTUNE_PORT", "0", "a whole number from 1 to 65535"),
        ("AUTOTUNE_PORT", "65536", "a whole number from 1 to 65535"),
        ("AUTOTUNE_PORT", "http", "a whole number from 1 to 65535"),
        ("AUTOTUNE_PORT", "8_321", "a whole number from 1 to 65535"),
        ("AUTOTUNE_TRIALS", "0", "a whole number from 1 to 1000000"),
        ("AUTOTUNE_SEED", "-1", "a whole number from 0 to 4294967295"),
        ("AUTOTUNE_URL", "127.0.0.1:8321", "an address that starts with http:// or https://"),
    ],
)
def test_refuses_a_variable_and_names_it(
    variable: str, text: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidInput) as caught:
        BY_VARIABLE[variable].value()
    assert str(caught.value) == f"{variable} is {text!r}; it must be {wanted}"
    assert caught.value.field == variable


@pytest.mark.parametrize(
    ("given", "expected"), [("/tmp/x", "/tmp/x"), ("", "/home/u/.cache"), ("relative", "/home/u/.cache")]
)
def test_built_kernels_are_kept_in_the_user_s_cache(given: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", "/home/u")
    assert cache_folder() == Path(expected) / "autotune"
