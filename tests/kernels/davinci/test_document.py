"""The committed page of the instruction set is what the table says, and the frequent calls are all there."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.kernels.davinci import document
from autotune.kernels.davinci.coverage import ENTRIES, Entry
from autotune.kernels.davinci.table import ROWS
from tests.kernels.davinci.running import Kernel

PAGE = Path(__file__).parents[3] / "docs" / "emulator.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == document.text(), "run python -m autotune.kernels.davinci.document > docs/emulator.md"


def test_every_row_has_a_source_and_is_on_the_page() -> None:
    page = PAGE.read_text()
    for row in ROWS:
        assert f"| {row.name} | " in page
        assert row.source, row.name


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry.priority in ("P0", "P1", "P2")], ids=lambda entry: str(entry.number)
)
def test_frequent_calls_are_emulated(entry: Entry) -> None:
    assert [call for call in entry.calls if not document.emulated(call)] == []


def test_a_call_that_is_not_emulated_says_its_name() -> None:
    missing = [call for entry in ENTRIES for call in entry.calls if not document.emulated(call)]
    assert missing
    for call in missing:
        with pytest.raises(NotImplementedError, match=f"tik.{call} is not emulated"):
            getattr(Kernel().tik, call)


def test_the_list_has_41_entries_in_order() -> None:
    assert [entry.number for entry in ENTRIES] == list(range(1, 42))


def test_printf_writes_when_the_kernel_runs(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = Kernel()
    kernel.result("int32", (8,))
    count = kernel.tik.Scalar("int32", init_value=3)
    kernel.tik.printf("%d and %.2f\n", count, kernel.tik.Scalar("float32", init_value=0.5))
    count.set_as(4)
    assert capsys.readouterr().out == ""
    kernel.run()
    assert capsys.readouterr().out == "3 and 0.50\n"
