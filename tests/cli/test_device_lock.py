"""One measuring process for each device; the second one is told who the first is."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.cli.device_lock import held
from autotune.errors import TargetUnavailable

HOLD = """
import sys
from pathlib import Path
from autotune.cli.device_lock import held
with held("cpu", Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root}
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        message = f"cpu is being measured by process {first.pid} of "
        with pytest.raises(TargetUnavailable, match=message), held("cpu", tmp_path):
            pass
        with held("cpu:1", tmp_path):
            pass
        first.kill()
    with held("cpu", tmp_path):
        assert f"process {os.getpid()} of" in (tmp_path / "autotune-cpu.lock").read_text()


def test_the_lock_is_everybody_s(tmp_path: Path) -> None:
    with held("cpu", tmp_path):
        pass
    assert stat.S_IMODE((tmp_path / "autotune-cpu.lock").stat().st_mode) == 0o666


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / "autotune-cpu.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(TargetUnavailable, match="cannot lock cpu"), held("cpu", tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "keep me"
