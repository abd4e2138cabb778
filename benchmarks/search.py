"""Replay of recorded search spaces: our search beside plain Optuna and random choice.

python benchmarks/search.py [--quick] [--json] [--spaces DIR]   exit code 1 where a bar is missed, 2 without the spaces

Every space is a table of kernel times (format: README.md beside them). 50 repeats of 200 evaluations (4 with --quick),
each with a fresh search and a seed of its own. An evaluation is a point that was not measured before, also one that
fails; illegal points are in no table and cost nothing. The score is the best time there is over the best time seen, its
mean over the repeats and then over the GPU spaces. Plain Optuna is its TPE sampler with categorical axes, a repeated or
illegal proposal answered without being counted. The attention spaces are one kernel on a CPU at three problems; there
the score is the evaluations until a time within 5 % of the best, from scratch and after the best points of the other
two. Kernel Tuner's figures are quoted, not measured in the run.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import bars  # isort: skip  (before numpy: one thread)

import numpy as np
import optuna

from autotune.search.ask_tell import Search

SPACES = Path(__file__).parents[2] / "shared/data/search_spaces"
LEAST = {20: 0.78, 50: 0.88, 100: 0.945, 200: 0.972}
"""Evaluations to the least mean fraction of the optimum."""
MOST_CPU = 5.0
"""Milliseconds of the search itself for an evaluation."""
CLOSE = 1.05
MOST_EVALUATIONS = {"from_scratch": 6, "others_known": 2}
PRIORS = 3
"""Best points of each known space that are tried first."""
FAMILY = "cpu_attention"
STARTUP = 10
PATIENCE = 20
"""Of plain Optuna: random trials before it infers anything, and proposals in a row without a new legal point."""

KERNEL_TUNER = {
    "adaptive_tabu_greywolf": (0.721, 0.843, 0.918, 0.955),
    "genetic_algorithm": (0.691, 0.792, 0.882, 0.961),
    "hybrid_vndx": (0.697, 0.798, 0.881, 0.956),
    "pso": (0.704, 0.778, 0.875, 0.934),
    "firefly_algorithm": (0.697, 0.787, 0.859, 0.915),
}
"""The five best of Kernel Tuner 1.5.0 after the evaluations of LEAST, measured on the same spaces in its simulation
mode with its default options and a fresh Searchspace for each of 30 repeats; standard errors about 0.01."""

Config = tuple[int, ...]


@dataclass(frozen=True)
class Recording:
    """points: position of each parameter, and its value. times: milliseconds; None where the kernel failed."""

    name: str
    sizes: tuple[int, ...]
    points: dict[Config, dict[str, Any]]
    times: dict[Config, float | None]

    @property
    def optimum(self) -> float:
        return min(time for time in self.times.values() if time is not None)


@cache
def load(path: Path) -> Recording:
    """A recorded space."""
    with gzip.open(path, "rt") as file:
        found = json.load(file)
    values = found["parameters"]
    configs = [tuple(config) for config in found["configs"]]
    points = {config: {name: values[name][position] for name, position in zip(values, config)} for config in configs}
    return Recording(
        found["name"], tuple(len(each) for each in values.values()), points, dict(zip(configs, found["time"]))
    )


def ours(recording: Recording, seed: int, first: Sequence[Config] = ()) -> Iterator[Config]:
    """The points that our search asks for."""
    search = Search(recording.points, first, seed)
    while (config := search.ask()) is not None:
        yield config
        search.tell(config, recording.times[config])


def plain_optuna(recording: Recording, seed: int) -> Iterator[Config]:
    """New legal proposals of the TPE sampler as it comes, and a random point where ``PATIENCE`` in a row are none.

    What fails is told as pruned, and so is an illegal point.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP))
    grid: dict[str, optuna.distributions.BaseDistribution] = {
        str(axis): optuna.distributions.CategoricalDistribution(range(size))
        for axis, size in enumerate(recording.sizes)
    }
    spare = list(at_random(recording, seed))
    seen: set[Config] = set()
    stale = 0
    while len(seen) < len(recording.times):
        if stale == PATIENCE:
            config = next(config for config in spare if config not in seen)
            study.enqueue_trial(dict(zip(grid, config)))
        trial = study.ask(grid)
        config = tuple(trial.params[axis] for axis in grid)
        stale += 1
        if config in recording.times and config not in seen:
            stale = 0
            seen.add(config)
            yield config
        cost = recording.times.get(config)
        if cost is None:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, cost)


def at_random(recording: Recording, seed: int) -> Iterator[Config]:
    """Every point once."""
    configs = list(recording.times)
    Random(seed).shuffle(configs)
    return iter(configs)


METHODS: dict[str, Callable[[Recording, int], Iterator[Config]]] = {
    "ours": ours,
    "optuna": plain_optuna,
    "random": at_random,
}


