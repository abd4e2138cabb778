"""tikdb, traces, summaries, the order of cores, and the script runner."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.kernels import davinci
from autotune.kernels.davinci.__main__ import main
from autotune.kernels.davinci.errors import OutOfBounds, TikError
from autotune.kernels.davinci.memory import GM, L1, UB
from tests.kernels.davinci.reporting import line_of, reported
from tests.kernels.davinci.running import Kernel

ONES = np.ones(16, np.float32)


@pytest.fixture
def k() -> Kernel:
    return Kernel()


def local(tik: Any, name: str, elements: int = 64, dtype: str = "float32") -> Any:
    return tik.Tensor(dtype, (elements,), name=name, scope=UB)


def test_a_kernel_that_writes_an_input_writes_the_callers_array(k: Kernel) -> None:
    x = np.arange(64, dtype=np.float32)
    given = k.given(x)
    a = k.filled(x)
    k.tik.vec_adds(64, a, a, 1.0, 1, 8, 8)
    k.tik.data_move(given, a, 0, 1, 8, 0, 0)
    assert k.run() == [[0]]
    np.testing.assert_array_equal(k.feed[given.name], np.arange(1, 65))


def test_it_does_so_up_to_the_statement_that_fails(k: Kernel) -> None:
    x = np.zeros(16, np.float32)
    given, a = k.given(x), k.filled(ONES)
    k.tik.data_move(given, a, 0, 1, 1, 0, 0)
    k.tik.data_move(a, given, 0, 1, 4096, 0, 0)
    with pytest.raises(OutOfBounds):
        k.run()
    np.testing.assert_array_equal(x, [1] * 8 + [0] * 8)


def test_an_array_that_is_fed_twice_is_one_memory(k: Kernel) -> None:
    x = np.zeros(16, np.float32)
    first, second, a = k.given(x), k.given(x), k.filled(ONES)
    k.tik.data_move(first, a, 0, 1, 1, 0, 0)
    k.tik.data_move(a, second, 0, 1, 2, 0, 0)
    k.shown(a)
    np.testing.assert_array_equal(k.run()[0], [1] * 8 + [0] * 8)
    np.testing.assert_array_equal(x, [1] * 8 + [0] * 8)


def test_read_only_and_strided_arrays_are_fed_too(k: Kernel) -> None:
    fixed = np.ones(16, np.float32)
    fixed.flags.writeable = False
    first, second = k.given(fixed), k.given(np.arange(32, dtype=np.float32)[::2])
    a, b = local(k.tik, "a", 16), local(k.tik, "b", 16)
    k.tik.data_move(a, first, 0, 1, 2, 0, 0)
    k.tik.data_move(b, second, 0, 1, 2, 0, 0)
    k.tik.vec_add(16, a, a, b, 1, 8, 8, 8)
    k.shown(a)
    np.testing.assert_array_equal(k.run()[0], np.arange(0, 32, 2) + 1)


def test_each_run_starts_anew(k: Kernel) -> None:
    y = k.result("float32", (16,))
    a = k.filled(ONES)
    k.tik.set_atomic_add(1)
    k.tik.data_move(y, a, 0, 1, 2, 0, 0)
    first, second = k.run()[0], k.tik.tikdb.start_debug(k.feed, False)[0]
    np.testing.assert_array_equal(first, ONES)
    np.testing.assert_array_equal(second, ONES)


def test_unwritten_memory_holds_the_same_noise_in_every_run(k: Kernel) -> None:
    k.shown(local(k.tik, "a", 64, "int32"))
    first, second = k.run()[0], k.tik.tikdb.start_debug({}, False)[0]
    np.testing.assert_array_equal(first, second)
    assert len(set(first.tolist())) > 60


def test_stepping_is_not_offered(k: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    k.tik.BuildCCE("kernel", [], [])
    k.tik.tikdb.start_debug({}, True)
    assert "does not stop" in capsys.readouterr().err


def test_debug_print_shows_present_values(k: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    a, half = k.filled(np.arange(16, dtype=np.int32)), local(k.tik, "half", 16, "float16")
    k.tik.vec_dup(16, half, 0.5, 1, 8)
    total, grid = k.tik.Scalar("int32", "total", 0), a.reshape((4, 4))
    with k.tik.for_range(0, 2) as i:  # noqa: F841 - debug_print finds it
        total.set_as(total + 10)
        k.tik.tikdb.debug_print('"turn", i, total * 2, i + 1')
        k.tik.tikdb.debug_print("a[4:7]")
    k.tik.tikdb.debug_print("grid[:, 0] + grid.shape[1]")
    k.tik.tikdb.debug_print("half[0:2], half.dtype, [n for n in (total, 7)]")
    column = grid[:, 2:3]
    k.tik.tikdb.debug_print("column.ravel(), ONES.sum()")
    k.run()
    assert capsys.readouterr().out.splitlines() == [
        "turn 0 20 1",
        "[4 5 6]",
        "turn 1 40 2",
        "[4 5 6]",
        "[ 4  8 12 16]",
        "[0.5 0.5] float16 [20, 7]",
        "[ 2  6 10 14] 16.0",
    ]
    assert column.shape == (4, 1)


class Holder:
    """Something with attributes that are bound anew after debug_print."""

    shown: Any


def test_names_are_bound_where_debug_print_stands_and_attributes_when_it_runs(
    k: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, self = k.tik.Scalar("int32", "first", 1), k.tik.Scalar("int32", "second", 2), Holder()
    name = self.shown = first
    k.tik.tikdb.debug_print("name, self.shown")
    name = self.shown = second
    assert name is second
    k.run()
    assert capsys.readouterr().out == "1 2\n"


def test_debug_print_of_no_expression(k: Kernel) -> None:
    with reported(TikError, "no expression", "'a +'"):
        k.tik.tikdb.debug_print("a +")  # no expression


def test_a_trace_has_a_line_for_each_executed_instruction(k: Kernel, tmp_path: Path) -> None:
    x = k.tik.Tensor("float32", (2, 64), name="x", scope=GM)
    a, s = local(k.tik, "a"), k.tik.Scalar("float32", "s")
    with k.tik.for_range(0, 2, block_num=2) as core:
        k.tik.data_move(a, x[core, :], 0, 2, 2, 1, 0)  # move
        s.set_as(a[core + 3])  # load
        with k.tik.if_scope(core == 1):
            k.tik.vec_muls(20, a, a, s, 3, 0, 0)  # multiply
    k.tik.BuildCCE("kernel", [x], [])
    with davinci.traced(str(tmp_path / "trace")):
        k.tik.tikdb.start_debug({"x": np.full((2, 64), 2, np.float32)}, False)

    def at(mark: str) -> str:
        return f"({__file__}:{line_of(__file__, mark)})"

    lanes = "3@0 x 20@1"
    assert (tmp_path / "trace").read_text().splitlines() == [
        f"0 MTE2 data_move a[0] 2@16 x 16@1 float32 <- x[0] 2@24 x 16@1 float32 {at('move')}",
        f"0 S set_as s <- a[3] 1 float32 {at('load')}",
        f"1 MTE2 data_move a[0] 2@16 x 16@1 float32 <- x[64] 2@24 x 16@1 float32 {at('move')}",
        f"1 S set_as s <- a[4] 1 float32 {at('load')}",
        f"1 V vmuls a[0] {lanes} float32 <- a[0] {lanes} float32, 2.0 {at('multiply')}",
    ]


def test_a_trace_ends_with_what_failed(k: Kernel, tmp_path: Path) -> None:
    a = local(k.tik, "a")
    k.tik.vec_dup(64, a, 1.0, 2, 8)  # too far
    with davinci.traced(str(tmp_path / "trace")), pytest.raises(OutOfBounds):
        k.run()
    (line,) = (tmp_path / "trace").read_text().splitlines()
    assert line.startswith("0 V vector_dup a[0] 2@64") and line.endswith(f":{line_of(__file__, 'too far')})")


def test_the_summary_names_the_tensors_at_the_peak(k: Kernel) -> None:
    tik = k.tik
    kept = tik.Tensor("float16", (100,), name="kept", scope=UB)
    with tik.new_stmt_scope():
        tik.Tensor("float32", (16,), name="small", scope=UB)
    with tik.for_range(0, 4, thread_num=2):
        tik.Tensor("float32", (64,), name="twice", scope=UB)  # twice
        with tik.new_stmt_scope():
            tik.Tensor("uint8", (40,), name="odd", scope=UB)
        tik.Tensor("float16", (16,), name="after", scope=UB)
    tik.Tensor("float16", (16,), name="deep", scope=L1)
    program = tik.BuildCCE("kernel", [], [])
    assert kept.scope == UB
    lines = program.summary().splitlines()
    assert lines[0] == "kernel for Ascend910A: 7 statements, block_num 1"
    assert lines[1] == "UB: at most 864 of 262144 bytes (0%)"
    charges = [line.split()[:3] for line in lines[2:5]]
    assert charges == [["512", "twice", "float32"], ["224", "kept", "float16"], ["128", "odd", "uint8"]]
    assert f"(2 copies)  {__file__}:{line_of(__file__, 'twice')}" in lines[2]
    assert lines[5] == "L1: at most 512 of 1048576 bytes (0%)"


def adding(cores: int) -> Kernel:
    """Each core adds 2**-core * 1.1 to the same number; float32 sums depend on the order."""
    k = Kernel()
    x = k.given(np.repeat((1.1 * 3.0 ** np.arange(cores)).astype(np.float32), 8).reshape(cores, 8))
    y = k.result("float32", (8,))
    with k.tik.for_range(0, cores, block_num=cores) as core:
        a = local(k.tik, "a", 8)
        k.tik.data_move(a, x[core, :], 0, 1, 1, 0, 0)
        k.tik.set_atomic_add(1)
        k.tik.data_move(y, a, 0, 1, 1, 0, 0)
    return k


def test_cores_run_in_order_unless_they_are_shuffled() -> None:
    k = adding(20)
    numbers = (1.1 * 3.0 ** np.arange(20)).astype(np.float32)

    def total(order: Any) -> Any:
        result = np.float32(0)
        for core in order:
            result += numbers[core]
        return result

    assert k.run()[0][0] == total(range(20))
    found = set()
    for seed in range(6):
        with davinci.shuffled_cores(seed):
            first, second = (k.tik.tikdb.start_debug(k.feed, False)[0][0] for _ in range(2))
        assert first == second
        found.add(first.item())
    assert len(found) > 1
    np.testing.assert_allclose(list(found), total(range(20)), rtol=1e-6)


SCRIPT = """
import sys
import numpy as np
from tbe import tik
from tbe.common.platform import set_current_compile_soc_info
set_current_compile_soc_info("Ascend910A")
t = tik.Tik()
y = t.Tensor("float16", (128,), name="y", scope=tik.scope_gm)
a = t.Tensor("float16", (128,), name="a", scope=tik.scope_ubuf)
if "fill" in sys.argv:
    t.vec_dup(128, a, 2.0, 1, 8)
t.data_move(y, a, 0, 1, 8, 0, 0)
t.BuildCCE("copied", [], [y])
print("first", t.tikdb.start_debug({}, False)[0][0])
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.argv", ["pytest"])
    monkeypatch.setattr("sys.path", list(sys.path))
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_the_script_runner_with_all_its_options(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    assert main(["--strict", "--summary", "--shuffle", "3", "--trace", str(trace), script, "fill"]) == 0
    assert len(trace.read_text().splitlines()) == 2
    shown = capsys.readouterr().out
    assert "copied for Ascend910A: 3 statements" in shown and "first 2.0" in shown
    with pytest.raises(RuntimeError, match="nothing wrote"):
        main(["--strict", script])
    assert main([script]) == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no SCRIPT"),
        (["nowhere.py"], "no such script: nowhere.py"),
        (["--fast", "x.py"], "no such option"),
        (["--trace"], "--trace"),
        (["--shuffle", "soon", "x.py"], "soon"),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--strict" in capsys.readouterr().out
