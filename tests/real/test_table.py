"""docs/conformance.md is of this suite: it lists every case and every fault."""

from tests.real import table


def test_the_page_lists_every_case() -> None:
    assert table.missing() == []
