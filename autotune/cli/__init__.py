"""The command line: the composition root, which chooses store, target and executor."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from autotune.cli import calibrate as _calibrate  # noqa: F401 - they add their commands
from autotune.cli import explain as _explain  # noqa: F401
from autotune.cli import keeping as _keeping  # noqa: F401
from autotune.cli import keys as _keys  # noqa: F401
from autotune.cli import report as _report  # noqa: F401
from autotune.cli.commands import app
from autotune.errors import AutotuneError, InvalidInput

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes; a command returns 0 when it is done and 3 when it found nothing. 130 is 128 + SIGINT, as in shells."""

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command ``autotune``: runs one command and returns its exit code. Errors are one sentence on stderr."""
    # Before numpy is imported: a product of 128 x 64 matrices takes 17 times as long when BLAS starts threads for it.
    for variable in THREAD_VARIABLES:
        os.environ.setdefault(variable, "1")
    try:
        given = sys.argv[1:] if arguments is None else arguments
        return app(args=given or ["--help"], prog_name="autotune", standalone_mode=False) or 0
    except typer.TyperException as error:
        return _say(error.format_message(), error.exit_code)
    except InvalidInput as error:
        return _say(str(error), WRONG_USAGE)
    except AutotuneError as error:
        return _say(str(error), FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left; python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _say(sentence: str, code: int) -> int:
    print(f"autotune: {' '.join(sentence.split())}", file=sys.stderr)  # noqa: T201
    return code
