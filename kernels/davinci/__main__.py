"""python -m autotune.kernels.davinci SCRIPT [ARGS]: runs a Python script with the toolkit's modules emulated."""

from __future__ import annotations

import os
import runpy
import sys

from autotune.kernels.davinci import install


def main(arguments: list[str]) -> int:
    """Runs the script named first with the rest as its arguments; 2 where there is no such file."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    if not os.path.isfile(arguments[0]):
        print(f"no such script: {arguments[0]}", file=sys.stderr)
        return 2
    install()
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
