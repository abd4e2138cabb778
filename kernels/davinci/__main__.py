"""Runs a Python script with the toolkit's modules emulated.

usage: python -m autotune.kernels.davinci [options] SCRIPT [ARGS]

options:
  --strict        report reads of what nothing wrote, overlaps, races between cores, GM arrays shorter than declared
  --trace FILE    write a line for each executed instruction
  --summary       print each kernel's size and the tensors that fill its memories at their fullest
  --shuffle SEED  run the cores in an order drawn from SEED
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from autotune.kernels.davinci import install, options

_FLAGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "--strict": options.strict,
    "--summary": lambda: options.using(built=lambda program: print(program.summary())),
}
_WITH_VALUE: dict[str, Callable[[str], AbstractContextManager[None]]] = {
    "--trace": options.traced,
    "--shuffle": lambda seed: options.shuffled_cores(int(seed)),
}


def main(arguments: list[str]) -> int:
    """Runs the script named first after the options, with the rest as its arguments; 2 where that cannot be."""
    chosen: list[AbstractContextManager[None]] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        if name in ("-h", "--help"):
            print(__doc__)
            return 0
        if name in _FLAGS:
            chosen.append(_FLAGS[name]())
        elif name in _WITH_VALUE and rest:
            try:
                chosen.append(_WITH_VALUE[name](rest.pop(0)))
            except ValueError as error:
                return _refuse(f"{name}: {error}")
        else:
            return _refuse(f"no such option, or no value for it: {name}")
    if not rest:
        return _refuse("no SCRIPT given")
    if not os.path.isfile(rest[0]):
        return _refuse(f"no such script: {rest[0]}")
    with ExitStack() as stack:
        for manager in chosen:
            stack.enter_context(manager)
        _run(rest)
    return 0


def _refuse(reason: str) -> int:
    print(f"{reason}; see --help", file=sys.stderr)
    return 2


def _run(arguments: list[str]) -> None:
    install()
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
