"""docs/cli.md names every command and every option that their help does."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMMANDS = (
    "sweep", "best", "serve", "history", "pin", "unpin", "export", "import", "keys add", "keys list", "keys revoke",
    "explain", "calibrate", "report", "devices",
    "strategies",
)  # fmt: skip
PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_the_command_and_its_options(run: Callable[..., Any], command: str) -> None:
    options = set(re.findall(r"^  (--[a-z-]+)", run(*command.split(), "--help").out, re.MULTILINE)) - {"--help"}
    assert f"`autotune {command}`" in PAGE
    assert {option for option in options if f"`{option}" not in PAGE} == set()


def test_the_page_names_no_option_that_is_not_there(run: Callable[..., Any]) -> None:
    helps = "".join(run(*command.split(), "--help").out for command in COMMANDS)
    assert {option for option in re.findall(r"--[a-z][a-z-]*", PAGE) if option not in helps} == set()
