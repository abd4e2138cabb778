"""Sweep, best, devices and strategies on the emulated chip."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.db.store import Store
from autotune.outcome import Timed, Trial
from autotune.problem import AttentionProblem

Run = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]

SHAPE = "1,2,64,64,16"
PROBLEM = AttentionProblem.of((1, 2, 64, 64, 16))
SWEEP = ("sweep", "--shape", SHAPE, "--trials", "6", "--db", "sqlite:///plans.db")
BEST = ("best", "--shape", SHAPE, "--db", "sqlite:///plans.db")


def trials(folder: Path, problem: AttentionProblem = PROBLEM) -> list[Trial]:
    store = Store.open(f"sqlite:///{folder}/plans.db", create=False)
    found = store.trials(problem, "Ascend910A", "emulated:Ascend910A")
    store.close()
    return found


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the database of one sweep, for tests that only read it."""
    from autotune.cli import main

    folder = tmp_path_factory.mktemp("swept")
    assert main([*SWEEP[:-1], f"sqlite:///{folder}/plans.db", "--json"]) == 0
    yield folder


def test_a_sweep_tells_tries_and_keeps(run: Run, folder: Path) -> None:
    ran = run(*SWEEP, "--json")
    assert ran.code == 0
    report = json.loads(ran.out)
    [result] = report["results"]
    found = trials(folder)
    times = [trial.outcome.timing.time_us for trial in found if isinstance(trial.outcome, Timed)]
    assert len(found) == result["new_trials"] == sum(result["trials"].values()) == 6
    assert found[0].plan.strategy == "sparse"
    assert result["time_us"] == min(times)
    assert result["default_time_us"] == times[0]
    assert result["kind"] == "emulated"
    assert (report["target"], report["interrupted"]) == ("emulated:Ascend910A", False)
    assert "problem 1 of 1: 1,2,64,64,16" in ran.err
    assert "1/6  64 x 64, even over 2 cores: " in ran.err


