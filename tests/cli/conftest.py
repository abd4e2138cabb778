"""Runs the command line in this process or in one of its own, with a database in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from autotune.cli import main

ROOT = Path(__file__).parents[2]
PROGRAM = "import sys; from autotune.cli import main; sys.exit(main())"


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def no_workers(default_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials run in the sweep's own process unless a test says otherwise: a start takes longer than a trial here."""
    monkeypatch.setenv("AUTOTUNE_WORKERS", "0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The present folder of the command, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """``run("best", "--shape", ...)`` in this process."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """``start("serve", ...)`` in a process of its own, killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
