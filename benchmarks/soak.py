"""Whether a sweep survives a night of faults: plans that crash, hang or are wrong, and kills of the sweep itself.

python benchmarks/soak.py [--quick] [--json]      exit code 1 where a bar is missed

40 problems on the emulated Ascend 910A, 50 trials each (8 and 25 with --quick), by two workers. Of the plans 10 % abort
their process, 2 % hang it in C with every signal blocked, 1 % compute wrong results. Three times the sweep is killed
(SIGKILL) and started again. Memory is the resident set of the sweep's process from its last start: the median of its
last quarter over that of its second.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from autotune.db.store import Store
from autotune.outcome import BestPlan, Failed, Rejected, Timed, Trial
from benchmarks import bars, faulty

WORKERS = 2
KILLS = (0.05, 0.15, 0.3)
"""Shares of all trials after which the sweep is killed."""
MOST_GROWTH = 1.1
STAGES = {"crash": "crash", "hang": "timeout", "wrong": "verify"}
"""At which a plan with a fault has to fail."""
PROGRAM = (
    "import sys; from pathlib import Path; from benchmarks.faulty import sweep;"
    "sweep(Path(sys.argv[1]), *map(int, sys.argv[2:]))"
)


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "8 problems with 25 trials instead of 40 with 50").parse_args()
    report = measure(8, 25) if options.quick else measure(40, 50)
    return bars.finish(report, options.json, text)


def measure(problems: int, trials: int, kills: Sequence[float] = KILLS) -> bars.Report:
    """The whole of it, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), time.monotonic()
        left = [_until(folder, problems, trials, round(share * problems * trials))[0] for share in kills]
        _, memory = _until(folder, problems, trials, None)
        return {
            **judge(folder, problems, trials, len(kills), sum(left), memory),
            "seconds": time.monotonic() - start,
        }


def _until(folder: Path, problems: int, trials: int, kill_at: int | None) -> tuple[int, list[int]]:
    """Runs the sweep to its end, or kills it after so many trials: workers that outlived it, and its memory in KiB."""
    command = [sys.executable, "-c", PROGRAM, *map(str, (folder, problems, trials, WORKERS))]
    sweep = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder)
    memory, workers = [], []
    while sweep.poll() is None:
        memory.append(_resident_kib(sweep.pid))
        if kill_at is not None and _recorded(folder) >= kill_at:
            workers = _children(sweep.pid)
            sweep.send_signal(signal.SIGKILL)
            sweep.wait()
        time.sleep(0.1)
    if kill_at is None and sweep.returncode:
        raise RuntimeError(f"the sweep ended with exit code {sweep.returncode}")
    return sum(_outlives(worker) for worker in workers), memory


def judge(folder: Path, problems: int, trials: int, kills: int, left: int, memory: Sequence[int]) -> bars.Report:
    """What the folder's database and its list of tries say."""
    store = Store.open(f"sqlite:///{folder / 'plans.db'}", create=False)
    target = f"emulated:{faulty.CHIP}"
    tuned = faulty.problems(problems)
    found = {problem: store.trials(problem, faulty.CHIP, target) for problem in tuned}
    bests = [store.best(problem, faulty.CHIP, target) for problem in tuned]
    published = [(one, best.plan) for one in tuned for best in store.history(one, faulty.CHIP, target)]
    store.close()
    every = [trial for group in found.values() for trial in group]
    quarter = len(memory) // 4
    growth = statistics.median(memory[-quarter:]) / statistics.median(memory[quarter : 2 * quarter])
    return {
        "bars": {
            "trials": bars.at_least(len(every), problems * trials),
            "problems_tuned": bars.at_least(sum(best is not None and best.finished for best in bests), problems),
            "fastest_not_served": bars.at_most(sum(map(_not_the_fastest, bests, found.values())), 0),
            "faulty_plans_published": bars.at_most(sum(faulty.fault(p, plan) is not None for p, plan in published), 0),
            "outcomes_misjudged": bars.at_most(sum(map(_misjudged, every)), 0),
            "trials_repeated": bars.at_most(_repeated(folder, every), kills * WORKERS),
            "workers_that_outlived_a_kill": bars.at_most(left, 0),
            "memory_growth": bars.at_most(growth, MOST_GROWTH),
        },
        "faults": dict(Counter(faulty.fault(trial.problem, trial.plan) or "none" for trial in every)),
        "publications": len(published),
        "memory_mib": round(memory[-1] / 1024),
    }


def _not_the_fastest(best: BestPlan | None, trials: Sequence[Trial]) -> bool:
    times = [trial.outcome.timing.time_us for trial in trials if isinstance(trial.outcome, Timed)]
    return best is None or best.timing.time_us != min(times)


def _misjudged(trial: Trial) -> bool:
    expected = faulty.fault(trial.problem, trial.plan)
    if isinstance(trial.outcome, Failed):
        return trial.outcome.stage != STAGES.get(expected or "")
    return expected is not None and not isinstance(trial.outcome, Rejected)


def _repeated(folder: Path, trials: Sequence[Trial]) -> int:
    """Plans that were tried more often than once, or than twice where a try costs the process."""
    tries = Counter((folder / faulty.TRIES).read_text().splitlines())
    costly = {
        f"{trial.problem.key} {trial.plan.key}"
        for trial in trials
        if faulty.fault(trial.problem, trial.plan) in ("crash", "hang")
    }
    return sum(count > (2 if name in costly else 1) for name, count in tries.items())


def _recorded(folder: Path) -> int:
    path = folder / "plans.db"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            (count,) = connection.execute("SELECT count(*) FROM trials").fetchone()
        except sqlite3.OperationalError:  # the tables are being made
            return 0
    return int(count)


def _resident_kib(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def _children(process: int) -> list[int]:
    """Of all its threads."""
    lists = [(task / "children").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
    return [int(child) for each in lists for child in each.split()]


def _outlives(process: int) -> bool:
    """Whether it is still there after 5 s."""
    end = time.monotonic() + 5
    while Path(f"/proc/{process}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    return Path(f"/proc/{process}").exists()


def text(report: bars.Report) -> str:
    """The bars, and what was met."""
    faults = ", ".join(f"{count} {name}" for name, count in sorted(report["faults"].items()))
    return "\n".join(
        [
            f"{report['seconds']:.0f} s; faults of the plans tried: {faults}; {report['publications']} publications; "
            f"{report['memory_mib']} MiB",
            *bars.lines(report),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
