"""Where a problem is found again: the addresses of pages, and what to type to sweep it or to ask for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from autotune.problem import AttentionProblem

USUAL = AttentionProblem.of((1, 1, 1, 1)).to_json()
"""The options of a problem that has none."""


def query(problem: AttentionProblem, device: str, **more: object) -> str:
    """The parameters of ``/best`` and of every page about a problem, without those at their defaults."""
    shape = {"shape": ",".join(map(str, problem.shape))}
    given = {name: value for name, value in more.items() if value is not None}
    return urlencode({**shape, "device": device, **dict(_options(problem)), **given}, safe=",:")


def command(problem: AttentionProblem, target: str) -> str:
    """The command that sweeps a problem on a target."""
    return shlex.join(["autotune", "sweep", *words([problem], target)])


def words(problems: Sequence[AttentionProblem], target: str) -> list[str]:
    """The options of ``autotune sweep`` for problems that differ in their shape alone."""
    found = ["--device", target]
    for problem in problems:
        found += ["--shape", ",".join(map(str, problem.shape))]
    for name, value in _options(problems[0]):
        flag = f"--{name.replace('_', '-')}"
        found += [flag] if value == "true" else [flag, value]
    return found


def call(problem: AttentionProblem, device: str, url: str) -> str:
    """The line of Python that asks the service at ``url`` from inside a kernel build."""
    options = {name: value for name, value in problem.to_json().items() if name != "shape" and value != USUAL[name]}
    words = [f"{name}={tuple(value) if isinstance(value, list) else value!r}" for name, value in options.items()]
    return f"plan = best({', '.join([str(problem.shape), *words, f'device={device!r}', f'url={url!r}'])})"


def _options(problem: AttentionProblem) -> Iterator[tuple[str, str]]:
    for name, value in problem.to_json().items():
        if name != "shape" and value != USUAL[name]:
            yield name, _text(value)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()