def replay(path: Path, method: str, seed: int) -> tuple[list[float], float]:
    """The fraction of the optimum after each number of evaluations in LEAST, and CPU milliseconds an evaluation."""
    recording = load(path)
    start = time.process_time()
    asked = list(islice(METHODS[method](recording, seed), max(LEAST)))
    spent = (time.process_time() - start) * 1e3 / len(asked)
    times = np.array([recording.times[config] or np.inf for config in asked])
    return [recording.optimum / float(times[:evaluations].min()) for evaluations in LEAST], spent


def until_close(path: Path, known: Sequence[Path], seed: int) -> int:
    """Evaluations of our search until a time within 5 % of the best, after the best points of the ``known`` spaces."""
    recording = load(path)
    ranked = [sorted(times, key=lambda config: times[config] or np.inf) for times in (load(at).times for at in known)]
    first = [config for place in zip(*(best[:PRIORS] for best in ranked)) for config in place]
    limit = CLOSE * recording.optimum
    asked = enumerate(ours(recording, seed, first), 1)
    return next(count for count, config in asked if (recording.times[config] or np.inf) <= limit)


def measure(spaces: Path, repeats: int) -> dict[str, Any]:
    """Every method on every GPU space, our search on the attention spaces; one process a core."""
    paths = sorted(spaces.glob("*.json.gz"))
    family = [path for path in paths if path.name.startswith(FAMILY)]
    gpu = [path for path in paths if path not in family]
    with ProcessPoolExecutor() as pool:
        replays = {
            (method, path): [pool.submit(replay, path, method, seed) for seed in range(repeats)]
            for method in METHODS
            for path in gpu
        }
        counts = {
            name: [
                pool.submit(until_close, path, [other for other in family if other != path] * transfer, seed)
                for path in family
                for seed in range(repeats)
            ]
            for name, transfer in (("from_scratch", 0), ("others_known", 1))
        }
        done = {key: [each.result() for each in runs] for key, runs in replays.items()}
        evaluations = {name: statistics.median(each.result() for each in runs) for name, runs in counts.items()}
    figures: dict[str, Any] = {}
    for method in METHODS:
        fractions = np.array([[run for run, _ in done[method, path]] for path in gpu])  # (spaces, repeats, budgets)
        errors = np.sqrt((fractions.var(axis=1, ddof=1) / repeats).sum(axis=0)) / len(gpu)
        figures[method] = {
            "mean": dict(zip(LEAST, fractions.mean(axis=(0, 1)).tolist())),
            "standard_error": dict(zip(LEAST, errors.tolist())),
            "spaces": {load(path).name: dict(zip(LEAST, of.mean(axis=0).tolist())) for path, of in zip(gpu, fractions)},
            "cpu_milliseconds": statistics.mean(spent for path in gpu for _, spent in done[method, path]),
        }
    mine = figures["ours"]
    held = {f"fraction_at_{count}": bars.at_least(mine["mean"][count], bar) for count, bar in LEAST.items()}
    held["cpu_milliseconds_an_evaluation"] = bars.at_most(mine["cpu_milliseconds"], MOST_CPU)
    for name, most in MOST_EVALUATIONS.items():
        held[f"attention_evaluations_{name}"] = bars.at_most(evaluations[name], most)
    return {"bars": held, "figures": figures, "repeats": repeats}


def text(report: dict[str, Any]) -> str:
    """A table of the methods, the spaces of ours, and the bars."""
    rows = [f"{'mean fraction of the optimum after':36}" + "".join(f"{count:>16}" for count in LEAST)]
    for method, figure in report["figures"].items():
        cells = [f"{figure['mean'][count]:.3f} +- {figure['standard_error'][count]:.3f}" for count in LEAST]
        rows.append(f"{method:36}" + "".join(f"{cell:>16}" for cell in cells))
    for method, quoted in KERNEL_TUNER.items():
        rows.append(f"{f'Kernel Tuner, {method} (quoted)':38}" + "".join(f"{fraction:<16.3f}" for fraction in quoted))
    for method, figure in report["figures"].items():
        for space, fractions in figure["spaces"].items():
            rows.append(f"{f'  {method}, {space}':36}" + "".join(f"{fractions[count]:>16.3f}" for count in LEAST))
    return "\n".join([*rows, *bars.lines(report), f"{report['repeats']} repeats"])


def main() -> int:
    """The script."""
    parser = bars.parser(__doc__, "4 repeats instead of 50")
    parser.add_argument("--spaces", type=Path, default=SPACES, help="folder of the recorded spaces")
    options = parser.parse_args()
    if not any(options.spaces.glob("*.json.gz")):
        print(f"no recorded spaces in {options.spaces}; name their folder with --spaces", file=sys.stderr)
        return 2
    return bars.finish(measure(options.spaces, 4 if options.quick else 50), options.json, text)


if __name__ == "__main__":
    sys.exit(main())