def test_a_finished_sweep_adds_nothing(run: Run, folder: Path) -> None:
    run(*SWEEP)
    ran = run(*SWEEP, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["results"][0]["new_trials"] == 0
    assert len(trials(folder)) == 6
    assert "6 known" in ran.err


def test_the_table_sets_the_best_plan_beside_the_default(run: Run) -> None:
    ran = run(*SWEEP, "--shape", "1,1,32,32,16")
    rows = [line for line in ran.out.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows] == [SHAPE, "1,1,32,32,16"]
    assert all(
        " us " in row.split("│")[2] and " us " in row.split("│")[3] and " x " in row.split("│")[4] for row in rows
    )
    assert "emulated times, davinci-" in ran.out


def test_best_answers_with_the_swept_plan(run: Run, swept: Path) -> None:
    ran = run(*BEST[:-1], f"sqlite:///{swept}/plans.db", "--json")
    answer = json.loads(ran.out)
    fastest = min(
        (trial for trial in trials(swept) if isinstance(trial.outcome, Timed)),
        key=lambda trial: trial.outcome.timing.time_us,  # type: ignore[union-attr]
    )
    assert (ran.code, ran.err) == (0, "")
    assert (answer["match"], answer["stale"]) == ("exact", False)
    assert (answer["plan"]["Br"], answer["plan"]["Bc"]) == (fastest.plan.Br, fastest.plan.Bc)
    assert answer["provenance"]["trials"] == 6


def test_best_in_words(run: Run, swept: Path) -> None:
    ran = run(*BEST[:-1], f"sqlite:///{swept}/plans.db")
    words = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert words["problem"] == "flash_attention 1,2,64,64,16 on Ascend910A"
    assert words["plan"].startswith("Br ")
    assert words["match"] == "exact"
    assert "us emulated, " in words["time"]


def test_best_for_a_neighbour_says_whose_plan_it_is(run: Run, swept: Path) -> None:
    ran = run("best", "--shape", "1,2,128,64,16", "--db", f"sqlite:///{swept}/plans.db")
    assert ran.code == 0
    assert "nearest: 1,2,64,64,16, 1.00 doublings away" in ran.out
    assert "never timed on this shape" in ran.out


def test_nothing_found_is_exit_code_3(run: Run, swept: Path) -> None:
    ran = run("best", "--shape", "1,2,4096,64,16", "--allow", "exact,nearest", "--db", f"sqlite:///{swept}/plans.db")
    assert (ran.code, ran.out) == (3, "")
    assert "no legal plan for flash_attention;1,2,4096,64,16" in ran.err


def test_a_sweep_without_a_plan_that_works_is_exit_code_3(run: Run) -> None:
    """The Ascend 310 has no fp32 exponential, which our kernel needs."""
    ran = run(*SWEEP, "--device", "emulated:Ascend310")
    assert ran.code == 3
    assert "no plan works" in ran.out
    assert "fp32 exponential" in ran.out


def test_the_environment_stands_in_for_options(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_TRIALS", "2")
    monkeypatch.setenv("AUTOTUNE_DB", "sqlite:///plans.db")
    assert run("sweep", "--shape", SHAPE).code == 0
    assert len(trials(folder)) == 2


def test_a_budget_without_trials_is_the_only_limit(run: Run, folder: Path) -> None:
    """All 12 or so plans of a small problem, more than the AUTOTUNE_TRIALS that would else hold."""
    assert run("sweep", "--shape", "1,1,32,32,16", "--budget", "1m", "--db", "sqlite:///plans.db").code == 0
    every_block = {(Br, Bc) for Br in (16, 32) for Bc in (16, 32)}
    assert {(t.plan.Br, t.plan.Bc) for t in trials(folder, AttentionProblem.of((1, 1, 32, 32, 16)))} == every_block


def test_the_same_trials_in_any_number_of_processes(run: Run, folder: Path) -> None:
    shapes = ("1,2,64,64,16", "1,2,96,160,16")
    found = []
    for workers in ("0", "2"):
        shaped = [word for shape in shapes for word in ("--shape", shape)]
        command = ("sweep", *shaped, "--trials", "14", "--workers", workers, "--db", "sqlite:///plans.db", "--json")
        results = json.loads(run(*command).out)["results"]
        problems = [AttentionProblem.of(tuple(map(int, shape.split(",")))) for shape in shapes]
        keys = [sorted(trial.plan.key for trial in trials(folder, problem)) for problem in problems]
        found.append((keys, [(result["plan"], result["time_us"]) for result in results]))
        (folder / "plans.db").unlink()
    assert found[0] == found[1]
    assert [len(keys) for keys in found[0][0]] == [14, 14]


def test_named_strategies_only(run: Run, folder: Path) -> None:
    run("sweep", "--shape", "1,2,160,160,16", "--strategy", "wukong", "--db", "sqlite:///plans.db")
    found = trials(folder, AttentionProblem.of((1, 2, 160, 160, 16)))
    assert [trial.plan.strategy for trial in found] == ["sparse", "wukong"]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_keeps_what_it_found_and_goes_on(
    run: Run, start: Start, folder: Path, stop: signal.Signals
) -> None:
    command = ("sweep", "--shape", "1,2,512,512,64", "--trials", "9", "--db", "sqlite:///plans.db")
    problem = AttentionProblem.of((1, 2, 512, 512, 64))
    sweep = start(*command)
    assert sweep.stderr is not None
    while not sweep.stderr.readline().startswith("  1/9"):
        assert sweep.poll() is None
    sweep.send_signal(stop)
    out, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    assert "1,2,512,512,64" in out
    assert "the same command goes on from here" in err
    before = len(trials(folder, problem))
    assert 1 <= before < 9
    answer = json.loads(run("best", "--shape", "1,2,512,512,64", "--db", "sqlite:///plans.db", "--json").out)
    assert (answer["match"], answer["provenance"]["trials"]) == ("exact", before)
    assert json.loads(run(*command, "--json").out)["results"][0]["new_trials"] == 9 - before
    assert len({trial.plan.key for trial in trials(folder, problem)}) == 9


def test_a_killed_sweep_leaves_its_problem_wanted_and_its_best_plan_served(
    run: Run, start: Start, folder: Path
) -> None:
    problem = AttentionProblem.of((1, 2, 512, 512, 64))
    store = Store.open(f"sqlite:///{folder}/plans.db")
    store.want(problem, "Ascend910A", "2026-12-01T02:13:44Z")
    command = ("sweep", "--wanted", "--trials", "12", "--workers", "1", "--db", "sqlite:///plans.db")
    sweep = start(*command)
    assert sweep.stderr is not None
    while not sweep.stderr.readline().startswith("  1/12"):
        assert sweep.poll() is None
    sweep.kill()
    sweep.communicate(timeout=60)
    found = trials(folder, problem)
    assert 1 <= len(found) < 12
    times = [trial.outcome.timing.time_us for trial in found if isinstance(trial.outcome, Timed)]
    best = store.best(problem, "Ascend910A")
    assert best is not None and best.timing.time_us == min(times)
    assert [each.problem for each in store.wanted()] == [problem]
    [result] = json.loads(run(*command, "--json").out)["results"]
    assert result["new_trials"] == 12 - len(found)
    assert store.wanted() == []
    store.close()


def test_devices(run: Run) -> None:
    table, listed = run("devices"), json.loads(run("devices", "--json").out)
    by_name = {device["name"]: device["hardware"] for device in listed["devices"]}
    assert by_name["emulated:Ascend910A"] == {
        "name": "Ascend910A", "cores": 32, "clock_mhz": 1000, "ub_bytes": 262144, "l1_bytes": 1048576,
        "l0a_bytes": 65536, "l0b_bytes": 65536, "l0c_bytes": 262144,
    }  # fmt: skip
    assert "separate cube and vector cores" in listed["unavailable"]["emulated:Ascend910B1"]
    assert all(name in table.out for name in [*by_name, *listed["unavailable"]])


def test_strategies(run: Run) -> None:
    table, listed = run("strategies"), json.loads(run("strategies", "--json").out)
    roles = {info["name"]: info["role"] for info in listed["strategies"]}
    assert roles["sparse"] == "proposal"
    assert roles["lattice"] == "space"
    assert all(name in table.out for name in roles)


@pytest.mark.parametrize("command", ["sweep", "best", "serve", "devices", "strategies"])
def test_help_gives_examples(run: Run, command: str) -> None:
    ran = run(command, "--help")
    assert ran.code == 0
    assert f"\n    autotune {command}" in ran.out


def test_no_command_is_help(run: Run) -> None:
    assert run() == run("--help")


LOADED = """
import json, sys
from autotune.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))
"""


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], {"numpy", "optuna", "fastapi", "pydantic", "sqlalchemy", "uvicorn"}),
        (["best", "--shape", SHAPE, "--json"], {"optuna", "fastapi", "starlette", "uvicorn", "alembic", "rich"}),
    ],
)
def test_commands_load_what_they_need(swept: Path, arguments: list[str], absent: set[str]) -> None:
    where = [] if arguments == ["--help"] else ["--db", f"sqlite:///{swept}/plans.db"]
    result = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments, *where],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    code, loaded = json.loads(result.stdout.splitlines()[-1])
    assert code == 0
    assert absent & set(loaded) == set()


def test_blas_starts_no_threads(start: Start) -> None:
    code = "import os; from autotune.cli import main; main(['--help']); print(os.environ['OPENBLAS_NUM_THREADS'])"
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.splitlines()[-1] == "1"


def test_a_reader_that_leaves_is_no_crash(start: Start) -> None:
    process = start("sweep", "--help")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) in (0, 1)
    assert process.stderr is not None
    assert process.stderr.read() == ""
