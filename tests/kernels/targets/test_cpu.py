"""The CPU target: names, fingerprint, what compiling, running, timing and racing give."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.errors import CompileFailed, ImplausibleTime, PlanRejected, RunFailed, TargetUnavailable
from autotune.kernels.native import build as building
from autotune.kernels.targets.base import Racing, TimingBudget
from autotune.kernels.targets.cpu import COLD, WARM, CpuKernel, CpuTarget
from autotune.measure import Sentinel
from autotune.outcome import MEASURED, Timing
from autotune.plan import TilingPlan
from autotune.problem import ATTN_MASKS, AttentionProblem
from autotune.strategies.core_split import complete
from autotune.verify import Verifier

PROBLEM = AttentionProblem.of((1, 2, 130, 150, 40))


def compiled(cpu: CpuTarget, problem: AttentionProblem = PROBLEM, plan: TilingPlan | None = None) -> CpuKernel:
    return cpu.compile(problem, complete(plan or TilingPlan(64, 48), problem, cpu.hardware))


def test_its_names(cpu: CpuTarget) -> None:
    assert cpu.name == "cpu" and cpu.hardware.name.startswith("cpu-")
    assert cpu.hardware.ub_bytes == cpu.hardware.l1_bytes == 0
    assert cpu.fingerprint.endswith(f"x{cpu.hardware.cores}/{WARM}")
    assert isinstance(cpu, Racing)


def test_another_compiler_or_flag_is_another_fingerprint(cpu: CpuTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "FLAGS", (*building.FLAGS, "-DANOTHER"))
    assert CpuTarget(Path("unused")).fingerprint != cpu.fingerprint


def test_without_a_compiler_it_is_not_available(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetUnavailable, match="no C compiler"):
        CpuTarget(tmp_path)


@pytest.mark.parametrize("attn_mask", ATTN_MASKS)
def test_it_is_right(cpu: CpuTarget, attn_mask: str) -> None:
    """The output is rounded to fp16 once: 2**-11 at most, 2**-12 and less over many numbers."""
    assert Verifier()(cpu, replace(PROBLEM, attn_mask=attn_mask), TilingPlan(64, 48)) < 2**-12


def test_bfloat16_is_computed_in_single_precision(cpu: CpuTarget) -> None:
    """Its output is not rounded: only fp32's own error is left."""
    assert Verifier()(cpu, replace(PROBLEM, dtype="bfloat16", high_precision=True), TilingPlan(64, 48)) < 1e-6


@pytest.mark.parametrize(
    "option", [{"window": (20, 0)}, {"block_window": (0, 0)}, {"dropout": True}, {"alibi": True}], ids=str
)
def test_it_is_right_with_every_option(cpu: CpuTarget, option: dict[str, Any]) -> None:
    problem = AttentionProblem.of((1, 2, 300, 150, 40), attn_mask="causal", **option)
    assert Verifier()(cpu, problem, TilingPlan(64, 48)) < 2**-12
    kernel = compiled(cpu, problem)
    assert kernel.time(TimingBudget(repeats=1)).time_us > 0


@pytest.mark.parametrize(
    ("problem", "plan", "message"),
    [
        (PROBLEM, TilingPlan(64, 48, double_buffer=True), "no double_buffer; it must be false"),
        (PROBLEM, TilingPlan(64, 48, exp="float16"), "no exp; it must be float32"),
        (replace(PROBLEM, op="flash_attention_grad"), TilingPlan(64, 48), "op flash_attention_grad"),
        (PROBLEM, TilingPlan(160, 48), "taller than the padded length"),
        (replace(PROBLEM, Nq=9000), TilingPlan(8192, 48), "Br is 8192, at most 4096"),
    ],
)
def test_what_it_cannot_do_is_rejected(
    cpu: CpuTarget, problem: AttentionProblem, plan: TilingPlan, message: str
) -> None:
    with pytest.raises(PlanRejected, match=message):
        compiled(cpu, problem, plan)


def test_work_that_nobody_worked_out_is_rejected(cpu: CpuTarget) -> None:
    with pytest.raises(PlanRejected, match="work for 0 cores"):
        cpu.compile(PROBLEM, TilingPlan(64, 48))


