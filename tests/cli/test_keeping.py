"""``history``, ``pin``, ``unpin``, ``export`` and ``import`` at the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
QUESTION = ("--shape", "1,2,64,64,16")
BECAUSE = ("--reason", "wrong on our board", "--actor", "me")


@pytest.fixture
def swept(run: Run, folder: Path) -> int:
    """A database with one plan; its revision."""
    run("sweep", *QUESTION, "--trials", "1")
    revision: int = json.loads(run("history", *QUESTION, "--json").out)["history"][-1]["revision"]
    return revision


def test_a_pin_and_its_history(run: Run, swept: int) -> None:
    assert run("pin", str(swept), *BECAUSE).code == 0
    assert json.loads(run("best", *QUESTION, "--json").out)["match"] == "pinned"
    assert run("unpin", str(swept), *BECAUSE).code == 0
    assert run("unpin", str(swept), *BECAUSE).code == 3
    assert json.loads(run("best", *QUESTION, "--json").out)["match"] == "exact"
    decisions = json.loads(run("history", *QUESTION, "--json").out)["decisions"]
    assert [(each["action"], each["actor"]) for each in decisions] == [("pin", "me"), ("unpin", "me")]
    assert "wrong on our board" in run("history", *QUESTION).out


def test_a_rollback(run: Run, swept: int) -> None:
    first = str(json.loads(run("history", *QUESTION, "--json").out)["history"][0]["revision"])
    assert run("pin", first, *BECAUSE).code == 0
    refused = run("rollback", first, *BECAUSE)
    assert refused.code == 2
    assert "nothing was published before" in refused.err
    assert run("rollback", "999", *BECAUSE).code == 2
    assert run("unpin", first, *BECAUSE).code == 0
    if first != str(swept):  # a sweep publishes each better plan
        assert run("rollback", str(swept), *BECAUSE).code == 0
        assert run("rollback", str(swept), *BECAUSE).code == 1  # it is served no more


def test_refusals(run: Run, swept: int) -> None:
    unknown = run("pin", "999", *BECAUSE)
    assert unknown.code == 2
    assert "no revision 999" in unknown.err
    assert run("pin", str(swept)).code == 2
    assert run("pin", str(swept), "--reason", " ").code == 2
    assert run("pin", "0", *BECAUSE).code == 2
    assert run("pin", "9" * 30, *BECAUSE).code == 2
    assert run("history", "--shape", "1,1,16,16,16").code == 3
    assert run("export", "/nowhere/at/all.json").code == 2
    assert run("export", "--device", "nothing").code == 2
    assert run("import", "absent.json").code == 2


def test_export_and_import(run: Run, swept: int, folder: Path) -> None:
    assert run("export", "plans.json").code == 0
    assert run("export").out == (folder / "plans.json").read_text()
    tried = run("import", "plans.json", "--db", "sqlite:///other.db")
    assert tried.code == 0
    assert "1 plans would be taken in" in tried.out
    assert run("best", *QUESTION, "--allow", "exact", "--db", "sqlite:///other.db").code == 3
    done = run("import", "plans.json", "--apply", "--json", "--db", "sqlite:///other.db")
    assert json.loads(done.out) == {"accepted": 1, "kept": 0, "rejected": [], "dry_run": False}
    assert run("export", "--db", "sqlite:///other.db").out == run("export").out
    (folder / "plans.json").write_text(run("export").out.replace('"Br":', '"Br" :').replace("64", "32"))
    assert run("import", "plans.json", "--apply").code == 2
