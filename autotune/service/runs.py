"""Sweeps that this service started: each a process of its own, which ``autotune sweep`` is, on the same database."""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Lock, Thread

from autotune.service.refusals import AlreadyRunning

LOG_LINES = 200
MOST_REMEMBERED = 100
"""Runs whose end is remembered."""
STOP_S = 30.0
"""What a sweep gets to publish what it found when the service stops."""

RUNNING, FAILED = "running", "failed"
STATES = {0: "done", 3: "nothing found", 130: "stopped", -signal.SIGINT: "stopped", -signal.SIGTERM: "stopped"}
"""What a process's exit code says; any other is FAILED."""


class Run:
    """One process. log: the last lines that it said."""

    def __init__(self, name: str, target: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name, self.target = name, target
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        # A session of its own: Ctrl-C in the service's terminal is the service's to answer.
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def state(self) -> str:
        """``running``, or how it ended."""
        code = self._process.poll()
        return RUNNING if code is None else STATES.get(code, FAILED)

    def stop(self) -> None:
        """Asks it to end as Ctrl-C does: it publishes what it found first."""
        if self._process.poll() is None:
            self._process.terminate()  # a service that runs in the background has taught its children to ignore SIGINT

    def wait(self, seconds: float) -> None:
        """Waits for its end; kills it after that time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1.0)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            self.log.extend(line.rstrip("\n")[:500] for line in lines)


class Runs:
    """The runs of one service. command: what begins a sweep, without its options. environment: of its process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._runs: dict[str, Run] = {}
        self._lock = Lock()

    def start(self, target: str, options: Sequence[str]) -> Run:
        """Begins a sweep. Raises AlreadyRunning."""
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        with self._lock:
            for run in self._runs.values():
                if run.target == target and run.state == RUNNING:
                    raise AlreadyRunning(f"sweep {run.name} runs on {target}; stop it, or wait for its end")
            ended = [known for known, run in self._runs.items() if run.state != RUNNING]
            for known in ended[: max(0, len(self._runs) + 1 - MOST_REMEMBERED)]:
                del self._runs[known]
            self._runs[name] = run = Run(name, target, [*self._command, "--name", name, *options], self._environment)
        return run

    def get(self, name: str) -> Run | None:
        """The run of that name, where this service started it."""
        return self._runs.get(name)

    def all(self) -> list[Run]:
        """Every run, the latest first."""
        return list(self._runs.values())[::-1]

    def close(self) -> None:
        """Ends all of them, politely at first."""
        for run in self._runs.values():
            run.stop()
        for run in self._runs.values():
            run.wait(STOP_S)
