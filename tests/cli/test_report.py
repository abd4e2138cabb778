"""``autotune report``: the night in words, tables and plots."""

import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from autotune.db.store import Store
from autotune.outcome import Failed
from autotune.problem import AttentionProblem

Run = Callable[..., Any]

SHAPES = ("1,2,64,64,16", "1,2,96,160,16")
WANTED = AttentionProblem.of((4, 16, 777, 777, 64), attn_mask="causal")
NASTY = '<script>alert("x")</script> | a cell'


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with a sweep of two problems, a miss, and a trial whose reason is no good HTML nor Markdown."""
    from autotune.cli import main

    url = f"sqlite:///{tmp_path_factory.mktemp('night')}/plans.db"
    shapes = [word for shape in SHAPES for word in ("--shape", shape)]
    assert main(["sweep", *shapes, "--trials", "9", "--workers", "0", "--db", url]) == 0
    store = Store.open(url)
    store.want(WANTED, "Ascend910A", "2026-12-02T02:00:00Z")
    [trial, *_] = store.trials(AttentionProblem.of((1, 2, 64, 64, 16)), "Ascend910A", "emulated:Ascend910A")
    failed = Failed("crash", NASTY)
    store.record(type(trial)(WANTED, "Ascend910A", trial.target, "f1", trial.plan, failed, trial.sweep, trial.at))
    store.close()
    yield url


def test_the_terminal_gets_the_night_in_sentences_and_tables(run: Run, swept: str) -> None:
    ran = run("report", "--db", swept)
    assert ran.code == 0
    assert re.match(r"3 problems on Ascend910A: 19 trials \(\d+ timed, (\d+ rejected, )?1 failed\) in ", ran.out)
    assert "Since last time: 2 new, 1 without a plan that works." in ran.out
    for words in ("What was tuned", "emulated times, davinci-", *SHAPES, "What failed, and why", "│ crash", NASTY[:8]):
        assert words in ran.out
    assert "4,16,777,777,64 attn_mask=causal │ Ascend910A │ 1" in ran.out


def test_json(run: Run, swept: str) -> None:
    found = json.loads(run("report", "--db", swept, "--json").out)
    by_shape = {",".join(map(str, each["problem"]["shape"])): each for each in found["tuned"]}
    assert [sum(by_shape[shape]["trials"].values()) for shape in SHAPES] == [9, 9]
    assert all(by_shape[shape]["gain"] >= 1 and by_shape[shape]["finished"] for shape in SHAPES)
    assert [each["problem"] for each in found["wanted"]] == [WANTED.to_json()]


def test_markdown_has_whole_tables(run: Run, swept: str, folder: Path) -> None:
    assert run("report", "--db", swept, "--markdown", "report.md").code == 0
    page = (folder / "report.md").read_text()
    assert page.startswith("# Tuning report of 20")
    tables: list[list[str]] = []
    for before, line in zip(["", *page.splitlines()], page.splitlines()):
        if line.startswith("|"):
            tables = tables if before.startswith("|") else [*tables, []]
            tables[-1].append(line)
    assert len(tables) == 3
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


class Page(HTMLParser):
    """Checks that tags nest, and remembers them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_page_is_one_file_with_plots_that_loads_nothing(run: Run, swept: str, folder: Path) -> None:
    assert run("report", "--db", swept, "--html", "report.html").code == 0
    page = Page((folder / "report.html").read_text())
    assert page.open == []
    tags = [tag for tag, _ in page.seen]
    assert tags.count("rect") == tags.count("polyline") == 2
    assert not {"script", "link", "img", "iframe"} & set(tags)
    assert not {"src", "href", "onload"} & {name for _, attributes in page.seen for name in attributes}
    inside = [attributes for tag, attributes in page.seen if tag == "polyline"]
    points = [tuple(map(float, point.split(","))) for each in inside for point in (each["points"] or "").split()]
    assert all(0 <= x <= 220 and 0 <= y <= 80 for x, y in points)


def test_nothing_tried_is_exit_code_3(run: Run, folder: Path) -> None:
    Store.open(f"sqlite:///{folder}/plans.db").close()
    ran = run("report", "--db", "sqlite:///plans.db")
    assert ran.code == 3
    assert ran.out.startswith("Nothing was tried since 20")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--since", "yesterday"), "--since is 'yesterday'; write a time as 8h, 90m or 30s"),
        (("--html", "none/report.html"), "--html: cannot write none/report.html: No such file or directory"),
        (("--db", "sqlite:///none.db"), "none.db"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, swept: str, options: tuple[str, str], sentence: str) -> None:
    ran = run("report", *([] if options[0] == "--db" else ["--db", swept]), *options)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err and ran.err.count("\n") == 1
