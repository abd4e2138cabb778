"""Explain and calibrate: what they print and write, and what they refuse."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.kernels.davinci import profiles
from autotune.kernels.davinci.costs import Profile

Run = Callable[..., Any]

EXPLAIN = ("explain", "--shape", "1,2,64,64,16")


def test_the_default_plan_is_explained_where_nothing_is_stored(run: Run) -> None:
    ran = run(*EXPLAIN)
    assert ran.code == 0
    assert "64 x 64, even over 2 cores (the default's)" in ran.out
    for expected in ("bound: ", "Longest stalls of", "flash_attention/", "GM->L1"):
        assert expected in ran.out
    assert "there is no database" in ran.err


def test_json_is_one_object(run: Run) -> None:
    ran = run(*EXPLAIN, "--plan", "Br=32,Bc=16,double_buffer=true", "--json")
    assert (ran.code, ran.err) == (0, "")
    value = json.loads(ran.out)
    assert (value["plan"]["Br"], value["plan"]["Bc"], value["plan"]["double_buffer"]) == (32, 16, True)
    assert value["sensitivity"] is None


def test_the_best_stored_plan_is_explained(run: Run) -> None:
    assert run("sweep", "--shape", "1,2,64,64,16", "--trials", "4", "--db", "sqlite:///plans.db").code == 0
    best = json.loads(run("best", "--shape", "1,2,64,64,16", "--db", "sqlite:///plans.db", "--json").out)
    found = json.loads(run(*EXPLAIN, "--db", "sqlite:///plans.db", "--sensitivity", "--json").out)
    assert found["plan"] == best["plan"]
    assert found["time_us"] == best["time_us"]
    assert len(found["sensitivity"]["plans"]) == 4
    assert found["sensitivity"]["draws"] == 20


def test_a_trace_opens_as_json_and_names_its_core(run: Run, folder: Path) -> None:
    assert run(*EXPLAIN, "--trace", "out.json", "--core", "1").code == 0
    trace = json.loads((folder / "out.json").read_text())
    assert trace["otherData"]["core"] == 1
    assert {event["pid"] for event in trace["traceEvents"]} == {1}


def test_a_picture_needs_matplotlib(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = run(*EXPLAIN, "--plot", "out.png")
    assert (ran.code, ran.out) == (2, "")
    assert "tiling-autotune[plot]" in ran.err


@pytest.mark.parametrize(("name", "start"), [("out.png", b"\x89PNG"), ("out.svg", b"<?xml")])
def test_a_picture_is_drawn(run: Run, folder: Path, name: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    assert run(*EXPLAIN, "--plot", name).code == 0
    assert (folder / name).read_bytes().startswith(start)


def test_a_device_is_measured_and_its_profile_used(run: Run, folder: Path) -> None:
    profiles.write(Profile("odd", {"vector_start": 32, "scalar_read": 41}), folder / "odd.json")
    ran = run("calibrate", "--profile", "odd.json", "--output", "lab.json", "--json")
    assert ran.code == 0
    value = json.loads(ran.out)
    assert (value["name"], value["constants"]["vector_start"], value["constants"]["scalar_read"]) == ("lab", 32, 41)
    assert "vector_start" in value["measured"]
    explained = [json.loads(run(*EXPLAIN, "--profile", f, "--json").out)["cycles"] for f in ("odd.json", "lab.json")]
    assert explained[0] == pytest.approx(explained[1], rel=0.01)
    assert explained[0] > json.loads(run(*EXPLAIN, "--json").out)["cycles"]


def test_what_was_measured_is_shown_beside_what_is_usual(run: Run) -> None:
    ran = run("calibrate")
    assert ran.code == 0
    assert "written to profile.json" in ran.out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ran.out.splitlines() if "│" in line]
    assert ["vector_start", "cycles", "25", "25"] in cells
    assert ["vexp", "cycles/repeat, 16 and 32 bits", "4, 2", "4, 2"] in cells


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--plan", "Br=128"), "a plan needs Bc"),
        (("--plan", "128x256"), "write it as Br=128,Bc=256"),
        (("--plan", "Br=128,Br=64"), "write it as Br=128,Bc=256"),
        (("--plan", "Br=16,Bc=16,warp=9"), "unknown plan fields: warp"),
        (("--plan", "Br=16,Bc=16,core_split=odd"), "no core split 'odd'"),
        (("--plan", "Br=17,Bc=16"), "multiple of 16"),
        (("--plan", "Br=512,Bc=512"), "cannot be executed"),
        (("--plot", "out.gif"), "must end in .png or .svg"),
        (("--trace", "no/such/folder/out.json"), "cannot write"),
        (("--trace", "out.json", "--core", "2"), "cores 0 to 1"),
        (("--profile", "missing.json"), "cannot read missing.json"),
        (("--db", "sqlite:///missing.db"), "there is no database"),
        (("--device", "emulated:Ascend911"), "unknown"),
    ],
)
def test_wrong_input_is_one_sentence_and_code_2(run: Run, arguments: tuple[str, ...], sentence: str) -> None:
    ran = run(*EXPLAIN, *arguments)
    assert (ran.code, ran.out) == (2, "")
    [line] = [line for line in ran.err.splitlines() if "is explained" not in line]
    assert sentence in line


def test_a_profile_that_is_none_is_refused(run: Run, folder: Path) -> None:
    (folder / "lab.json").write_text("[]")
    ran = run(*EXPLAIN, "--profile", "lab.json")
    assert ran.code == 2
    assert ran.err.startswith("autotune: --profile lab.json cannot be used: it is no profile of format 1")


def test_it_says_where_a_plan_has_more_flags_than_events(run: Run) -> None:
    shape = ("explain", "--shape", "1,1,768,768,64", "--alibi")
    crowded = run(*shape, "--plan", "Br=128,Bc=768,double_buffer=true,exp=float16")
    assert "more flags are in flight than the 8 events that a pair of queues has (" in crowded.out
    assert "M->V: 27" in crowded.out
    assert "flags are in flight" not in run(*shape, "--plan", "Br=128,Bc=128").out
