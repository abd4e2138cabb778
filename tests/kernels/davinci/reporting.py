"""What a test expects of an error: its kind, what its message names, and the marked line of the test's own file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autotune.kernels.davinci.errors import TikError


def line_of(file: str, mark: str) -> int:
    """The number of the one line that ends with the comment ``# mark``."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"# {mark}")]
    return number


@contextmanager
def reported(kind: type[TikError], mark: str, *words: str) -> Iterator[None]:
    """The block raises this error, which names these words and the line marked in the calling file."""
    file = sys._getframe(2).f_code.co_filename
    with pytest.raises(kind) as caught:
        yield
    message = str(caught.value)
    assert type(caught.value) is kind
    for word in words:
        assert word in message
    assert message.endswith(f"({file}:{line_of(file, mark)})")
