"""What BuildCCE refuses, and what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.kernels.davinci.errors import CapacityError, RangeError, ScopeError, TikError
from autotune.kernels.davinci.memory import GM, UB
from tests.kernels.davinci.reporting import reported
from tests.kernels.davinci.running import Kernel


@pytest.fixture
def tik() -> Any:
    return Kernel().tik


def gm(tik: Any, name: str, **options: Any) -> Any:
    return tik.Tensor("float16", (128,), name=name, scope=GM, **options)


def used(tik: Any, tensor: Any) -> Any:
    local = tik.Tensor("float16", (128,), name="local", scope=UB)
    tik.data_move(local, tensor, 0, 1, 8, 0, 0)
    return tensor


def test_bare_tensors_stand_for_lists(tik: Any) -> None:
    x, y = gm(tik, "x"), gm(tik, "y")
    program = tik.BuildCCE("kernel", x, y)
    assert [tensor.name for tensor in (*program.inputs, *program.outputs)] == ["x", "y"]


def test_a_tensor_twice(tik: Any) -> None:
    x = gm(tik, "x")
    with reported(TikError, "twice", "x", "twice"):
        tik.BuildCCE("kernel", [x], [x])  # twice


def test_two_of_the_same_name(tik: Any) -> None:
    with reported(TikError, "same name", "two", "x"):
        tik.BuildCCE("kernel", [gm(tik, "x"), gm(tik, "x")], [])  # same name


def test_a_local_tensor(tik: Any) -> None:
    local = tik.Tensor("float16", (128,), name="local", scope=UB)
    with reported(ScopeError, "local", "local", "local.UB", "outputs"):
        tik.BuildCCE("kernel", [], [local])  # local


def test_what_is_no_tensor(tik: Any) -> None:
    with reported(TikError, "no tensor", "'x'", "inputs"):
        tik.BuildCCE("kernel", ["x"], [])  # no tensor
    with reported(TikError, "scalar output", "outputs"):
        tik.BuildCCE("kernel", [], [tik.InputScalar("int32", "n")])  # scalar output


def test_an_input_scalar_before_a_tensor(tik: Any) -> None:
    with reported(TikError, "order", "InputScalar n"):
        tik.BuildCCE("kernel", [tik.InputScalar("int32", "n"), gm(tik, "x")], [])  # order


def test_a_used_tensor_that_is_not_listed(tik: Any) -> None:
    gm(tik, "unused")
    used(tik, tik.Tensor("float16", (128,), name="x", scope=GM))  # not listed
    with reported(TikError, "not listed", "x", "no input"):
        tik.BuildCCE("kernel", [], [])


def test_workspaces_are_not_listed_and_have_names_of_their_own(tik: Any) -> None:
    workspace = gm(tik, "scratch", is_workspace=True)
    with reported(TikError, "listed workspace", "scratch"):
        tik.BuildCCE("kernel", [], [workspace])  # listed workspace
    other = Kernel().tik
    other.Tensor("float16", (128,), name="x", scope=GM, is_workspace=True)  # clash
    with reported(TikError, "clash", "workspace x"):
        other.BuildCCE("kernel", [gm(other, "x")], [])


def test_initialised_and_atomic_tensors_lie_in_gm(tik: Any) -> None:
    with reported(ScopeError, "not gm", "table"):
        tik.Tensor("float16", (128,), name="table", scope=UB, init_value=1)  # not gm
    with reported(RangeError, "large table", "table", str(256 * 1024)):
        tik.Tensor("float16", (256 * 1024 + 1,), name="table", scope=GM, init_value=1)  # large table


def test_too_many_arguments(tik: Any) -> None:
    with reported(RangeError, "many", "65 inputs", "64"):
        tik.BuildCCE("kernel", [gm(tik, f"x{i}") for i in range(65)], [])  # many
    for i in range(129):
        gm(tik, f"scratch{i}", is_workspace=True)
    inputs, outputs = ([gm(tik, f"{letter}{i}") for i in range(32)] for letter in "yz")
    with reported(RangeError, "many in all", "193", "192"):
        tik.BuildCCE("kernel", inputs, outputs)  # many in all


def test_names_and_config(tik: Any) -> None:
    with reported(TikError, "kernel name", "'2nd'"):
        tik.BuildCCE("2nd", [], [])  # kernel name
    with reported(TikError, "config", "no_such_key", "tbe_debug_level"):
        tik.BuildCCE("kernel", [], [], config={"no_such_key": 1, "tbe_debug_level": 2})  # config
    tik.BuildCCE("kernel", [], [], config={"tbe_debug_level": 2, "double_buffer_non_reuse": True})


def test_whole_tensor_calls_want_room(tik: Any) -> None:
    full = tik.Tensor("float16", ((256 - 15) * 512,), name="full", scope=UB)
    tik.h_abs(full, full)
    with reported(CapacityError, "reserve", "16384", "15360"):
        tik.BuildCCE("kernel", [], [])  # reserve


def test_the_description_is_written_only_where_asked(tik: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = gm(tik, "x"), gm(tik, "y", is_atomic_add=True)
    gm(tik, "scratch", is_workspace=True)
    tik.Tensor("uint8", (3,), name="flags", scope=GM, is_workspace=True)
    count = tik.InputScalar("int32", "count")
    with tik.for_range(0, 5, block_num=5):
        used(tik, x)
    tik.BuildCCE("kernel", [x, count], [y])
    assert list(tmp_path.iterdir()) == []
    tik.BuildCCE("kernel", [x, count], [y], output_files_path=str(tmp_path / "out"))
    written = json.loads((tmp_path / "out" / "kernel_meta" / "kernel.json").read_text())
    assert written == {
        "magic": "RT_DEV_BINARY_MAGIC_ELF",
        "blockDim": 5,
        "kernelName": "kernel__kernel0",
        "binFileName": "kernel",
        "binFileSuffix": ".o",
        "parameters": [0, 1, 0, 0],
        "workspace": {"num": 2, "size": [256, 32]},
        "opParaSize": 8,
    }
