"""One measuring process for each device of a machine: two at once would measure each other."""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.errors import TargetUnavailable


@contextmanager
def held(device: str, folder: Path | None = None) -> Iterator[None]:
    """Holds the device's lock file, which names its holder; the system lets go of it when the process ends.

    folder: the machine's folder for temporary files where none is given. Raises TargetUnavailable naming the holder.
    """
    path = (folder or Path(tempfile.gettempdir())) / f"autotune-{re.sub(r'[^A-Za-z0-9.]', '-', device)}.lock"
    try:
        descriptor = _open(path)
    except OSError as error:
        raise TargetUnavailable(f"cannot lock {device}: {path}: {error.strerror}") from error
    with open(descriptor, "r+", encoding="utf-8", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = file.read(200).strip() or "another process"
            raise TargetUnavailable(
                f"{device} is being measured by {holder}; wait for it to end, two at once disturb each other"
            ) from error
        file.truncate()
        file.write(f"process {os.getpid()} of {getpass.getuser()}\n")
        file.flush()
        yield


def _open(path: Path) -> int:
    """Everybody may write it: a lock is the machine's, not its first user's. Existing files are opened as they are."""
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        os.fchmod(descriptor, 0o666)
        return descriptor
