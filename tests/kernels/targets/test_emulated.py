"""The emulated target: names, fingerprints, what compiling, running and timing raise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autotune.errors import CompileFailed, PlanRejected, RunFailed, TargetUnavailable, UnknownName
from autotune.hardware import Hardware
from autotune.kernels import flash_attention
from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.errors import CapacityError, NotEmulated, RangeError
from autotune.kernels.flash_attention import forward
from autotune.kernels.targets import emulated
from autotune.kernels.targets.base import TimingBudget
from autotune.kernels.targets.emulated import EmulatedKernel, EmulatedTarget
from autotune.outcome import EMULATED
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

Array = NDArray[Any]
PROBLEM = AttentionProblem.of((1, 2, 40, 50, 24))


def compiled(
    problem: AttentionProblem = PROBLEM, plan: TilingPlan | None = None, target: EmulatedTarget | None = None
) -> EmulatedKernel:
    target = target or EmulatedTarget("Ascend910A")
    return target.compile(problem, complete(plan or TilingPlan(32, 32), problem, target.hardware))


def inputs(problem: AttentionProblem = PROBLEM) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    batch, heads, nq, n, d = problem.shape
    return {
        name: rng.normal(size=(batch, heads, length, d)).astype(np.float16) for name, length in zip("qkv", (nq, n, n))
    }


def test_its_hardware_is_the_chip_s() -> None:
    target = EmulatedTarget("Ascend910A")
    assert target.name == "emulated:Ascend910A"
    assert target.hardware == Hardware("Ascend910A", 32, 1000, 262144, 1048576, 65536, 65536, 262144)


def test_an_alias_is_the_chip_it_stands_for() -> None:
    assert EmulatedTarget("Ascend910").name == "emulated:Ascend910A"


def test_fewer_cores_make_no_other_target() -> None:
    one, all_cores = EmulatedTarget("Ascend910A", 1), EmulatedTarget("Ascend910A")
    assert one.hardware == replace(all_cores.hardware, cores=1)
    assert (one.name, one.fingerprint) == (all_cores.name, all_cores.fingerprint)


def test_an_unknown_chip_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"'Ascend911'; known: .*Ascend910A"):
        EmulatedTarget("Ascend911")


def test_a_chip_with_separate_cores_is_not_available() -> None:
    split = next(name for name, chip in chips.SOCS.items() if chip.split)
    with pytest.raises(TargetUnavailable, match=f"{split} has separate cube and vector cores"):
        EmulatedTarget(split)


def test_a_real_toolkit_is_never_shadowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ImportError("a real tbe package is installed")

    monkeypatch.setattr(emulated, "install", refuse)
    with pytest.raises(TargetUnavailable, match="a real tbe package"):
        EmulatedTarget("Ascend910A")


def test_the_fingerprint_names_kernel_and_timing_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = EmulatedTarget("Ascend910A")
    model = compiled(target=target).time(TimingBudget()).clock
    assert target.fingerprint.endswith(f"/{model}")
    (tmp_path / "__init__.py").write_text("changed = True\n")
    monkeypatch.setattr(flash_attention, "__file__", str(tmp_path / "__init__.py"))
    assert EmulatedTarget("Ascend910A").fingerprint != target.fingerprint
    (tmp_path / "reference.py").write_text("nothing that runs on a core\n")
    changed = EmulatedTarget("Ascend910A").fingerprint
    (tmp_path / "reference.py").unlink()
    assert EmulatedTarget("Ascend910A").fingerprint == changed


def test_results_are_row_major_and_without_padding() -> None:
    result = compiled().run(inputs())
    assert result["o"].shape == (1, 2, 40, 24) and result["o"].dtype == np.float16
    assert result["lse"].shape == (1, 2, 40) and result["lse"].dtype == np.float32


def test_a_kernel_runs_again_and_leaves_its_inputs_alone() -> None:
    kernel, given = compiled(), inputs()
    kept = {name: array.copy() for name, array in given.items()}
    first, second = kernel.run(given), kernel.run(given)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    for name, array in given.items():
        np.testing.assert_array_equal(array, kept[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": np.zeros((1, 2, 41, 24))}, r"q has shape \(1, 2, 41, 24\), .* built for \(1, 2, 40, 24\)"),
        ({"attn_mask": None}, r"attn_mask has shape None, .* \(1, 40, 50\)"),
    ],
)
def test_inputs_of_another_shape_do_not_run(change: dict[str, Array | None], message: str) -> None:
    problem = replace(PROBLEM, attn_mask="shared")
    given = {**inputs(), "attn_mask": np.zeros((1, 40, 50)), **change}
    with pytest.raises(RunFailed, match=message):
        compiled(problem).run({name: array for name, array in given.items() if array is not None})


def cycles(kernel: EmulatedKernel) -> int:
    found = kernel.time(TimingBudget()).cycles
    assert found is not None
    return found


def test_a_time_is_emulated_and_the_same_again() -> None:
    kernel = compiled()
    timing = kernel.time(TimingBudget())
    assert timing.kind == EMULATED and timing.samples == () and timing.spread_us == 0
    assert timing.time_us > cycles(kernel) / 1000 > 0
    assert kernel.time(TimingBudget(repeats=5)) == timing


def test_more_cores_are_faster() -> None:
    problem = AttentionProblem.of((1, 4, 64, 64, 64))
    one, four = (compiled(problem, TilingPlan(32, 32), EmulatedTarget("Ascend910A", n)) for n in (1, 4))
    assert cycles(one) > 3 * cycles(four)


def test_tilings_rank_as_they_should() -> None:
    """N = 4096, d = 64, one head for each of 32 cores: 128 x 256 beats 128 x 128 beats 64 x 64."""
    problem = AttentionProblem.of((2, 16, 4096, 4096, 64))
    times = [
        compiled(problem, TilingPlan(*blocks)).time(TimingBudget()).time_us
        for blocks in ((128, 256), (128, 128), (64, 64))
    ]
    assert times == sorted(times) and len(set(times)) == 3


def test_two_chips_do_not_disturb_each_other() -> None:
    other = EmulatedTarget("Ascend310P3")
    mine = EmulatedTarget("Ascend910A")
    first, second = compiled(target=mine), compiled(target=other)
    assert first.tik.program.soc.name == "Ascend910A" and second.tik.program.soc.name == "Ascend310P3"
    assert compiled(target=mine).tik.program.soc.name == "Ascend910A"


def test_work_that_nobody_worked_out_is_rejected() -> None:
    with pytest.raises(PlanRejected, match="work for 0 cores"):
        EmulatedTarget("Ascend910A").compile(PROBLEM, TilingPlan(32, 32))


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (CapacityError("UB: 5 bytes too many"), PlanRejected),
        (RangeError("a number out of range"), CompileFailed),
        (NotEmulated("vbitsort"), CompileFailed),
    ],
)
def test_errors_of_recording_become_the_candidate_s(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, expected: type[Exception]
) -> None:
    def fail(*arguments: object) -> None:
        raise raised

    monkeypatch.setattr(emulated, "flash_attention", fail)
    with pytest.raises(expected, match=str(raised)[:12]):
        compiled()


def test_an_error_of_the_program_itself_flies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "prepare", lambda context: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compiled()
