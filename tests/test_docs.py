"""The documents' links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(("page", "at_least"), [("sweeps.md", 30), ("kernels.md", 20)])
def test_the_tests_that_a_page_names_exist(page: str, at_least: int) -> None:
    names = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text("utf-8")))
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > at_least
    assert {name for name in names if f"def {name}(" not in sources} == set()


def test_every_page_is_linked_from_another() -> None:
    linked = {(page.parent / target).resolve() for page in PAGES for target in LINK.findall(page.read_text("utf-8"))}
    unlinked = [page for page in PAGES if page.parent.name == "docs" and page not in linked]
    assert unlinked == []
