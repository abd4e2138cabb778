"""The Chrome trace of one core: every event where the timing model has it, cut where it is too long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.memory import GM, L0C, L1, UB
from autotune.kernels.davinci.timeline import ROWS, timeline
from autotune.kernels.davinci.timing import estimate
from tests.kernels.davinci.random_programs import built, random_program, vector

ISSUE, START, SYNC, READ = 2, 25, 15, 30
"""Cycles of the model, written out here again so that a change shows."""


@pytest.fixture(autouse=True)
def _chip() -> Iterator[None]:
    before = soc.Current.soc
    soc.use("Ascend910ProA")  # 1100 MHz: cycles and microseconds differ
    yield
    soc.Current.soc = before


def test_events_carry_times_line_and_operands(tmp_path: Path) -> None:
    tik = Tik()
    gm = tik.Tensor("float16", (65536,), GM, "gm")
    a: Any = tik.Tensor("float16", (32768,), UB, "a")
    with tik.for_range(0, 2) as i:
        tik.data_move(a[i * 16384], gm, 0, 1, 1024, 0, 0)
    tik.vec_adds(128, a, a, 1.0, 8, 8, 8)
    timeline(built(tik, gm)).write(tmp_path / "out.json")
    trace = json.loads((tmp_path / "out.json").read_text())
    names = {item["tid"]: item["args"]["name"] for item in trace["traceEvents"] if item["name"] == "thread_name"}
    events = [item for item in trace["traceEvents"] if item["ph"] == "X"]
    assert [(names[e["tid"]], e["name"]) for e in events] == [("MTE2", "data_move")] * 2 + [("V", "vadds")]
    first, second, third = events
    move = 32768 // 32
    assert first["ts"] == pytest.approx((1 + ISSUE) / 1100)
    assert first["dur"] == pytest.approx(move / 1100)
    assert second["ts"] == pytest.approx((1 + ISSUE + move) / 1100)
    assert third["ts"] == pytest.approx((1 + ISSUE + 2 * move + SYNC) / 1100)
    assert third["dur"] == pytest.approx((START + 8) / 1100)
    assert second["args"]["outputs"] == ["a[16384] 1 x 16384 float16"]
    assert second["args"]["line"].startswith(f"{__file__}:")
    assert trace["otherData"]["cut"] is False
    assert list(names.values()) == ["MTE2", "V"]


def test_scalar_reads_and_full_queues_are_events_of_s() -> None:
    tik = Tik()
    a: Any = tik.Tensor("float16", (65536,), UB, "a")
    with tik.for_range(0, 40):
        tik.vec_dup(128, a, 1.0, 255, 8)
    scalar = tik.Scalar("float16")
    scalar.set_as(a[3])
    found = timeline(built(tik)).events
    full = [event for event in found if event.name == "queue of V is full"]
    read = found[-1]
    assert len(full) == 40 - 33
    assert (read.pipe, read.name, read.inputs) == ("S", "scalar read", ["a[3] 1 float16"])
    assert read.start + read.cycles == 1 + ISSUE + 40 * (START + 255) + SYNC + READ


def test_matmul_holds_two_rows() -> None:
    tik = Tik()
    left = tik.Tensor("float16", (4096,), L1, "left")
    product = tik.Tensor("float32", (4096,), L0C, "product")
    tik.matmul(product, left, left, 64, 64, 64)
    found = timeline(built(tik)).events
    assert {event.pipe for event in found} == {"M", "MTE1"}
    assert len({(event.start, event.cycles) for event in found}) == 1


@pytest.mark.parametrize("seed", range(20))
def test_events_of_a_pipe_do_not_overlap_and_end_with_the_core(seed: int) -> None:
    program = random_program(seed)
    found = timeline(program)
    assert max(event.start + event.cycles for event in found.events) <= estimate(program).core_cycles[found.core]
    for pipe in ROWS:
        events = [event for event in found.events if event.pipe == pipe]
        assert all(a.start + a.cycles <= b.start for a, b in pairwise(events))


def test_a_long_timeline_is_cut_and_says_so(tmp_path: Path) -> None:
    tik = Tik()
    a = vector(tik)
    with tik.for_range(0, 10**9):
        tik.vec_dup(128, a, 1.0, 8, 8)
    found = timeline(built(tik), most_events=50)
    assert found.cut
    assert len(found.events) == 50
    found.write(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["otherData"]["cut"] is True


def test_one_core_is_chosen() -> None:
    tik = Tik()
    with tik.for_range(0, 4, block_num=4) as core:
        a = vector(tik)
        with tik.for_range(0, 4 - core):
            tik.vec_dup(128, a, 1.0, 8, 8)
    program = built(tik)
    assert (timeline(program).core, len(timeline(program).events)) == (0, 4)
    assert len(timeline(program, core=3).events) == 1
    with pytest.raises(IndexError, match="cores 0 to 3"):
        timeline(program, core=4)
