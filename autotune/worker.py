"""One process for trials: it may crash, hang or be killed, and the process that started it goes on.

It leads a session and process group of its own, so that Ctrl-C does not reach it and all that it started can be killed
with it; it dies when its parent does. The two talk through a pair of sockets: a recipe of the executor, then, one at a
time, the name of one of its methods with arguments, and an answer. What it prints goes to a file without a name, which
is read when it crashes.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from autotune.errors import Crashed, TargetUnavailable, TimedOut
from autotune.executor import InProcess

Make = Callable[[], InProcess]
"""Builds a worker's executor. It and what it returns must be found by import in the new process."""

START_SECONDS = 120.0
"""To import, and to open the target."""
LAST_WORDS = 300
"""Characters of what a crashed process printed that are kept."""
PR_SET_PDEATHSIG = 1
"""prctl(2), linux/prctl.h: the signal to get when the thread that started the process ends."""


class Worker:
    """The parent's side. Not for several threads, but any may ``kill`` it.

    It must be started by a thread that lives as long as it should: Linux counts the end of that thread as the parent's.
    Raises OSError where the machine starts no process.
    """

    def __init__(self, make: Make) -> None:
        self._pipe, theirs = Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        try:
            self._process = self._start(theirs)
        except OSError:
            self._pipe.close()
            self._log.close()
            raise
        finally:
            theirs.close()
        self._pipe.send(make)

    def _start(self, theirs: Connection) -> subprocess.Popen[bytes]:
        # -P: a file of the caller's folder must not stand in for a module.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), str(os.getpid())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    def wait_ready(self, fingerprint: str) -> None:
        """Raises TargetUnavailable where the process does not start, or opens another target than this one."""
        try:
            found = self._receive(START_SECONDS)
        except (Crashed, TimedOut) as error:
            raise TargetUnavailable(f"a worker does not start: {error}") from error
        if found != fingerprint:
            raise TargetUnavailable(f"a worker found the target {found}, the sweep {fingerprint}: what has changed?")

    def ask(self, method: str, *arguments: Any, seconds: float) -> Any:
        """What a method of the executor returns. Raises Crashed, TimedOut, and what the method raises.

        After Crashed or TimedOut the worker is of no further use.
        """
        self._log.seek(0)  # the process shares this position, and prints nothing while it has nothing to do
        self._log.truncate()
        try:
            self._pipe.send((method, arguments))
        except OSError as error:
            raise Crashed(self._last_words()) from error
        return self._receive(seconds)

    def kill(self) -> None:
        """Ends the process and all that it started, whatever they are doing."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills it and lets go of what belongs to it."""
        self.kill()
        self._process.wait()
        self._pipe.close()
        self._log.close()

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._pipe.poll(seconds):
                raise TimedOut(f"not done after {seconds:.0f} s, the time limit; its process was ended")
            returned, value = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise Crashed(self._last_words()) from error
        if not returned:
            raise value
        return value

    def _last_words(self) -> str:
        """How the process ended, and the first of what it printed: there the interpreter names the cause."""
        self.kill()
        code = self._process.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._log.seek(0)
        printed = " ".join(self._log.read(LAST_WORDS).decode(errors="replace").split())
        return f"its process ended {how}" + (f": {printed}" if printed else "")


def serve(pipe: Connection) -> None:
    """The worker's side: does what it is asked until nobody asks any more."""
    try:
        make: Make = pipe.recv()
        executor = _answer(pipe, make, lambda made: made.target.fingerprint)
        while executor:
            method, arguments = pipe.recv()
            _answer(pipe, lambda: getattr(executor, method)(*arguments))  # noqa: B023 - called at once
    except (EOFError, ConnectionError):
        return


def _answer(pipe: Connection, call: Callable[[], Any], told: Callable[[Any], Any] = lambda value: value) -> Any:
    """Calls and sends what came of it; an error with its traceback, to be raised on the other side."""
    try:
        value = call()
        message = True, told(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, it flies on the other side
        error.add_note(f"in a worker process:\n{traceback.format_exc()}")
        value, message = None, (False, error)
    pipe.send(message)
    return value


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before it could be watched
        sys.exit()


if __name__ == "__main__":
    _die_with(int(sys.argv[2]))
    faulthandler.enable()
    with Connection(int(sys.argv[1])) as connection:
        serve(connection)
