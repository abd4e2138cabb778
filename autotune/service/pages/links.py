"""Where a problem is found again: the addresses of pages, and what to type to sweep it or to ask for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
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
    words = ["autotune", "sweep", "--device", target, "--shape", ",".join(map(str, problem.shape))]
    for name, value in _options(problem):
        flag = f"--{name.replace('_', '-')}"
        words += [flag] if value == "true" else [flag, value]
    return shlex.join(words)


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