def test_a_kernel_that_does_not_build_failed(compiler: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(building, "FLAGS", ("-no-such-flag",))
    with pytest.raises(CompileFailed, match="no-such-flag"):
        compiled(CpuTarget(tmp_path))


def test_inputs_of_another_shape_do_not_run(cpu: CpuTarget) -> None:
    with pytest.raises(RunFailed, match=r"q has shape \(1, 2, 3, 4\)"):
        compiled(cpu).run({"q": np.zeros((1, 2, 3, 4))})


def test_a_time_is_measured_with_both_clocks(cpu: CpuTarget) -> None:
    timing = compiled(cpu).time(TimingBudget(repeats=5))
    assert (timing.kind, timing.clock) == (MEASURED, WARM)
    assert len(timing.samples) == len(timing.wall_us) == 5
    assert timing.time_us == sorted(timing.samples)[2]
    assert all(cpu_us <= 1.05 * wall_us for cpu_us, wall_us in zip(timing.samples, timing.wall_us))


def test_a_time_carries_the_state_of_the_machine(cpu: CpuTarget) -> None:
    timing = compiled(cpu).time(TimingBudget(repeats=3))
    assert {"load", "cpus", "drift"} <= set(timing.machine) and abs(timing.machine["drift"]) < 5
    again = Timing.from_json(json.loads(json.dumps(timing.to_json())))
    assert (again, again.machine) == (timing, timing.machine)


def test_a_machine_that_changes_is_measured_again(cpu: CpuTarget) -> None:
    """A sentinel that slows by half over the first block and then stays."""
    readings = iter([1.0] * 5 + [1.5] * 10)
    kernel = replace(compiled(cpu), sentinel=Sentinel(lambda: next(readings)))
    timing = kernel.time(TimingBudget(repeats=3))
    assert len(timing.samples) == 3 and timing.machine["drift"] == 0.0
    assert next(readings, None) is None


def test_cold_is_another_protocol_on_the_same_machine(cpu: CpuTarget, tmp_path: Path) -> None:
    cold = CpuTarget(tmp_path, cold=True)
    assert cold.name == "cpu-cold" and cold.hardware == cpu.hardware
    assert cold.fingerprint == cpu.fingerprint.replace(WARM, COLD) != cpu.fingerprint
    timing = compiled(cold).time(TimingBudget(repeats=3))
    assert timing.clock == COLD and len(timing.samples) == 3


def test_a_cold_launch_waits_for_memory(cpu: CpuTarget) -> None:
    """Keys and values of 128 KiB, which a second-level cache holds, each used for 16 rows: it takes twice as long."""
    kernel = compiled(cpu, AttentionProblem.of((1, 1, 16, 256, 64)), TilingPlan(16, 64))
    warm, cold = (replace(kernel, cold=cold).stopwatch() for cold in (False, True))
    fastest = [min(column) for column in zip(*((warm(), cold()) for _ in range(30)))]
    assert 1.1 * fastest[0] < fastest[1]


def test_an_impossible_time_is_refused(cpu: CpuTarget) -> None:
    kernel = replace(compiled(cpu), least_us=1e8)
    with pytest.raises(ImplausibleTime, match=r"must be from 1e\+08 us"):
        kernel.time(TimingBudget())


def test_no_time_is_below_the_peak_rate(cpu: CpuTarget) -> None:
    """1024 x 1024 scores of one head: 4 * 64 flops each; all keys, or those up to the diagonal."""
    problem = AttentionProblem.of((1, 1, 1024, 1024, 64))
    per_us = cpu.hardware.cores * cpu.hardware.clock_mhz * 128
    flops = 4 * 64 * 1024 * 1024
    assert compiled(cpu, problem).least_us == pytest.approx(flops / per_us)
    causal = compiled(cpu, replace(problem, attn_mask="causal")).least_us
    assert causal == pytest.approx(flops / per_us * 1025 / 2048)


def test_a_race_names_the_winner_first(cpu: CpuTarget) -> None:
    """Blocks of 16 x 16 leave half of every panel empty and rescale it every 16 keys: 128 x 128 is far faster."""
    problem = AttentionProblem.of((1, 2, 256, 256, 64))
    plans = [complete(TilingPlan(*blocks), problem, cpu.hardware) for blocks in ((16, 16), (128, 128))]
    times = cpu.race(problem, plans)
    assert list(times) == [plans[1].key, plans[0].key]
    assert all(timing.samples and timing.kind == MEASURED for timing in times.values())
